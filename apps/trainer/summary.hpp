#pragma once

/// @file
/// The result of a run as JSON, for scripts.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <reprieve/termination_config.hpp>
#include <string>

#include "trainer/digest.hpp"
#include "trainer/training.hpp"

namespace trainer {

/// How a preemption went.
struct Preemption {
  reprieve::TerminationNotice notice;
  std::uint64_t save_step = 0;               ///< calls of run before the save
  double seconds_from_notice_to_commit = 0;  ///< on the monotonic clock
  std::string checkpoint;                    ///< path of the committed file
};

struct Summary {
  int world_size = 1;
  std::uint64_t run_calls = 0;
  std::optional<std::string> restored_from;             ///< file name
  std::optional<std::uint64_t> restored_shared_digest;  ///< right after the restore
  Progress progress;
  Evaluation evaluation;
  Digests digests;
  std::optional<Preemption> preemption;  ///< nothing: the run finished
};

/// The summary as JSON text; apps/trainer/README.md describes the keys.
std::string to_json(const Summary& summary);

/// Writes it under a temporary name and renames it, so that a reader never meets half a summary.
/// @throws reprieve::StorageError
void write_summary(const Summary& summary, const std::filesystem::path& file);

}  // namespace trainer
