#pragma once

/// @file
/// The state and the decisions of a PreemptionCheckpointHandler.

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "cluster/communicator.hpp"
#include "cluster/finalize_hook.hpp"
#include "cluster/mpi_channel.hpp"
#include "cluster/mpi_round_channel.hpp"
#include "cluster/step_agreement.hpp"
#include "core/fork_guard.hpp"
#include "core/outcome.hpp"
#include "core/worker_record.hpp"
#include "handler/grace_planner.hpp"
#include "manager/manager_impl.hpp"
#include "reprieve/preemption_checkpoint_handler.hpp"
#include "termination/notice_board.hpp"
#include "termination/notice_sources.hpp"

namespace reprieve {

namespace handler {
inline double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}
}  // namespace handler

struct [[gnu::visibility("hidden")]] PreemptionCheckpointHandler::Impl {
  Impl(MPI_Comm user_comm, CheckpointManager & checkpoint_manager, std::unique_ptr<CheckpointManager> owned,
       TerminationConfig termination_config);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// A call of run begins, or one of save_checkpoint_if_preempted has ended.
  void note_use_of_run();
  void count_boundary();
  /// Counts a boundary; true if nothing is to be done there.
  bool boundary_is_quiet();
  /// Does what is due at this boundary: saves, and leaves if that was decided.
  void act(const std::vector<std::any>& save_fn_args);
  /// Requests for a checkpoint without a notice.
  void ask_for_save() noexcept;
  /// Other steps begin: see the handler.
  void begin_phase();
  /// The end of a scope: acts on a marked preemption.
  void close_scope();
  /// A boundary at which all ranks wait for each other, and what was agreed is acted on at once: there may be no later
  /// one. Inside of a scope that saves at its end a notice is only marked, unless this is the last boundary.
  void meet(bool is_last);
  /// The last boundary, and the last agreement.
  void finish();
  /// The last agreement alone. Throws what went wrong on any rank.
  void close();
  /// All ranks have agreed on a preemption that is not yet acted on.
  [[nodiscard]] bool preemption_is_marked() const noexcept {
    return notice.has_value() || (decision_ && decision_->kind == Decision::Kind::preemption);
  }
  /// This rank's step failed: every rank hears it and throws.
  /// What is thrown on this rank holds @p error as its nested exception.
  [[noreturn]] void fail(const std::exception_ptr& error);
  /// The same where nothing may be thrown: the scope or the handler was left by an exception.
  void fail_quietly(const std::string& message) noexcept;

  [[nodiscard]] const PlatformInfo& platform() const noexcept { return platform_; }

  core::OwnerProcess owner;
  TerminationConfig config;  ///< complete
  std::unique_ptr<CheckpointManager> owned_manager;
  CheckpointManager& manager;
  std::optional<CheckpointInfo> restored;
  std::optional<std::uint64_t> already_finished;  ///< at that step, by an earlier run
  std::uint64_t run_calls = 0;
  bool uses_run = false;
  bool counts_boundaries = false;           ///< save_checkpoint_if_preempted was called, and counts
  std::optional<TerminationNotice> notice;  ///< agreed on by all ranks
  /// The same for other threads.
  std::shared_ptr<termination::NoticeBoard> board = std::make_shared<termination::NoticeBoard>();
  cluster::RequestedSave requested = cluster::RequestedSave::none;  ///< this rank's
  int scope_depth = 0;
  int patient_scopes = 0;               ///< of these, those that save at their end
  std::optional<SaveReport> last_save;  ///< committed by this handler
  bool is_over = false;                 ///< saved for good, and the program is to leave: nothing is saved any more
  bool ended = false;         ///< after the last agreement, or while the exit function runs: there is no other
  bool finished = false;      ///< ended by `finish`
  bool step_is_open = false;  ///< between the begin and the end of a call of run

 private:
  /// What all ranks have agreed to do, and where.
  struct Decision {
    enum class Kind { preemption, final_save, requested_save };
    Kind kind = Kind::requested_save;
    cluster::BoundaryIndex at = 0;
    int notice_rank = -1;
    SaveReason::Kind reason = SaveReason::Kind::user;
  };

  PlatformInfo find_surroundings();
  [[nodiscard]] termination::SourceSettings own_sources();
  void heed_hints();
  // By threads (agreement_by_threads.cpp).
  [[nodiscard]] bool threads_are_wanted();
  void begin_rounds();
  void rest_rounds(std::chrono::milliseconds limit) noexcept;
  void resume_rounds() noexcept;
  void end_rounds() noexcept;
  [[nodiscard]] bool has_news();
  void forget_what_was_told() noexcept;
  void ask_for_commit();
  void plan_alarm(std::chrono::milliseconds not_before);
  void announce_failure();
  void steps_go_on();
  void record_workers();
  [[nodiscard]] bool ranks_are_missing() const;
  void record_ready();
  void record_steps();
  void record_arrivals();
  [[nodiscard]] std::optional<termination::LocalNotice> local_notice() const;
  [[nodiscard]] cluster::LocalView look();
  [[nodiscard]] cluster::LocalView look_around();
  void hear(const cluster::Verdict& verdict);
  void decide(const cluster::Verdict& verdict);
  void note_step_time(const cluster::Verdict& verdict);
  void check_call_counts(const cluster::Verdict& verdict);
  [[noreturn]] void hear_error(int origin_rank, const core::Failure& mine);
  [[noreturn]] void hear_error_of_own(int origin_rank, const core::Failure& mine, const std::exception_ptr& error);
  [[nodiscard]] bool decision_is_due() const;
  [[nodiscard]] bool periodic_save_is_due() const;
  void plan_next_periodic_save();
  /// The program's own count, or the calls of run.
  [[nodiscard]] std::uint64_t steps() const { return config.step_fn ? config.step_fn() : run_calls; }
  void heed_the_end();
  void join_manager();
  void take_up(const CheckpointInfo& from);
  [[nodiscard]] manager::HandlerLink::NextNumber wanted_number() const;
  void carry_out(const Decision& decision, const std::vector<std::any>& save_fn_args);
  void confirm();
  void confirm_or_fail();
  void act_on_notice_at_once(bool even_in_scope);
  void warn_if_not_finished() const;
  void at_finalize() noexcept;
  void learn_notice(int one_of_them);
  void share_notice(int one_of_them);
  /// Memory that runs out in a check does so on this rank alone: the others hear of it as of a step that failed.
  template <class Check>
  void or_fail(Check && check) {
    try {
      check();
    } catch (const std::bad_alloc&) {
      fail(std::current_exception());
    }
  }
  [[nodiscard]] CheckpointManager::SaveRequest prepare_save(SaveReason::Kind reason,
                                                            const std::vector<std::any>& save_fn_args);
  [[nodiscard]] ExitContext prepare_exit();
  [[nodiscard]] int earliest_rank_with_notice(int otherwise);
  void tell_of_waiting_notice();
  void tell_news();
  void save_for_preemption(bool is_final, const std::vector<std::any>& save_fn_args);
  void wait_for_end_of_scope(const std::vector<std::any>& save_fn_args);
  void try_save_for_preemption(const std::vector<std::any>& save_fn_args);
  void save_while_running(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args);
  void save(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args);
  [[nodiscard]] bool save_fn_is_all() const noexcept {
    return config.save_fn && config.save_fn_mode == SaveFnMode::instead;
  }
  SaveReport save_by_function(const CheckpointManager::SaveRequest& request);
  [[nodiscard]] CheckpointManager::SaveRequest request_for(SaveReason::Kind reason,
                                                           const std::vector<std::any>& save_fn_args) const;
  [[nodiscard]] bool commit_is_due() const;
  void commit_background_save();
  void settle_background_save();
  void saved(const SaveReport& report);
  void leave();
  void check_usable() const;
  void check_between_steps(const char* call) const;
  void warn_if_save_does_not_fit(std::chrono::duration<double> save_time, const char* when) const;
  void warn_if_earlier_saves_do_not_fit() const;
  [[nodiscard]] handler::GraceInputs grace_inputs(const cluster::Verdict& verdict) const;
  [[nodiscard]] std::chrono::milliseconds error_limit() const;
  void report_stuck_peers(const core::Failure& failure, const std::string& why) const noexcept;

  std::shared_ptr<const void> state_use_;  ///< nothing more can be registered
  cluster::Communicator comm_;
  bool grace_was_asked_for_ = false;  ///< not filled in by the platform
  const PlatformInfo platform_;
  termination::NoticeSources sources_;
  cluster::MpiReductionChannel channel_;
  cluster::StepAgreement agreement_;

  std::optional<Decision> decision_;
  std::optional<cluster::BoundaryIndex> commit_at_;  ///< where all ranks commit the save in the background
  std::optional<cluster::Verdict> verdict_;          ///< the latest
  handler::DurationHistory save_times_;
  std::chrono::nanoseconds longest_step_{0};              ///< since the last save
  std::optional<termination::LocalNotice> drill_notice_;  ///< the chief's, in the second start of a drill
  std::chrono::steady_clock::time_point last_told_step_;  ///< in a drill
  std::unique_ptr<core::WorkerLock> worker_lock_;
  cluster::BoundaryIndex last_save_index_ = -1;  ///< of the last state that is saved, or is being written

  /// Of the last checkpoint that was restored or written by this handler: its number, and the step that it holds.
  std::optional<std::uint64_t> last_number_;
  std::uint64_t last_step_ = 0;
  std::uint64_t next_periodic_step_ = 0;
  std::chrono::steady_clock::time_point last_save_time_;
  int exceptions_at_start_;
  bool training_on_ = false;                        ///< within a grace period, before its last save
  cluster::BoundaryIndex met_at_ = 0;               ///< the boundary of the last `meet`
  std::chrono::nanoseconds longest_known_step_{0};  ///< of all steps that were measured
  /// The first boundary at which this rank saw a notice that is not agreed on yet, until the log has told of it.
  std::optional<cluster::BoundaryIndex> notice_waits_since_;
  bool told_of_wait_ = false;

  // Where threads agree on the next check.
  using Ticks = std::chrono::steady_clock::rep;
  /// All ranks have just heard of an error or have saved: there is no reason for any to come late.
  /// A drill is told of the steps so often.
  static constexpr std::chrono::milliseconds kDrillStepInterval{100};
  static constexpr std::chrono::seconds kRestLimit{10};
  static constexpr Ticks kNothingTold = std::numeric_limits<Ticks>::max();
  std::atomic<bool> hinted_{false};                 ///< a source has hinted at an end, and nothing is saved for it yet
  std::atomic<Ticks> told_deadline_{kNothingTold};  ///< of this rank's notice, as the others know it
  std::chrono::steady_clock::time_point ask_for_commit_after_{};
  std::optional<cluster::Communicator> round_comm_;
  std::optional<cluster::MpiRoundChannel> round_channel_;
  std::optional<cluster::RoundThread> rounds_;  ///< its thread uses what stands above

  cluster::FinalizeHook finalize_hook_;  ///< the last member: all others are there when it calls
};

}  // namespace reprieve
