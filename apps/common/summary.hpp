// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Parts of the JSON summary that every program writes for scripts.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <reprieve/checkpoint_manager.hpp>
#include <reprieve/termination_config.hpp>
#include <string>

namespace apps {

/// Keys stay in the order in which they are written.
using Json = nlohmann::ordered_json;

/// How a preemption went.
struct Preemption {
  reprieve::TerminationNotice notice;
  std::uint64_t save_step = 0;               ///< calls of run before the save
  double seconds_from_notice_to_commit = 0;  ///< on the monotonic clock
  std::string checkpoint;                    ///< path of the committed file
};

/// What the results of all programs have in common.
struct Outcome {
  int world_size = 1;
  std::uint64_t run_calls = 0;
  std::optional<std::string> restored_from;      ///< file name
  std::optional<std::uint64_t> restored_digest;  ///< of the state right after the restore
  std::optional<Preemption> preemption;          ///< nothing: the run finished
};

/// To be called in an exit function.
/// @param run_calls  calls of run before the save
Preemption preemption_of(const reprieve::ExitContext& context, std::uint64_t run_calls);

Json to_json(const Preemption& preemption);

/// "resumed from ckpt-7.h5, saved by 4 ranks (preemption): "
std::string resumed_text(const reprieve::CheckpointInfo& from);

/// Tells on standard output how it went.
void print(const Preemption& preemption, int exit_code);

/// The text of a summary, with a line break at its end.
std::string text_of(const Json& summary);

/// Writes it under a temporary name and renames it, so that a reader never meets half a summary.
/// @throws reprieve::StorageError
void write_summary(const Json& summary, const std::filesystem::path& file);

}  // namespace apps
