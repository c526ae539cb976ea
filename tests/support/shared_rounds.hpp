// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Rounds of threads in memory, among threads that stand for ranks.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>

#include "cluster/round_thread.hpp"
#include "reprieve/error.hpp"

namespace reprieve::test {

using cluster::RoundVector;

/// The n-th round of all ranks.
class SharedRounds {
 public:
  explicit SharedRounds(int size) : size_(size) {}

  void begin(std::size_t n, const RoundVector& mine) {
    const std::lock_guard lock(mutex_);
    Round& round = rounds_[n];
    for (std::size_t i = 0; i < mine.size(); ++i) {
      round.result[i] = round.ranks == 0 ? mine[i] : std::max(round.result[i], mine[i]);
    }
    ++round.ranks;
  }
  bool has_begun(std::size_t n) {
    const std::lock_guard lock(mutex_);
    return rounds_[n].ranks > 0;
  }
  bool test(std::size_t n, RoundVector& result) {
    const std::lock_guard lock(mutex_);
    result = rounds_[n].result;
    return rounds_[n].ranks == size_;
  }
  /// How many rounds any rank has begun.
  [[nodiscard]] std::size_t begun() { return begun_by(1); }
  /// How many rounds all ranks have begun.
  [[nodiscard]] std::size_t begun_by_all() { return begun_by(size_); }

 private:
  struct Round {
    int ranks = 0;
    RoundVector result{};
  };
  [[nodiscard]] std::size_t begun_by(int least) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(rounds_.begin(), rounds_.end(), [&](const auto& round) { return round.second.ranks >= least; }));
  }

  int size_;
  std::mutex mutex_;
  std::map<std::size_t, Round> rounds_;
};

/// One rank's side of them.
class ThreadRoundChannel final : public cluster::RoundChannel {
 public:
  explicit ThreadRoundChannel(SharedRounds& shared) : shared_(shared) {}
  void listen() override {}
  bool woken() override { return shared_.has_begun(next_); }
  void begin(const RoundVector& mine) override { shared_.begin(next_, mine); }
  bool test(RoundVector& result) override {
    const bool done = shared_.test(next_, result);
    next_ += done ? 1 : 0;
    return done;
  }
  [[noreturn]] void give_up() override { throw UnresponsiveError("no answer from rank 1", {1}); }
  void leave() noexcept override { left = true; }
  std::atomic<bool> left{false};

 private:
  SharedRounds& shared_;
  std::size_t next_ = 0;
};

}  // namespace reprieve::test
