// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether there is memory for the copies of the state that a save in the background needs.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/available_memory.hpp"

namespace reprieve::manager {

/// What one rank needs for its copy, and has.
struct CopyDemand {
  std::string host;
  std::uint64_t bytes = 0;
  core::AvailableMemory available;
};

/// Why the copies of all ranks do not fit together; empty if they do. Ranks of a host share its memory, ranks of a
/// control group its limit; a part is left free for what else goes on.
[[nodiscard]] std::string why_copies_do_not_fit(std::span<const CopyDemand> demands);

/// The same for all ranks of a communicator: asked before a byte is copied, since a system that runs out of memory
/// kills a rank instead of returning an error. Collective. @param bytes  that this rank must get from the system
/// @param tells  log the reason @return the same on every rank
[[nodiscard]] bool copies_fit(cluster::Communicator& comm, std::uint64_t bytes, const std::string& what,
                              bool tells = true);

}  // namespace reprieve::manager
