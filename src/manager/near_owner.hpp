// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whose near copies are meant.

#include <cstdint>
#include <string>

#include "cluster/communicator.hpp"
#include "manager/near_place.hpp"
#include "reprieve/checkpoint_manager.hpp"

namespace reprieve::manager {

/// Whether this rank is the lowest of its host: the ranks of a host share a place, and one of them looks after it.
[[nodiscard]] bool is_first_of_host(const cluster::Communicator& comm);

/// Which run of which directory copies belong to.
struct NearOwner {
  std::string directory_id;
  std::uint64_t inode = 0;  ///< of the directory, as the chief sees it
  std::uint64_t run = 0;

  /// What the chief knows, on every rank. Collective.
  [[nodiscard]] static NearOwner of(CheckpointManager::Impl& manager);
  [[nodiscard]] NearPlace place(const ManagerOptions& options) const {
    return {options.near_directory, directory_id, inode, options.prefix};
  }
};

}  // namespace reprieve::manager
