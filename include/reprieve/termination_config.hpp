// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a job learns of its end, and how it leaves.

#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reprieve/error.hpp"
#include "reprieve/export.h"
#include "reprieve/notice.hpp"
#include "reprieve/platform.hpp"
#include "reprieve/save.hpp"

namespace reprieve {

/// The reason and the exit code with which the process leaves.
struct ExitContext {
  MPI_Comm comm = MPI_COMM_NULL;  ///< the handler's private communicator
  int exit_code = 0;              ///< the restart code
  TerminationNotice notice;       ///< the notice that led here, the same on every rank (times are the local clock's)
  std::string checkpoint;         ///< path of the committed checkpoint
};

/// Leaves the process, or returns: then the handler continues as if nothing had been noticed, and watches for the next
/// notice, unless `TerminationConfig::return_when_saved` is set.
using ExitFn = std::function<void(const ExitContext&)>;

/// What the failing rank does if its error does not reach its peers within `error_timeout`, since they are stuck in a
/// collective call of the application. It gets the handler's communicator and the exit code 1.
using AbortFn = std::function<void(MPI_Comm comm, int exit_code)>;

/// The default exit function: flushes stdio, waits for the other ranks (10 s at most), and ends the process by `_exit`,
/// without static destructors and atexit functions. Under MPICH, whose launcher loses the exit code otherwise, with
/// MPI_Finalize within the 10 s; under Open MPI without, since it can hang while the launcher tears the job down.
REPRIEVE_EXPORT void leave_together(const ExitContext& context);

/// An alternative exit function, for jobs whose manager takes the processes of the old run away some time after the
/// notice, and whose next run must not meet them: waits until a process of the run has been taken (a rank of this node
/// has ended, or another signal has come), at most 900 s from the notice on, and then leaves like `leave_together`.
REPRIEVE_EXPORT void hold_until_taken(const ExitContext& context);

/// An alternative exit function: throws `Preempted` on every rank, so that the program can unwind and leave in its own
/// order (it should return `Preempted::exit_code()` from main). If nobody catches it, the process ends with that code.
[[noreturn]] REPRIEVE_EXPORT void throw_preempted(const ExitContext& context);

/// The default abort function: MPI_Abort, the one call that ends peers which wait in MPI under every launcher.
REPRIEVE_EXPORT void abort_job(MPI_Comm comm, int exit_code);

/// Thrown by `throw_preempted`. Not an `Error`: the state is saved, and nothing went wrong.
class REPRIEVE_EXPORT Preempted : public std::exception {
 public:
  explicit Preempted(ExitContext context);
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }
  [[nodiscard]] int exit_code() const noexcept { return context_.exit_code; }
  [[nodiscard]] const ExitContext& context() const noexcept { return context_; }

 private:
  ExitContext context_;
  std::string message_;
};

/// How the ranks find the step boundary at which they ask each other for notices, errors and requests for checkpoints.
enum class Agreement {
  /// By threads if all ranks run with MPI_THREAD_MULTIPLE, else at boundaries.
  automatic,
  /// At boundaries that follow from the length of the steps before.
  boundaries,
  /// A thread of each rank sees a notice or an error. The threads agree on the boundary within milliseconds, whatever
  /// the length of the steps. No message is sent until then. Needs MPI_THREAD_MULTIPLE on all ranks.
  threads,
};

/// Customisation of a PreemptionCheckpointHandler. What is left open (an empty optional or function) is filled in by
/// the handler, with what fits the platform that the job runs on (see `preset`).
struct TerminationConfig {
  /// Where the job runs, and on what. Open: `detect_platform` finds out.
  std::optional<Platform> platform;
  std::optional<Device> device;

  /// Asked for a notice besides the other sources; none by default.
  WatcherFn termination_watcher_fn;
  /// Called on every rank after the final save. Open: `leave_together`, or `hold_until_taken` on accelerators under a
  /// manager.
  ExitFn exit_fn;
  /// Time from a notice to the kill. With more than zero, the handler saves at once, trains on, and saves again as late
  /// as is safe. A notice with a deadline of its own overrides it. Open: as the platform grants, mostly zero.
  std::optional<std::chrono::milliseconds> grace_period;
  /// The program leaves in its own order. After the last save (and after `exit_fn`, if there is one) the handler
  /// returns to the program, `preempted()` stays true, and boundaries save nothing more. The program ends its loop,
  /// does what it has to, and returns `PreemptionCheckpointHandler::exit_code()` from main. See apps/guide/loops.md.
  bool return_when_saved = false;
  /// The application's own part of a save, or all of it: see `save_fn_mode`.
  SaveFn save_fn;
  /// Whether `save_fn` adds files to the handler's checkpoint, or makes the checkpoint itself.
  SaveFnMode save_fn_mode = SaveFnMode::besides;
  /// `save_checkpoint_if_preempted` counts in `total_run_calls`, as `run` does. `step_boundary` never counts.
  bool count_boundaries = true;
  /// The program's own count of steps, for loops in which a step is not a call of `run`: sub-cycles, or boundaries at
  /// every hundredth step. It names the checkpoints, and `save_every_steps` counts in it. Called at boundaries, and
  /// when the state has been restored; the same on all ranks, never falling, without exceptions. Open:
  /// `total_run_calls()`.
  std::function<std::uint64_t()> step_fn;

  /// The end of the run (`PreemptionCheckpointHandler::finish`) saves the last step, unless a checkpoint holds it.
  /// False, for states that are too large: a later start makes the steps after the newest checkpoint again.
  bool save_at_finish = true;

  /// Signals that are a notice. Their previous handlers are still called, and those that are installed later. Open:
  /// SIGTERM and SIGUSR1; where the program has no handler for them, SIGUSR2 and SIGXCPU as well, under Slurm and LSF
  /// SIGINT too. Children that are forked do not act on them, unless the child, its parent or the rank sends them.
  std::optional<std::vector<int>> signals;
  /// Exit code that means "saved, start me again"; 2 to 125 or 143, not one that launchers use by themselves (1, 110,
  /// 126, 127). Open: 42; 143 on GCE.
  std::optional<int> restart_code;
  /// The metadata server to be asked, by one rank of each node. Open: that of the platform, if it is a cloud.
  std::optional<MetadataServer> metadata;
  /// A file named PREEMPT in the checkpoint directory is a notice. It is removed when it is seen. (Under `reprieve run`
  /// that looks for it.)
  bool preempt_file = true;
  /// When the job will be ended, if that is known in advance. Open: what the batch system says.
  std::optional<std::chrono::system_clock::time_point> end_time;
  /// How long before the end the notice comes. Open: the grace period if there is one, else 2 min or a quarter of the
  /// time, whichever is shorter; never more than half of the time.
  std::optional<std::chrono::milliseconds> end_lead;

  /// How many calls of `run` the run makes in all, whatever `step_fn` counts; 0: not known. Tools compute the end of
  /// the run from it; nothing else depends on it.
  std::uint64_t total_steps = 0;
  /// Checkpoint every so many calls of `run` (steps of `step_fn`, if there is one); 0: off.
  std::uint64_t save_every_steps = 0;
  /// Checkpoint whenever so much time has passed since the last one; zero: off. Open: off with `save_every_steps`,
  /// else after ten minutes, and then by the measured cost of a save: sqrt(2 * cost * 24 h) (Young 1974), at most 1 %
  /// of the time, and not more often than every ten minutes.
  std::optional<std::chrono::milliseconds> save_every;
  /// How many periodic saves in a row may fail (full disk, quota, rights) until the failure is an error. The run
  /// continues after those before. 1: the first is an error, for a run that must not continue without checkpoints.
  std::uint64_t save_attempts = 3;

  /// How often the watcher function, the metadata server and the file are asked for.
  std::chrono::milliseconds poll_interval{1000};
  /// How the ranks agree on where to check; see apps/guide/loops.md. Open: by threads where the program allows it.
  Agreement agreement = Agreement::automatic;
  /// How long a rank waits for the others at a step boundary before it gives up and names them.
  std::chrono::milliseconds peer_timeout{1'800'000};
  /// How long a rank whose step failed waits until the others know its error.
  std::chrono::milliseconds error_timeout{60'000};
  /// Safety margin between the expected end of the last save and the deadline. Open: 3 s where mpirun started the
  /// ranks, which ends up to 2 s after them; else 1 s.
  std::optional<std::chrono::milliseconds> grace_margin;
  /// What to do when an error never reaches the peers. Empty: `abort_job`.
  AbortFn abort_fn;
};

/// The configuration that fits a platform, complete but for what the handler has to ask for (`end_time`).
REPRIEVE_EXPORT TerminationConfig preset(const PlatformInfo& where);

/// @p config with what it left open taken from the preset of its platform.
REPRIEVE_EXPORT TerminationConfig filled_in(TerminationConfig config, const PlatformInfo& where);

}  // namespace reprieve
