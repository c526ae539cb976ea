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

#include "reprieve/checkpoint_manager.hpp"

namespace reprieve {

/// What a rank learned about its end.
struct TerminationNotice {
  int rank = -1;        ///< the rank that learned it
  std::string host;     ///< its host
  std::string source;   ///< "signal SIGTERM", "watcher function", ...
  std::string message;  ///< free text
  /// When it was learned, on that rank's monotonic clock.
  std::chrono::steady_clock::time_point time;
  /// When the job will be killed, if known, on that rank's monotonic clock.
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// The answer of a watcher function: nothing yet, or a notice with an optional message and time left.
struct WatchResult {
  WatchResult() = default;
  WatchResult(bool is_notice) : notice(is_notice) {}  // NOLINT: implicit, so that a function returning bool fits
  bool notice = false;
  std::string message;
  std::optional<std::chrono::milliseconds> time_left;
};

/// Asked from a thread of the library's own, every `poll_interval`, until it gives a notice. Must not call MPI. An
/// exception is logged once and counts as "nothing yet".
using WatcherFn = std::function<WatchResult()>;

/// Why and with what the process is to leave.
struct ExitContext {
  MPI_Comm comm = MPI_COMM_NULL;  ///< the handler's private communicator
  int exit_code = 0;              ///< the restart code
  TerminationNotice notice;       ///< the notice that led here, the same on every rank (times are the local clock's)
  std::string checkpoint;         ///< path of the committed checkpoint
};

/// Leaves the process, or returns: then the handler goes on as if nothing had been noticed, and watches for the next
/// notice.
using ExitFn = std::function<void(const ExitContext&)>;

/// What the failing rank does when its peers do not come to hear of its error within `error_timeout`, since they are
/// stuck in a collective call of the application. It gets the handler's communicator and the exit code 1.
using AbortFn = std::function<void(MPI_Comm comm, int exit_code)>;

/// The default exit function: flushes stdio, waits for the other ranks (10 s at most), and ends the process with
/// `_exit`. Without MPI_Finalize, static destructors and atexit functions, since under a launcher that is tearing the
/// job down these can hang, and a rank that leaves late is killed and spoils the exit code.
void leave_together(const ExitContext& context);

/// An alternative exit function: throws `Preempted` on every rank, so that the program can unwind and leave in its own
/// order (it should return `Preempted::exit_code()` from main).
[[noreturn]] void throw_preempted(const ExitContext& context);

/// The default abort function: MPI_Abort, the one call that ends peers which wait in MPI under every launcher.
void abort_job(MPI_Comm comm, int exit_code);

/// Thrown by `throw_preempted`. Not an `Error`: the state is saved, and nothing went wrong.
class Preempted : public std::exception {
 public:
  explicit Preempted(ExitContext context);
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }
  [[nodiscard]] int exit_code() const noexcept { return context_.exit_code; }
  [[nodiscard]] const ExitContext& context() const noexcept { return context_; }

 private:
  ExitContext context_;
  std::string message_;
};

/// Customisation of a PreemptionCheckpointHandler. Every field has a default that fits a plain `mpirun`.
struct TerminationConfig {
  /// Asked for a notice besides the signals; none by default.
  WatcherFn termination_watcher_fn;
  /// Called on every rank after the final save. Empty: `leave_together`.
  ExitFn exit_fn;
  /// Time from a notice to the kill. With more than zero, the handler saves at once, trains on, and saves again as late
  /// as is safe. A notice with a deadline of its own overrides it.
  std::chrono::milliseconds grace_period{0};
  /// The application's own part of a save.
  SaveFn save_fn;

  /// Signals that are a notice. Their previous handlers are still called.
  std::vector<int> signals{SIGTERM, SIGUSR1};
  /// Exit code that means "saved, start me again"; 1 to 125, not one that launchers use by themselves (1, 110, 126,
  /// 127).
  int restart_code = 42;
  /// Checkpoint every so many calls of `run`; 0: off.
  std::uint64_t save_every_steps = 0;
  /// Checkpoint whenever so much time has passed since the last one; zero: off.
  std::chrono::milliseconds save_every{0};

  /// How often the watcher function is asked.
  std::chrono::milliseconds poll_interval{1000};
  /// Longest time between two agreement checks while steps are short; longer steps are checked at every boundary.
  std::chrono::milliseconds check_interval{12};
  /// How long a rank waits for the others at a step boundary before it gives up and names them.
  std::chrono::milliseconds peer_timeout{1'800'000};
  /// How long a rank whose step failed waits for the others to hear of it.
  std::chrono::milliseconds error_timeout{60'000};
  /// Safety margin between the expected end of the last save and the deadline.
  std::chrono::milliseconds grace_margin{1000};
  /// What to do when the peers never hear of an error. Empty: `abort_job`.
  AbortFn abort_fn;
};

}  // namespace reprieve
