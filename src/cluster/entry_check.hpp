// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The first entry check of the ranks of a program's communicator, when there is no communicator of our own yet.
///
/// Ranks must not wait for ever for a rank that never comes, and the error must name it. Our own messages must not get
/// into the receives of the program. So each rank reports to rank 0 by a collective call that does not block. Rank 0
/// answers each of them: continue, or who is missing. The entries of missing ranks in the gather are still empty. MPI
/// promises nothing of them before it is complete, but writes nothing else there. Where an MPI gathers by a tree
/// (MPICH), the ranks behind a missing one look as if they were missing too.

#include <mpi.h>

#include <chrono>

namespace reprieve::cluster {

/// All ranks are there, and have the memory that they need. Collective over @p parent, whose errors come back as codes.
/// Rank 0 waits for @p timeout, the others for twice that time and two seconds, as it may have come late.
/// @throws UnresponsiveError  that names ranks that did not come: the same on all that did
/// @throws Error (no_memory)  on all ranks, if one has none
void check_first_entry(MPI_Comm parent, bool has_memory, std::chrono::milliseconds timeout);

}  // namespace reprieve::cluster
