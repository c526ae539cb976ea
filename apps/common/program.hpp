// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The main function of a program that works under MPI and survives preemption.

#include <mpi.h>

#include <functional>

#include "common/command_line.hpp"
#include "common/ranks.hpp"

namespace apps {

/// Runs the program from the options to the exit code. Collective. Throws reprieve::Error, the same on every rank,
/// unless MPI itself failed.
using RunFunction = int (*)(int argc, const char* const* argv, MPI_Comm comm);

/// Reads the options on every rank, by @p parse, and begins to log. Collective.
/// @return false: there is nothing to run, since the chief has given the answer that the options ask for
bool read_options(const Ranks& ranks, ProgramOptions& options, const std::function<void()>& parse);

/// Watches the signals, initialises MPI, runs @p run on all ranks, reports what it throws, and finalises MPI.
/// @param name  of the program, for its messages
/// @return the exit code: that of @p run, 2 for wrong options, 1 for any other error
int run_program(const char* name, int argc, char** argv, RunFunction run);

}  // namespace apps
