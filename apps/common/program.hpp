#pragma once

/// @file
/// The main function of a program that works under MPI and survives preemption.

#include <mpi.h>

namespace apps {

/// Runs the program from the options to the exit code. Collective. Throws reprieve::Error, the same on every rank,
/// unless MPI itself failed.
using Job = int (*)(int argc, const char* const* argv, MPI_Comm comm);

/// Watches the signals, initialises MPI, runs @p job on all ranks, reports what it throws, and finalises MPI.
/// @param name  of the program, for its messages
/// @return the exit code: that of the job, 2 for wrong options, 1 for any other error
int run_program(const char* name, int argc, char** argv, Job job);

}  // namespace apps
