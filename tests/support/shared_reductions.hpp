// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reductions of agreement vectors in memory, among threads that stand for ranks.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "cluster/step_agreement.hpp"
#include "reprieve/error.hpp"

namespace reprieve::test {

using cluster::AgreementVector;
using cluster::ReductionChannel;

/// The n-th reduction of all ranks, complete when each has posted it.
class SharedReductions {
 public:
  explicit SharedReductions(int size) : size_(size) {}

  void post(std::size_t n, const AgreementVector& mine) {
    const std::lock_guard lock(mutex_);
    Reduction& reduction = reductions_[n];
    for (std::size_t i = 0; i < mine.size(); ++i) {
      reduction.result[i] = reduction.posted == 0 ? mine[i] : std::max(reduction.result[i], mine[i]);
    }
    if (++reduction.posted == size_) {
      complete_.notify_all();
    }
  }

  bool test(std::size_t n, AgreementVector& result) {
    const std::lock_guard lock(mutex_);
    result = reductions_[n].result;
    return reductions_[n].posted == size_;
  }

  AgreementVector wait(std::size_t n, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (!complete_.wait_for(lock, limit, [&] { return reductions_[n].posted == size_; })) {
      throw UnresponsiveError("a rank did not post", {});
    }
    return reductions_[n].result;
  }

 private:
  struct Reduction {
    int posted = 0;
    AgreementVector result{};
  };
  int size_;
  std::mutex mutex_;
  std::condition_variable complete_;
  std::map<std::size_t, Reduction> reductions_;
};

/// One rank's side of them.
class ThreadChannel : public ReductionChannel {
 public:
  explicit ThreadChannel(SharedReductions& shared) : shared_(shared) {}
  void post(const AgreementVector& mine) override { shared_.post(next_, mine); }
  bool test(AgreementVector& result) override {
    const bool done = shared_.test(next_, result);
    next_ += done ? 1 : 0;
    return done;
  }
  AgreementVector wait(std::string_view, std::chrono::milliseconds limit) override {
    return shared_.wait(next_++, limit);
  }

 private:
  SharedReductions& shared_;
  std::size_t next_ = 0;
};

}  // namespace reprieve::test
