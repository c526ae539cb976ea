#pragma once

/// @file
/// Parts of the JSON summary that every program writes for scripts.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
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

/// To be called in an exit function.
/// @param run_calls  calls of run before the save
Preemption preemption_of(const reprieve::ExitContext& context, std::uint64_t run_calls);

Json to_json(const Preemption& preemption);

/// Tells on standard output how it went.
void print(const Preemption& preemption, int exit_code);

/// The text of a summary, with a line break at its end.
std::string text_of(const Json& summary);

/// Writes it under a temporary name and renames it, so that a reader never meets half a summary.
/// @throws reprieve::StorageError
void write_summary(const Json& summary, const std::filesystem::path& file);

}  // namespace apps
