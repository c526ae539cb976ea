// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Rounds of threads in memory, among threads that stand for ranks.

#include <atomic>
#include <cstddef>

#include "cluster/round_thread.hpp"
#include "reprieve/error.hpp"
#include "support/shared_reductions.hpp"

namespace reprieve::test {

using cluster::RoundVector;

using SharedRounds = SharedMaxima<RoundVector>;

/// One rank's side of them.
class ThreadRoundChannel final : public cluster::RoundChannel {
 public:
  explicit ThreadRoundChannel(SharedRounds& shared) : shared_(shared) {}
  void listen() override {}
  bool woken() override { return shared_.has_begun(next_); }
  void begin(const RoundVector& mine) override { shared_.post(next_, mine); }
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
