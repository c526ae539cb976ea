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

/// The n-th vector of all ranks: of each element the largest. Complete when each rank has posted its own.
template <class Vector>
class SharedMaxima {
 public:
  explicit SharedMaxima(int size) : size_(size) {}

  void post(std::size_t n, const Vector& mine) {
    const std::lock_guard lock(mutex_);
    Maxima& maxima = maxima_[n];
    for (std::size_t i = 0; i < mine.size(); ++i) {
      maxima.result[i] = maxima.posted == 0 ? mine[i] : std::max(maxima.result[i], mine[i]);
    }
    if (++maxima.posted == size_) {
      complete_.notify_all();
    }
  }

  bool test(std::size_t n, Vector& result) {
    const std::lock_guard lock(mutex_);
    result = maxima_[n].result;
    return maxima_[n].posted == size_;
  }

  Vector wait(std::size_t n, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (!complete_.wait_for(lock, limit, [&] { return maxima_[n].posted == size_; })) {
      throw UnresponsiveError("a rank did not post", {});
    }
    return maxima_[n].result;
  }

  /// Whether any rank has posted the n-th; how many any rank has posted, or all ranks.
  bool has_begun(std::size_t n) {
    const std::lock_guard lock(mutex_);
    return maxima_[n].posted > 0;
  }
  [[nodiscard]] std::size_t begun() { return begun_by(1); }
  [[nodiscard]] std::size_t begun_by_all() { return begun_by(size_); }

 private:
  struct Maxima {
    int posted = 0;
    Vector result{};
  };
  [[nodiscard]] std::size_t begun_by(int least) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(maxima_, [&](const auto& maxima) { return maxima.second.posted >= least; }));
  }

  int size_;
  std::mutex mutex_;
  std::condition_variable complete_;
  std::map<std::size_t, Maxima> maxima_;
};

using SharedReductions = SharedMaxima<AgreementVector>;

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
