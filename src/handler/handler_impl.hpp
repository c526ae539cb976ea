#pragma once

/// @file
/// The state and the decisions of a PreemptionCheckpointHandler.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/communicator.hpp"
#include "cluster/mpi_channel.hpp"
#include "cluster/step_agreement.hpp"
#include "core/fork_guard.hpp"
#include "core/outcome.hpp"
#include "core/worker_record.hpp"
#include "handler/grace_planner.hpp"
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

  /// Counts a boundary; true if nothing is to be done there.
  bool boundary_is_quiet();
  /// Does what is due at this boundary: saves, and leaves if that was decided.
  void act(const std::vector<std::any>& save_fn_args);
  /// The end of a scope: acts on a marked preemption.
  void close_scope();
  /// All ranks have agreed on a preemption that is not yet acted on.
  [[nodiscard]] bool preemption_is_marked() const noexcept {
    return notice.has_value() || (decision_ && decision_->kind == Decision::Kind::preemption);
  }
  /// This rank's step failed: every rank hears it and throws.
  [[noreturn]] void fail(const std::exception_ptr& error);
  /// The same where nothing may be thrown: the scope or the handler was left by an exception.
  void fail_quietly(const std::string& message) noexcept;

  [[nodiscard]] const PlatformInfo& platform() const noexcept { return platform_; }

  core::OwnerProcess owner;
  TerminationConfig config;  ///< complete
  std::unique_ptr<CheckpointManager> owned_manager;
  CheckpointManager& manager;
  std::optional<CheckpointInfo> restored;
  std::uint64_t run_calls = 0;
  std::optional<TerminationNotice> notice;  ///< agreed on by all ranks
  /// The same for other threads.
  std::shared_ptr<termination::NoticeBoard> board = std::make_shared<termination::NoticeBoard>();
  cluster::SaveWish wish = cluster::SaveWish::none;  ///< this rank's
  int scope_depth = 0;
  std::optional<SaveReport> last_save;  ///< committed by this handler
  bool is_over = false;                 ///< saved for good, and the program is to leave: nothing is saved any more
  bool ended = false;                   ///< after an error, or while the exit function runs: no further agreement

 private:
  /// What all ranks have agreed to do, and where.
  struct Decision {
    enum class Kind { preemption, final_save, wish };
    Kind kind = Kind::wish;
    cluster::BoundaryIndex at = 0;
    int notice_rank = -1;
    SaveReason::Kind reason = SaveReason::Kind::user;
  };

  PlatformInfo find_surroundings();
  [[nodiscard]] termination::SourceSettings own_sources();
  void heed_hints();
  void record_workers();
  [[nodiscard]] bool ranks_are_missing() const;
  void record_ready();
  void record_steps();
  void record_arrivals();
  [[nodiscard]] std::optional<termination::LocalNotice> local_notice() const;
  [[nodiscard]] cluster::LocalView look();
  void hear(const cluster::Verdict& verdict);
  void decide(const cluster::Verdict& verdict);
  void note_step_time(const cluster::Verdict& verdict);
  void check_call_counts(const cluster::Verdict& verdict);
  [[noreturn]] void hear_error(int origin_rank, const core::Failure& mine);
  [[nodiscard]] bool decision_is_due() const;
  [[nodiscard]] bool periodic_save_is_due() const;
  void plan_next_periodic_save();
  /// The program's own count, or the calls of run.
  [[nodiscard]] std::uint64_t steps() const { return config.step_fn ? config.step_fn() : run_calls; }
  [[nodiscard]] std::uint64_t next_number() const;
  void carry_out(const Decision& decision, const std::vector<std::any>& save_fn_args);
  void learn_notice(int rank);
  void save_for_preemption(bool is_final, const std::vector<std::any>& save_fn_args);
  void try_save_for_preemption(const std::vector<std::any>& save_fn_args);
  void save_while_running(SaveReason reason, const std::vector<std::any>& save_fn_args);
  void save(SaveReason reason, const std::vector<std::any>& save_fn_args);
  [[nodiscard]] CheckpointManager::SaveRequest request_for(SaveReason reason, const std::vector<std::any>& save_fn_args)
      const;
  [[nodiscard]] bool commit_is_due() const;
  void commit_background_save();
  void settle_background_save();
  void saved(const SaveReport& report);
  void leave();
  void check_usable() const;
  void warn_if_save_does_not_fit(std::chrono::duration<double> save_time, const char* when) const;
  void warn_if_earlier_saves_do_not_fit() const;
  [[nodiscard]] handler::GraceInputs grace_inputs(const cluster::Verdict& verdict) const;
  [[nodiscard]] std::chrono::milliseconds error_limit() const;
  void report_stuck_peers(const core::Failure& failure, const std::string& why) const noexcept;

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

  std::optional<std::uint64_t> last_number_;  ///< of a checkpoint that was restored or written
  std::uint64_t next_periodic_step_ = 0;
  std::chrono::steady_clock::time_point last_save_time_;
  int exceptions_at_start_;
  bool training_on_ = false;  ///< within a grace period, after its first save
};

}  // namespace reprieve
