// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a handler tells the tools and the people who look at a run later: in the event log and in the run record
/// (src/core/README.md lists the events). The chief writes it; calls on other ranks do nothing. Not collective.

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "manager/manager_impl.hpp"
#include "reprieve/notice.hpp"
#include "reprieve/platform.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve::handler {

inline double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

class RunLog {
 public:
  explicit RunLog(CheckpointManager::Impl& manager) : manager_(manager) {}

  /// Every rank watches its signals.
  void ready(std::uint64_t run_calls, const TerminationConfig& config, const PlatformInfo& platform,
             std::string_view agreement);
  void already_finished(std::uint64_t run_calls, bool refused);
  /// All ranks know of @p notice, and stand at this boundary.
  void agreed(const TerminationNotice& notice, std::uint64_t run_calls, std::int64_t boundary);
  /// How long a notice may have to wait for the end of a step.
  void longest_step(std::uint64_t run_calls, std::chrono::nanoseconds length);
  void save_skipped(std::uint64_t step);
  void trains_on(std::uint64_t run_calls, std::chrono::duration<double> time_left);
  void leaves(std::uint64_t run_calls, const ExitContext& context);
  /// After it was to leave.
  void went_on(std::uint64_t run_calls);
  void finished(std::uint64_t run_calls);
  void failed(std::uint64_t run_calls, int rank, ErrorCode code, const std::string& message);

  /// How far the run is. @param only_record  for its supervisor alone
  void step(std::uint64_t run_calls, std::chrono::nanoseconds length, bool only_record);
  /// For a drill.
  void arrivals(const nlohmann::json& of_ranks);

 private:
  CheckpointManager::Impl& manager_;
};

}  // namespace reprieve::handler
