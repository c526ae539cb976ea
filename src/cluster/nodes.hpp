// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which ranks of a communicator run on one machine. Internal to it.

#include "cluster/communicator.hpp"

namespace reprieve::cluster {

/// The ranks that can share memory with this one, and one rank of each such node, its leader. Made once, when it is
/// needed first.
struct Communicator::Nodes {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm leaders = MPI_COMM_NULL;  ///< null on ranks that lead no node
  int rank = 0;                      ///< in the node
  int size = 1;                      ///< of the node
  /// The leader of this rank's node, for MPI to send as it is.
  struct Leader {
    int rank = 0;    ///< in the whole communicator
    int number = 0;  ///< among the leaders
  } leader;

  [[nodiscard]] bool leads() const noexcept { return rank == 0; }
  /// Every rank counts as a node of its own.
  [[nodiscard]] bool is_alone() const noexcept { return node == MPI_COMM_SELF; }
};

}  // namespace reprieve::cluster
