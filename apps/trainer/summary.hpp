#pragma once

/// @file
/// The result of a run as JSON, for scripts.

#include <cstdint>
#include <optional>
#include <string>

#include "common/summary.hpp"
#include "trainer/digest.hpp"
#include "trainer/training.hpp"

namespace trainer {

struct Summary {
  int world_size = 1;
  std::uint64_t run_calls = 0;
  std::optional<std::string> restored_from;             ///< file name
  std::optional<std::uint64_t> restored_shared_digest;  ///< right after the restore
  Progress progress;
  Evaluation evaluation;
  Digests digests;
  std::optional<apps::Preemption> preemption;  ///< nothing: the run finished
};

/// apps/trainer/README.md describes the keys.
apps::Json to_json(const Summary& summary);

}  // namespace trainer
