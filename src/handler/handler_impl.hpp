// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The state and the decisions of a PreemptionCheckpointHandler.

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "cluster/job_end.hpp"
#include "cluster/round_thread.hpp"
#include "cluster/step_agreement.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "handler/notices.hpp"
#include "handler/run_log.hpp"
#include "handler/runtime_info.hpp"
#include "handler/save_policy.hpp"
#include "manager/manager_impl.hpp"
#include "reprieve/preemption_checkpoint_handler.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve::handler {

/// One rank's thread that agrees with those of the others on the next check, and what it communicates by
/// (cluster/round_thread.hpp).
struct AgreementThreads {
  AgreementThreads(MPI_Comm comm_of_handler, std::chrono::milliseconds peer_timeout, std::function<bool()> has_news)
      : comm(comm_of_handler, peer_timeout),
        channel(comm),
        thread(channel, {.peer_timeout = peer_timeout}, std::move(has_news)) {}

  cluster::Communicator comm;
  cluster::MpiRoundChannel channel;
  cluster::RoundThread thread;  ///< uses what stands above
};

}  // namespace reprieve::handler

namespace reprieve {

namespace manager {
class EmergencySave;
}

struct [[gnu::visibility("hidden")]] PreemptionCheckpointHandler::Impl {
  Impl(MPI_Comm user_comm, CheckpointManager & checkpoint_manager, std::unique_ptr<CheckpointManager> owned,
       TerminationConfig termination_config);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// A call of run begins, or one of save_checkpoint_if_preempted has ended.
  void note_use_of_run();
  void count_boundary();
  /// Counts a boundary; true if there is nothing to do.
  bool boundary_is_quiet();
  /// Does what is due at this boundary: saves, and leaves if that was decided.
  void act(const std::vector<std::any>& save_fn_args);
  /// Requests for a checkpoint without a notice.
  void ask_for_save() noexcept;
  /// Other steps begin: see the handler.
  void begin_phase();
  /// The end of a scope: acts on a marked preemption.
  void close_scope();
  /// The boundary at the end of a loop: all ranks wait for each other. For a notice the last step is saved at once, as
  /// there may be no later boundary. Inside of a scope that saves at its end a notice is only marked, unless this is
  /// the last boundary.
  void agree_now(bool is_last);
  /// The last boundary, and the last agreement.
  void finish();
  /// The last agreement alone. Throws what went wrong on any rank.
  void close();
  /// All ranks have agreed on a preemption that is not yet acted on.
  [[nodiscard]] bool preemption_is_marked() const noexcept {
    return notices_.agreed().has_value() || policy_.preemption_is_decided();
  }
  /// This rank's step failed: every rank gets the error and throws.
  /// What is thrown on this rank holds @p error as its nested exception.
  [[noreturn]] void fail(const std::exception_ptr& error);
  /// The same where nothing may be thrown: the scope or the handler was left by an exception.
  void fail_quietly(const std::string& message) noexcept;

  [[nodiscard]] const PlatformInfo& platform() const noexcept { return runtime_info_.platform; }
  [[nodiscard]] const handler::Notices& notices() const noexcept { return notices_; }

  core::OwnerProcess owner;
  TerminationConfig config;  ///< complete
  std::unique_ptr<CheckpointManager> owned_manager;
  CheckpointManager& manager;
  std::optional<CheckpointInfo> restored;
  std::optional<std::uint64_t> already_finished;  ///< at that step, by an earlier run
  std::uint64_t run_calls = 0;
  std::optional<SaveReport> last_save;  ///< committed by this handler
  int scope_depth = 0;
  int patient_scopes = 0;   ///< of these, those that save at their end
  bool saw_notice = false;  ///< the program has asked for a notice, and there was one
  bool uses_run = false;
  bool counts_boundaries = false;  ///< save_checkpoint_if_preempted was called, and counts
  bool is_over = false;            ///< the last save is made: nothing more is saved, and the program leaves
  bool ended = false;              ///< after the last agreement, or while the exit function runs: there is no other
  bool finished = false;           ///< ended by `finish`
  bool step_is_open = false;       ///< between the begin and the end of a call of run

 private:
  // The start (handler_impl.cpp).
  void restore();
  void compare_replicated();
  void resume_from(const CheckpointInfo& from);
  void note_if_finished();
  void join_manager();
  void begin_rounds();
  void rest_threads(std::chrono::milliseconds limit = std::chrono::seconds(10)) noexcept;

  // Checks (handler_impl.cpp).
  [[nodiscard]] cluster::LocalView local_view();
  void handle(const cluster::CheckResult& check_result);
  void decide(const cluster::CheckResult& check_result);
  void handle_problems(const cluster::CheckResult& check_result);
  void note_step_time(const cluster::CheckResult& check_result);
  void send_news();
  void ask_for_commit();
  void plan_alarm(std::chrono::milliseconds not_before);
  void steps_go_on();

  // Boundaries (handler_impl.cpp).
  void check_usable() const;
  void check_between_steps(const char* call) const;
  [[nodiscard]] std::uint64_t steps() const { return config.step_fn ? config.step_fn() : run_calls; }
  [[nodiscard]] bool saves_automatically() const;
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> next_save_by_time() const;
  [[nodiscard]] bool periodic_save_is_due() const;
  [[nodiscard]] bool dry_run_is_due() const;
  void give_notice(const char* source, const char* message);
  void plan_periodic_save();
  /// Memory that runs out in a check does so on this rank alone: the others get it as the error of a failed step.
  template <class Check>
  void or_fail(Check && check) {
    try {
      check();
    } catch (const std::bad_alloc&) {
      fail(std::current_exception());
    }
  }

  // Saves, and the exit after one (saving.cpp).
  void carry_out(const handler::Decision& decision, const std::vector<std::any>& save_fn_args);
  void learn_notice(int one_of_them);
  void unlearn_notice() noexcept;
  [[nodiscard]] CheckpointManager::SaveRequest prepare_save(
      SaveReason::Kind reason, const std::vector<std::any>& save_fn_args, const char* message = "");
  void save(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args, const char* message = "");
  void save_while_running(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args);
  void save_for_preemption(bool is_final, const std::vector<std::any>& save_fn_args);
  [[nodiscard]] bool continues_after_save();
  /// Does what a drill has ordered for this step. At the last boundary that is the end of the drill's run.
  void act_in_dry_run(bool is_last, const std::vector<std::any>& save_fn_args);
  [[nodiscard]] bool takes_local_copies() const;
  void take_local_copy();
  void advance_local_copy();
  void watch_over_local_copies();
  [[nodiscard]] bool has_saved_here() const noexcept { return saved_.boundary == agreement_.index(); }
  /// The program's save function makes the whole checkpoint.
  [[nodiscard]] bool replaces_save() const { return config.save_fn && config.save_fn_mode == SaveFnMode::instead; }
  [[nodiscard]] SaveReport save_by_function(const CheckpointManager::SaveRequest& request);
  void save_in_time(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args, const char* message = "");
  void commit();
  /// Commits what is written in the background, if anything is. Waits for the threads of all ranks if they are not
  /// done. @throws what went wrong in one of them
  void commit_background();
  /// The same before a save that counts: that of an earlier step, if it cannot be committed, must not hinder it.
  void finish_background();
  template <class Save>
  void or_put_off(SaveReason::Kind reason, Save && save);
  void put_off(const StorageError& error);
  void note_commit(const SaveReport& report);
  void report_interval(const SaveReport& report) const;
  void warn_if_save_does_not_fit(std::chrono::duration<double> save_time, const char* when) const;
  void warn_if_earlier_saves_do_not_fit() const;
  void report_longest_step();
  [[nodiscard]] ExitContext prepare_exit();
  void leave();

  // The end (saving.cpp).
  [[nodiscard]] cluster::CheckResult agree_here();
  void confirm();
  void confirm_or_fail();
  void learn_decided_notice();
  void act_on_notice_at_end(bool is_last);
  [[nodiscard]] bool left_loop_for_notice();
  [[nodiscard]] bool another_handler_has_left();
  void save_last_step();
  bool leave_manager() noexcept;
  void warn_if_not_finished() const;
  void at_finalize() noexcept;

  // Errors (error_spreading.cpp).
  [[noreturn]] void throw_received(int origin_rank, const core::Failure& mine);
  [[noreturn]] void throw_received_with_own(int origin_rank, const core::Failure& mine,
                                            const std::exception_ptr& error);
  void announce_failure();
  [[nodiscard]] std::chrono::milliseconds error_limit() const;
  [[nodiscard]] bool ranks_are_missing() const;

  std::shared_ptr<const void> state_use_;  ///< nothing more can be registered
  cluster::Communicator comm_;
  const handler::RuntimeInfo runtime_info_;
  handler::RunLog log_;
  handler::DryRun dry_run_;
  handler::Notices notices_;
  handler::SavePolicy policy_;
  cluster::MpiReductionChannel channel_;
  cluster::StepAgreement agreement_;

  cluster::RequestedSave requested_ = cluster::RequestedSave::none;  ///< this rank's
  /// Of the last state that is saved, is being written, or was restored.
  struct Saved {
    cluster::BoundaryIndex boundary = -1;
    std::optional<std::uint64_t> number{};
    std::uint64_t step = 0;
  } saved_;
  std::chrono::steady_clock::time_point save_time_;  ///< from here on the time without a save counts
  std::uint64_t failed_saves_ = 0;                   ///< periodic ones, since the last that was made
  std::chrono::nanoseconds longest_step_{0};         ///< since the last save
  std::chrono::nanoseconds longest_known_step_{0};   ///< of all steps that were measured
  std::unique_ptr<core::WorkerLock> worker_lock_;
  int exceptions_at_start_;
  SaveReason::Kind background_reason_ = SaveReason::Kind::user;  ///< of the save in the background
  cluster::BoundaryIndex met_at_ = 0;                            ///< the boundary of the last `meet`
  std::chrono::steady_clock::time_point ask_for_commit_after_{};
  bool has_joined_ = false;                                 ///< counts among the handlers of its manager
  bool local_is_under_way_ = false;                         ///< to its partner
  std::chrono::steady_clock::time_point local_copy_time_;   ///< of the last one, or of the start
  std::shared_ptr<manager::EmergencySave> emergency_save_;  ///< of the node-local copies there are
  std::optional<handler::NoticeWatch> watch_;               ///< begins that emergency save
  std::optional<handler::AgreementThreads> threads_;        ///< if ranks agree by them; they use what stands above

  cluster::FinalizeHook finalize_hook_;  ///< the last member: all others are there when it calls
};

}  // namespace reprieve
