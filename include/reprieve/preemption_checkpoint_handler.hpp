// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `PreemptionCheckpointHandler`: turns a termination notice on any rank into one checkpoint of all.

#include <mpi.h>

#include <any>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/checkpoint_manager.hpp"
#include "reprieve/export.h"
#include "reprieve/termination_config.hpp"

namespace reprieve {

class PreemptionScope;
class PreemptionWatcher;
namespace termination {
class NoticeBoard;
}
namespace bindings {
class StepAccess;
}

/// Starts to record the signals of @p signals, in the whole process. Call it first thing in main, before MPI_Init, so
/// that a notice that comes while the program starts is kept instead of killing it; a handler made later takes it up.
/// Calling it again, or making a handler, adds signals. Thread: main, before others start.
/// @throws UsageError if a signal cannot be caught
REPRIEVE_EXPORT void watch_signals(const std::vector<int>& signals);
/// The signals of the platform that the environment names: SIGTERM and SIGUSR1 at least. Asks no server.
REPRIEVE_EXPORT void watch_signals();

/// Gives the watched signals back to the handlers from before, for the time after the last handler: a signal then ends
/// the program again. Without it signals are recorded until the process ends. Thread: main.
REPRIEVE_EXPORT void unwatch_signals() noexcept;

/// What step boundaries inside of a scope do when all ranks have agreed that the job is about to end. Where scopes are
/// nested, one with `save_at_end` decides.
enum class ScopeMode {
  /// The same as outside of a scope: they save and exit. Nothing is lost, whenever the job is killed.
  save_now,
  /// They only mark it, so that a unit of work is finished first: the end of the scope saves and exits. If it is known
  /// when the job will be killed (a grace period, a deadline), the last boundary that is safe saves and exits. If it is
  /// not known, the job may be killed before the end of the scope: the program should ask `preempted()` and come to it.
  save_at_end,
};

/// Coordinates all ranks of a communicator to save one checkpoint when any of them is about to be taken away.
///
/// The constructor restores the newest valid checkpoint. After that every call of `run` or
/// `save_checkpoint_if_preempted` is a *step boundary*: there, if all ranks have agreed that this is the save step, the
/// state is saved and the exit function is called. All ranks must call the same members in the same order. Members are
/// called from one thread, the one that initialised MPI (MPI_THREAD_FUNNELED is enough).
///
/// Call `finish` after the last step. A handler that is destroyed without it warns: its destructor takes part in the
/// last agreement as well, so that a rank which leaves early is an error with a name on the others, but it only logs
/// what went wrong elsewhere, and does not throw. A handler that lives when MPI_Finalize is called ends there, with a
/// warning unless it was finished.
class REPRIEVE_EXPORT PreemptionCheckpointHandler {
 public:
  /// Makes a manager for @p directory and restores from it. Collective.
  /// @throws what the constructor of CheckpointManager and `restore_or_initialize` throw; ConfigError
  PreemptionCheckpointHandler(MPI_Comm comm, Checkpoint& checkpoint, std::filesystem::path directory,
                              TerminationConfig config = {}, ManagerOptions options = {});
  /// Uses the caller's manager, which must outlive the handler and span the ranks of @p comm. Collective.
  PreemptionCheckpointHandler(MPI_Comm comm, CheckpointManager& manager, TerminationConfig config = {});
  ~PreemptionCheckpointHandler();
  PreemptionCheckpointHandler(const PreemptionCheckpointHandler&) = delete;
  PreemptionCheckpointHandler& operator=(const PreemptionCheckpointHandler&) = delete;

  /// A step boundary, then `fn(args...)`, whose result it returns. If all ranks have agreed that this is the save step,
  /// saves the state and calls the exit function instead; if that returns, continues with `fn`. Collective: yes, all
  /// ranks, in the same order. Thread: main. Signal-safe: no.
  /// @throws ClusterError on every rank if `fn` threw on any (message and rank of the lowest rank that failed). On a
  ///         rank where it threw, that exception is nested in it: `std::rethrow_if_nested` gives it back;
  ///         StorageError and others of `CheckpointManager::save` if the save failed: all older checkpoints are
  ///         untouched and the handler stays usable; UnresponsiveError if ranks do not come; UsageError if they call
  ///         differently, or if `fn` calls `run` or another boundary of this handler
  /// Cost without notice: some loads; and a small reduction at so many steps that it takes 1 % of their time, at each
  /// step if steps are longer than a millisecond or two.
  template <class Fn, class... Args>
  std::invoke_result_t<Fn, Args...> run(Fn&& fn, Args&&... args) {
    begin_step();
    using Result = std::invoke_result_t<Fn, Args...>;
    try {
      if constexpr (std::is_void_v<Result>) {
        std::invoke(std::forward<Fn>(fn), std::forward<Args>(args)...);
        end_step();
      } else {
        Result result = std::invoke(std::forward<Fn>(fn), std::forward<Args>(args)...);
        end_step();
        return result;
      }
    } catch (...) {
      fail_step(std::current_exception());
    }
  }

  /// A step boundary for loops that do not use `run`: call it before each step. It counts in `total_run_calls`, after
  /// the save if there is one (unless `TerminationConfig::count_boundaries` says no), so a resumed loop makes the step
  /// that follows. The arguments are copied and reach the save function. Collective and exceptions as for `run`.
  template <class... Args>
  void save_checkpoint_if_preempted(Args&&... args) {
    if (!boundary_is_quiet()) {
      const std::vector<std::any> copies{std::any(std::forward<Args>(args))...};
      boundary(copies);
    }
    count_boundary();
  }

  /// A step boundary that does not count, for phases between the steps: set-up, evaluation, output. Collective and
  /// exceptions as for `run`.
  void step_boundary();

  /// Announces steps of another length, above all longer ones: an evaluation, an output, a finer mesh. The next
  /// boundary asks for notices, and so does each boundary after it while the new steps last. Without this call, a
  /// notice in steps that suddenly got longer waits for the next check: up to 3 boundaries after steps of 1 ms, and 24
  /// after steps of 10 us. Collective: yes, all ranks between the same boundaries. Thread: main. Signal-safe: no.
  /// @throws ClusterError, UsageError and UnresponsiveError as `run` does at a boundary
  /// Cost: none, or the end of a small reduction that is under way. Saves nothing.
  void begin_phase();

  /// The last step boundary: all steps are made. Waits for all ranks, and throws as `run` what went wrong on any of
  /// them since the last boundary, so that no rank reports success. Saves the last step, unless a checkpoint holds it
  /// (`TerminationConfig::save_at_finish`), and marks the run as finished. With a notice it returns all the same, so
  /// that the program can write its results. A later start restores the last step, and makes further steps only if it
  /// is asked for more.
  ///
  /// A program that left its loop for a notice is not at its end: where `preempted()` was true for it, or another
  /// handler of the process has left with `return_when_saved`, the state is saved and the exit function called. (Not
  /// where `TerminationConfig::total_steps` are made.) A second call does nothing. Collective: yes, all ranks.
  /// Thread: main. @throws as `run`
  void finish();

  /// A part of the program at whose end, at the latest, an agreed preemption is acted on: the end of the scope is a
  /// step boundary that saves and exits. What `run` and `save_checkpoint_if_preempted` do inside is said by the mode.
  /// An error inside reaches all ranks. Not collective itself; its end is. All ranks must pass the same mode.
  [[nodiscard]] PreemptionScope watch_preemption_scope(ScopeMode mode = ScopeMode::save_now);

  /// Calls of `run` that completed on this rank, and of `save_checkpoint_if_preempted`, over all restarts: restored
  /// from the checkpoint.
  [[nodiscard]] std::uint64_t total_run_calls() const noexcept;

  /// Asks for a checkpoint at one of the next boundaries, without a notice and without an exit. Not collective: one
  /// rank is enough. Signal-safe: no.
  void request_checkpoint() noexcept;

  /// The checkpoint that the constructor restored, or nothing. The same on every rank.
  [[nodiscard]] const std::optional<CheckpointInfo>& restored_from() const noexcept;

  /// The calls of `run` at which an earlier run in this directory was finished, if nothing was saved since. The state
  /// is that of this step: there is nothing to do, unless more steps are asked for. The same on every rank.
  [[nodiscard]] const std::optional<std::uint64_t>& already_finished() const noexcept;

  /// The notice that all ranks have agreed on, if there is one: the same on every rank at the same boundary. Not
  /// collective.
  [[nodiscard]] const std::optional<TerminationNotice>& preemption_notice() const noexcept;

  /// Whether all ranks have agreed that the job is about to end: a plain question, which changes nothing and has the
  /// same answer on every rank between the same boundaries. With an exit function that returns it is false again
  /// afterwards, with `TerminationConfig::return_when_saved` it stays true.
  [[nodiscard]] bool preempted() const noexcept { return preemption_notice().has_value(); }

  /// What main must return: the restart code if `TerminationConfig::return_when_saved` is set and the last save is
  /// done, else 0. The same on every rank. Not collective.
  [[nodiscard]] int exit_code() const noexcept;

  /// The latest checkpoint that this handler has committed, or nothing: file, number, size and time it took. The same
  /// on every rank between the same boundaries. Not collective.
  [[nodiscard]] const std::optional<SaveReport>& last_save() const noexcept;

  [[nodiscard]] CheckpointManager& manager() const noexcept;

  /// Where the job runs: the same on every rank. Not collective.
  [[nodiscard]] const PlatformInfo& platform() const noexcept;

  /// Internal to the library.
  struct Impl;

 private:
  friend class PreemptionScope;
  friend class PreemptionWatcher;
  friend class bindings::StepAccess;
  void begin_step();
  void end_step() noexcept;
  [[noreturn]] void fail_step(std::exception_ptr error);
  [[nodiscard]] std::shared_ptr<termination::NoticeBoard> notice_board() const noexcept;
  void count_boundary();
  void agree_now();
  void close();
  [[nodiscard]] bool boundary_is_quiet();
  void boundary(const std::vector<std::any>& save_fn_args);

  std::unique_ptr<Impl> impl_;
};

/// See `PreemptionCheckpointHandler::watch_preemption_scope`. End it with `close()` to get the errors of the save as
/// exceptions. The destructor closes it as well when the scope is left normally. When an exception leaves the scope, it
/// saves if a preemption is marked, and sends the error to the other ranks.
class REPRIEVE_EXPORT PreemptionScope {
 public:
  ~PreemptionScope() noexcept(false);  // NOLINT(bugprone-exception-escape): it is meant to throw
  PreemptionScope(PreemptionScope&& other) noexcept;
  PreemptionScope(const PreemptionScope&) = delete;
  PreemptionScope& operator=(const PreemptionScope&) = delete;
  PreemptionScope& operator=(PreemptionScope&&) = delete;

  /// A step boundary that saves and exits if a preemption is marked. Collective. Throws what `run` throws.
  void close();

 private:
  friend class PreemptionCheckpointHandler;
  PreemptionScope(PreemptionCheckpointHandler& handler, ScopeMode mode);
  void leave() noexcept;
  PreemptionCheckpointHandler* handler_;
  ScopeMode mode_;
  int exceptions_at_start_;
};

}  // namespace reprieve
