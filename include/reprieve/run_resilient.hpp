// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Recovery in place: ranks die, and the others continue without a new start of the job.

#include <mpi.h>

#include <functional>

#include "reprieve/export.h"

namespace reprieve {

struct ResilientOptions {
  /// Ranks that wait, without work, until they take the place of ranks that have died: the last ones.
  int spare_ranks = 0;
  /// With fewer ranks the job ends with `restart_exit_code`, so that it is started again. A program that needs a fixed
  /// number of ranks says that number here.
  int min_ranks = 1;
  int restart_exit_code = 42;
  /// Errors of MPI in the communicator of the body come back as codes, for a body without exceptions.
  bool errors_return = false;
};

/// Calls @p body with the ranks that work. When ranks die, all others leave `body` by an exception, get a communicator
/// of the ranks that live, and call `body` again.
///
///     reprieve::run_resilient(MPI_COMM_WORLD, [&](MPI_Comm ranks) {
///       Simulation simulation(ranks);                 // its parts follow from the number of ranks
///       reprieve::Checkpoint state;                   // what it registers
///       ...
///       reprieve::CheckpointManager manager(ranks, state, directory);
///       reprieve::PreemptionCheckpointHandler handler(ranks, manager);   // restores the newest checkpoint
///       while (simulation.step() < last) { handler.run([&] { simulation.advance(); }); }
///       handler.finish();
///     });
///
/// So the steps since the newest checkpoint, or since the newest node-local copy whose parts are all there, are
/// computed again; nothing else is lost. It needs an MPI that outlives the death of a rank: Open MPI 5, started by
/// `mpirun --with-ft ulfm --mca async_mpi_finalize 1 --mca coll ^han`. Without the second option its MPI_Finalize hung
/// in one of ten runs in which a rank had died. Without the third one a collective call crashed in one of ten runs on
/// two hosts in which several had died, and mpirun returned 0. Its mpirun ends the job when a node is lost with the
/// daemon there. Under any other MPI `body` is called once, and the death of a rank ends the job, as ever.
///
/// A rank that a signal has stopped counts as dead after the others have waited `peer_timeout` for it at a step
/// boundary or in a save; wherever they wait, 10 s after it stopped, with `mpirun --mca mpi_ft_detector 1`. A rank of
/// its host ends it.
///
/// Rules for @p body:
/// - It communicates by the communicator that it gets, or by others made of it. Of these, it must not wait in one while
///   other ranks have left it: a loss is reported in the communicator of `body`, and in those that a dead rank was in.
/// - Errors of MPI in these communicators throw `UnresponsiveError`, from inside of the MPI call, if ranks have died.
///   Other errors end the job. `body` must not keep this exception from leaving it, and frees what it made.
/// - Where functions of C or Fortran stand between `body` and a call of MPI, `errors_return` is right.
/// - What it throws while no rank has died leaves `run_resilient`.
/// - It initialises the whole state. A variable outside of it keeps the value of a lost step, unless it is restored.
///   Before the first checkpoint nothing is: then the handler, or `restore_or_initialize` without a function, ends the
///   job with `restart_exit_code`, as a new launch has no such values.
/// - A write to a closed pipe or connection returns EPIPE from here on, if SIGPIPE had its default action: else a rank
///   could end at a write to a dead one.
/// - It makes all that needs every rank. MPI_COMM_WORLD keeps the dead ranks: its collective calls fail afterwards.
///
/// Collective over @p comm. Thread: the one that may call MPI.
/// @returns false on a rank that was a spare to the end, or that the others did not need
/// @throws UsageError if the options leave no rank to work; UnresponsiveError if ranks do not answer that live; what
///         `body` throws
/// Cost: a step boundary costs what it costs without it. After a death: 50 ms until MPI reports it, some milliseconds
/// for the communicator, and a start of `body`.
REPRIEVE_EXPORT bool run_resilient(MPI_Comm comm, const std::function<void(MPI_Comm ranks)>& body,
                                   const ResilientOptions& options = {});

}  // namespace reprieve
