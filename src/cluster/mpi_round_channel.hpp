// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Rounds of the threads over MPI: wake-up messages along a tree, and MPI_Iallreduce.

#include <chrono>
#include <memory>

#include "cluster/communicator.hpp"
#include "cluster/round_thread.hpp"

namespace reprieve::cluster {

/// Uses @p comm, which must outlive it and which nobody else uses while a thread does. Needs MPI_THREAD_MULTIPLE.
class MpiRoundChannel final : public RoundChannel {
 public:
  explicit MpiRoundChannel(Communicator& comm);
  ~MpiRoundChannel() override;
  MpiRoundChannel(const MpiRoundChannel&) = delete;
  MpiRoundChannel& operator=(const MpiRoundChannel&) = delete;

  void listen() override;
  bool woken() override;
  void begin(const RoundVector& mine) override;
  bool test(RoundVector& result) override;
  [[noreturn]] void give_up() override;
  void leave() noexcept override;

 private:
  /// What MPI may touch at any time while something is under way.
  struct Exchange;

  [[nodiscard]] bool others_gave_up();

  Communicator& comm_;
  std::unique_ptr<Exchange> exchange_;
  std::chrono::steady_clock::time_point began_{};  ///< the last round
};

/// Whether MPI lets any thread of this process call it.
[[nodiscard]] bool any_thread_may_use_mpi();

}  // namespace reprieve::cluster
