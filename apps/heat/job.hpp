#pragma once

/// @file
/// One run of the program, from the options to the exit code.

#include <mpi.h>

namespace heat {

/// Computes until the end or until a preemption ends the process. Collective.
/// @return the exit code
/// @throws reprieve::Error, the same on every rank, unless MPI itself failed
int run_job(int argc, const char* const* argv, MPI_Comm comm);

}  // namespace heat
