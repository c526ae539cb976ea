// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a handler writes for tools and people who examine a run later: in the event log and in the run record
/// (core/events.hpp lists the events). Rank 0 writes it; calls on other ranks do nothing. Not collective.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/communicator.hpp"
#include "core/run_record.hpp"
#include "handler/memory_watch.hpp"
#include "handler/save_policy.hpp"
#include "manager/manager_impl.hpp"
#include "reprieve/notice.hpp"
#include "reprieve/platform.hpp"
#include "reprieve/termination_config.hpp"
#include "termination/metadata_source.hpp"

namespace reprieve::handler {

inline double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

class RunLog {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RunLog(CheckpointManager::Impl& manager) : manager_(manager), for_drill_(manager.drill.has_value()) {}

  void write(const core::Event& event) { manager_.record(event); }
  /// Every rank watches its signals.
  void ready(std::uint64_t run_calls, const TerminationConfig& config, const PlatformInfo& platform,
             std::string_view agreement);
  /// All ranks know of @p notice, and stand at this boundary.
  void agreed(const TerminationNotice& notice, std::uint64_t run_calls, std::int64_t boundary);
  /// At a check: how far the run is, now and then. A drill gets it ten times a second, in the run record alone. Without
  /// the memory for it, it is not written.
  void step(std::uint64_t run_calls, std::chrono::nanoseconds length) noexcept;
  /// When that is due again.
  [[nodiscard]] Clock::time_point next_step() const noexcept { return next_step_; }

 private:
  CheckpointManager::Impl& manager_;
  bool for_drill_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_step_ = for_drill_ ? begin_ : begin_ + news_interval(Clock::duration(0));
};

// What a handler does besides its work in a dry run of `reprieve drill`: a notice that is there from the
// start, steps at which it saves or leaves, and what the drill wants to know. Without a drill nothing here does
// anything.

class DryRun {
 public:
  /// @param orders  of the drill, if this is one
  DryRun(std::optional<core::DrillOrders> orders, RunLog& log);

  /// Where a restart is tried in a dry run, rank 0 has a notice as soon as the handler is ready.
  [[nodiscard]] bool leaves_at_once() const noexcept { return orders_ && orders_->leave_at_once; }

  /// The order of the drill for a step boundary.
  struct Action {
    bool save = false;
    bool leave = false;  ///< after a save
    bool watch_memory = false;
  };
  /// Whether anything is. All ranks have the same orders and count alike, so they need not ask each other.
  [[nodiscard]] bool is_due(std::uint64_t run_calls) const noexcept {
    return run_calls >= std::min({save_at_, leave_at_, watch_memory_at_});
  }
  /// The same, which from now on counts as done. @param is_last  the program comes to its end here
  [[nodiscard]] Action take_action(std::uint64_t run_calls, bool is_last) noexcept;

  /// What the step before this boundary has changed in the memory of rank 0. Collective.
  void watch_memory(cluster::Communicator& comm, const Checkpoint::Registry& registry);

  /// Which ranks have had a notice of their own, and how long ago. Collective.
  void send_arrivals(cluster::Communicator& comm, const std::optional<termination::LocalNotice>& mine);

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  std::optional<core::DrillOrders> orders_;
  std::uint64_t save_at_ = kNever;   ///< not yet done
  std::uint64_t leave_at_ = kNever;  ///< the same
  std::uint64_t watch_memory_at_ = kNever;
  MemoryWatch memory_watch_;
  int memory_samples_ = 0;
  RunLog& log_;
};

}  // namespace reprieve::handler
