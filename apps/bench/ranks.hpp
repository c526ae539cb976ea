// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What benchmarks ask of MPI.

#include <mpi.h>

namespace reprieve::bench {

[[nodiscard]] int rank_in(MPI_Comm comm);
[[nodiscard]] int size_of(MPI_Comm comm);

/// Returns when all ranks are here. Collective.
void meet(MPI_Comm comm);

/// The greatest of all ranks' values. Collective.
[[nodiscard]] double greatest(MPI_Comm comm, double mine);

}  // namespace reprieve::bench
