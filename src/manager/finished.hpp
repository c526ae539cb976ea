// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The mark of a run that came to its end, so that a start after it does no work twice. The chief's.

#include <cstdint>
#include <optional>

#include "manager/checkpoint_directory.hpp"
#include "manager/run_identity.hpp"

namespace reprieve::manager {

/// The directory remembers that the run is finished, until something is saved or removed. @throws StorageError
void mark_finished(CheckpointDirectory& directory, RunIdentity& identity, std::uint64_t run_calls);

/// The calls of run at which a run of this prefix was finished, if it was and nothing has changed since.
[[nodiscard]] std::optional<std::uint64_t> finished_at(CheckpointDirectory& directory, const RunIdentity& identity);

}  // namespace reprieve::manager
