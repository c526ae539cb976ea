// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Leaving by oneself. The public ways to leave are in termination_config.hpp.

#include <mpi.h>

#include <chrono>

namespace reprieve::handler {

/// Ends this process with @p exit_code after a save, and waits for no other rank. Not collective.
[[noreturn]] void leave_alone(int exit_code) noexcept;

// Staying until the platform takes the processes of the run away.

/// Waits until another rank of this node has ended or one more signal has come, at most until @p limit. Every rank of
/// @p comm must call it, but none waits for another. Never throws: the state is saved, and only the exit is left.
void wait_until_taken(MPI_Comm comm, std::chrono::steady_clock::time_point limit) noexcept;

}  // namespace reprieve::handler
