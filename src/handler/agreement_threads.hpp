// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The threads by which the ranks agree on the next check, where MPI allows them (cluster/round_thread.hpp).

#include <chrono>
#include <functional>
#include <optional>

#include "cluster/communicator.hpp"
#include "cluster/mpi_round_channel.hpp"
#include "cluster/round_thread.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve::handler {

/// Whether the ranks are to agree by threads. Who wants a check at every boundary gets that. Collective.
/// @throws ConfigError, on all ranks, if threads are asked for and MPI does not allow them
[[nodiscard]] bool threads_are_wanted(cluster::Communicator& comm, const TerminationConfig& config);

/// One rank's thread, and what it communicates by. There is none before `start`.
class AgreementThreads {
 public:
  /// Starts them; if one rank can make no thread, none uses them. Collective. They rest until `resume`.
  /// @param has_news  called in the thread: whether this rank knows something that the others do not
  void start(cluster::Communicator& comm, std::chrono::milliseconds peer_timeout, std::function<bool()> has_news);

  [[nodiscard]] bool running() const noexcept { return thread_.has_value(); }
  /// The thread, while there is one.
  [[nodiscard]] cluster::RoundThread& operator*() { return *thread_; }
  cluster::RoundThread* operator->() { return &*thread_; }

  /// Ranks were missing.
  [[nodiscard]] bool broken() const { return thread_ && thread_->broken(); }
  /// At a place where all ranks are: they have just told each other that nothing more will be agreed on, for now.
  void rest() noexcept { rest(std::chrono::seconds(10)); }  // there is no reason for any to come late
  void rest(std::chrono::milliseconds limit) noexcept;
  void resume() noexcept;
  /// MPI is about to end.
  void abandon() noexcept;

 private:
  std::optional<cluster::Communicator> comm_;
  std::optional<cluster::MpiRoundChannel> channel_;
  std::optional<cluster::RoundThread> thread_;  ///< uses what stands above
};

}  // namespace reprieve::handler
