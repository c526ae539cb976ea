// SPDX-License-Identifier: BSD-3-Clause
// The part of the handler that saves, and leaves after that.

#include <algorithm>
#include <atomic>
#include <exception>

#include "cluster/lost_ranks.hpp"
#include "core/events.hpp"
#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "handler/handler_impl.hpp"
#include "manager/local_copies.hpp"
#include "manager/save.hpp"

namespace reprieve {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Those of this process that live, and whose program must leave.
std::atomic<int> handlers_that_left{0};

bool is_another(const CheckpointInfo& made, const std::optional<CheckpointInfo>& before) {
  return !before || made.path != before->path || made.time != before->time;
}

}  // namespace

void PreemptionCheckpointHandler::Impl::carry_out(const handler::Decision& decision,
                                                  const std::vector<std::any>& save_fn_args) {
  using Kind = handler::Decision::Kind;
  switch (decision.kind) {
    case Kind::requested_save:
      save_while_running(decision.reason, save_fn_args);
      return;
    case Kind::local_copy:
      take_local_copy();
      return;
    case Kind::preemption:
      learn_notice(decision.notice_rank);
      if (patient_scopes > 0 && !notices_.agreed()->deadline) {
        return;  // the end of the scope saves
      }
      // When the last boundary is at which a save is safe depends on how long a save takes.
      if (patient_scopes > 0 && policy_.save_time_is_known()) {
        policy_.train_on();
      } else {
        save_for_preemption(false, save_fn_args);
      }
      return;
    case Kind::final_save:
      save_for_preemption(true, save_fn_args);
      return;
  }
}

void PreemptionCheckpointHandler::Impl::learn_notice(int one_of_them) {
  try {
    comm_.together(
        [&] {
          notices_.share(one_of_them);
          if (comm_.is_rank_0()) {
            const TerminationNotice& notice = *notices_.agreed();
            core::log::warning("preemption: {} on rank {} ({}), {}; all ranks agreed on step {}", notice.source,
                               notice.rank, notice.host, notice.message, run_calls);
            log_.agreed(notice, run_calls, agreement_.index());
          }
        },
        "sharing a termination notice");
  } catch (...) {
    unlearn_notice();
    throw;
  }
}

/// The notice, which is still there, is agreed on again if the program continues.
void PreemptionCheckpointHandler::Impl::unlearn_notice() noexcept {
  notices_.drop_agreed();
  notices_.forget_sent();
}

/// Before the manager's collective calls: a rank without memory would be missing there.
CheckpointManager::SaveRequest PreemptionCheckpointHandler::Impl::prepare_save(
    SaveReason::Kind reason, const std::vector<std::any>& save_fn_args, const char* message) {
  return comm_.together(
      [&] {
        report_longest_step();
        CheckpointManager::SaveRequest request;
        request.run_calls = run_calls;
        request.reason.kind = reason;
        request.reason.message = message;
        if (reason == SaveReason::Kind::preemption) {
          const TerminationNotice& notice = *notices_.agreed();
          request.reason = {reason, notice.rank, notice.host, notice.source, notice.message};
        }
        request.save_fn = config.save_fn;
        request.save_fn_args = save_fn_args;
        return request;
      },
      "preparing a save");
}

void PreemptionCheckpointHandler::Impl::save(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args,
                                             const char* message) {
  const std::uint64_t step = steps();
  const CheckpointManager::SaveRequest request = prepare_save(reason, save_fn_args, message);
  const SaveReport report = replaces_save() ? save_by_function(request) : manager.save(request);
  saved_.boundary = agreement_.index();
  save_time_ = Clock::now();
  note_commit(report);
  saved_.number = report.number;
  saved_.step = step;
  requested_ = cluster::RequestedSave::none;
}

/// What the function made is known only if this handler's manager did it.
SaveReport PreemptionCheckpointHandler::Impl::save_by_function(const CheckpointManager::SaveRequest& request) {
  const auto start = Clock::now();
  const std::optional<CheckpointInfo> before = manager.latest();
  const std::uint64_t number = manager.impl().comm.together(
      [&] { return manager::save_by_function(manager.impl(), request); }, "the save function");
  const std::int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
  const double seconds = 1e-6 * static_cast<double>(comm_.max(us, "the save function"));
  const std::optional<CheckpointInfo> made = manager.latest();
  if (made && is_another(*made, before)) {
    return {made->path, made->number, made->size_bytes, seconds, seconds};
  }
  if (comm_.is_rank_0()) {
    core::log::warning(
        "the save function left no new checkpoint in {}: the next start restores {}, unless the program restores "
        "something by itself",
        manager.directory().string(), made ? made->path.filename().string() : "nothing");
  }
  return {{}, number, 0, seconds, seconds};
}

/// Older checkpoints outlive a periodic save that fails, by a full disk for one. All ranks have the same error and the
/// same count, so they decide alike.
template <class Save>
void PreemptionCheckpointHandler::Impl::or_put_off(SaveReason::Kind reason, Save&& save) {
  try {
    std::forward<Save>(save)();
  } catch (const StorageError& error) {
    const bool may_wait = reason == SaveReason::Kind::periodic && error.code() != ErrorCode::locked;
    if (!may_wait || ++failed_saves_ >= config.save_attempts) {
      throw;
    }
    put_off(error);
  }
}

void PreemptionCheckpointHandler::Impl::put_off(const StorageError& error) {
  save_time_ = Clock::now();
  log_.write(events::SavePutOff{failed_saves_, run_calls});
  if (comm_.is_rank_0()) {
    core::log::warning(
        "periodic save {} of {} in a row that failed (termination.save_attempts): {}; the run continues, and "
        "the next interval tries again",
        failed_saves_, config.save_attempts, error.what());
  }
}

/// A save after which the program continues.
void PreemptionCheckpointHandler::Impl::save_while_running(SaveReason::Kind reason,
                                                           const std::vector<std::any>& save_fn_args) {
  if (!manager.options().background || replaces_save()) {
    or_put_off(reason, [&] { save(reason, save_fn_args); });
    return;
  }
  requested_ = cluster::RequestedSave::none;
  save_time_ = Clock::now();
  if (manager.background_save_pending() && manager.options().background_busy == BackgroundBusy::skip) {
    log_.write(events::SaveSkipped{steps()});
    if (comm_.is_rank_0()) {
      core::log::info("the checkpoint at step {} is left out: the one before is still being written", steps());
    }
    return;
  }
  commit();
  or_put_off(reason, [&] {
    const std::uint64_t step = steps();
    manager.save_in_background(prepare_save(reason, save_fn_args));
    background_reason_ = reason;
    saved_ = {agreement_.index(), manager.impl().last_number, step};
  });
}

/// A save function writes what a copy of the registered state does not hold; a drill makes its own saves.
bool PreemptionCheckpointHandler::Impl::takes_local_copies() const {
  return !manager.options().local_directory.empty() && !config.save_fn && !manager.impl().drill;
}

void PreemptionCheckpointHandler::Impl::take_local_copy() {
  local_copy_time_ = std::chrono::steady_clock::now();
  CheckpointManager::SaveRequest request;
  request.run_calls = run_calls;
  request.reason.kind = SaveReason::Kind::periodic;
  manager.impl().local_copy(request);
  local_is_under_way_ = manager.impl().local && manager.impl().local->is_under_way();
  watch_over_local_copies();
}

/// A notice after which no boundary comes in time: then each rank flushes its node-local copy alone.
void PreemptionCheckpointHandler::Impl::watch_over_local_copies() {
  if (!manager.impl().local || emergency_save_ == manager.impl().local->emergency_save()) {
    return;
  }
  watch_.reset();
  emergency_save_ = manager.impl().local->emergency_save();
  try {
    const auto stands = [this, others = threads_ ? threads_->thread.notice_waits() : nullptr] {
      return notices_.stands() || (others != nullptr && *others);
    };
    watch_.emplace(stands, manager.options().emergency_save_after,
                   [emergency_save = emergency_save_] { emergency_save->begin(); });
  } catch (const std::system_error& error) {
    core::log::warning("rank {} can make no thread to watch over its node-local copies: {}", comm_.rank(),
                       error.what());
  }
}

/// A save that the emergency save waits for, while it makes progress, or for as long as one should take: a rank may
/// hang in it.
void PreemptionCheckpointHandler::Impl::save_in_time(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args,
                                                     const char* message) {
  if (!emergency_save_) {
    save(reason, save_fn_args, message);
    return;
  }
  constexpr std::chrono::duration<double> kLeast{2};
  const auto least = std::max(kLeast, 3 * policy_.grace().save_time);
  emergency_save_->hold(std::chrono::duration_cast<std::chrono::milliseconds>(least));
  try {
    save(reason, save_fn_args, message);
  } catch (...) {
    emergency_save_->release();
    throw;
  }
  emergency_save_->end();  // a checkpoint is newer
}

void PreemptionCheckpointHandler::Impl::advance_local_copy() {
  manager::LocalCopies* const copies = manager.impl().local.get();
  if (copies != nullptr) {
    copies->advance();
  }
  local_is_under_way_ = copies != nullptr && copies->is_under_way();
}

void PreemptionCheckpointHandler::Impl::commit() {
  policy_.drop_commit();
  or_put_off(background_reason_, [this] { commit_background(); });
}

void PreemptionCheckpointHandler::Impl::commit_background() {
  try {
    if (const auto report = manager.finish_background_save()) {
      note_commit(*report);
    }
  } catch (...) {
    saved_.boundary = -1;
    throw;
  }
}

void PreemptionCheckpointHandler::Impl::finish_background() {
  try {
    commit_background();
  } catch (const Error& error) {
    core::log::debug("{}", error.what());  // the manager has reported it
  }
}

void PreemptionCheckpointHandler::Impl::note_commit(const SaveReport& report) {
  comm_.together(
      [&] {
        last_save = report;
        failed_saves_ = 0;
        const bool is_first = !policy_.save_time_is_known();
        policy_.note_save(Seconds(report.seconds), Seconds(report.blocked_seconds));
        if (is_first && comm_.is_rank_0()) {
          report_interval(report);
          warn_if_save_does_not_fit(Seconds(report.seconds), "the first save");
        }
      },
      "taking note of a save");
}

void PreemptionCheckpointHandler::Impl::report_interval(const SaveReport& report) const {
  if (saves_automatically() && !notices_.agreed()) {
    core::log::info(
        "periodic saves: one every {} from now on, since a save costs {} (for a failure every {} h, and at most "
        "{:.0f} % of the time)",
        core::duration_text(policy_.automatic_interval()), core::seconds_text(report.blocked_seconds),
        handler::kAssumedMtbf.count(), 100 * handler::kMostSaving);
  }
}

void PreemptionCheckpointHandler::Impl::save_for_preemption(bool is_final, const std::vector<std::any>& save_fn_args) {
  policy_.drop_commit();
  finish_background();
  if (!has_saved_here()) {
    try {
      save_in_time(SaveReason::Kind::preemption, save_fn_args);
    } catch (...) {
      if (!policy_.trains_on()) {
        unlearn_notice();
      }
      throw;
    }
  }
  if (is_final || !continues_after_save()) {
    leave();
  }
}

void PreemptionCheckpointHandler::Impl::act_in_dry_run(bool is_last, const std::vector<std::any>& save_fn_args) {
  const handler::DryRun::Action action = dry_run_.take_action(run_calls, is_last);
  if (action.save) {
    policy_.drop_commit();
    finish_background();
    if (!has_saved_here()) {
      save(SaveReason::Kind::user, save_fn_args);
    }
  }
  if (action.watch_memory) {
    dry_run_.watch_memory(comm_, manager.impl().checkpoint.registry());
  }
  if (action.leave) {
    policy_.drop_decision();
    give_notice("drill", "end of a replay");
    learn_notice(0);
    save_for_preemption(true, save_fn_args);
  }
}

/// Whether there is time for more steps and another save. The time left after this one is agreed on again: all ranks
/// must decide alike.
bool PreemptionCheckpointHandler::Impl::continues_after_save() {
  if (!notices_.agreed()->deadline) {
    return false;
  }
  policy_.note(agree_here());
  const handler::GraceInputs inputs = policy_.grace();
  if (!handler::room_for_another_save(inputs)) {
    return false;
  }
  policy_.train_on();
  if (comm_.is_rank_0()) {
    core::log::info("{:.1f} s are left: training on, with another checkpoint before the end", inputs.time_left.count());
    log_.write(events::TrainOn{run_calls, Seconds(inputs.time_left).count()});
  }
  return true;
}

ExitContext PreemptionCheckpointHandler::Impl::prepare_exit() {
  ExitContext context{comm_.handle(), *config.restart_code, *notices_.agreed(),
                      last_save ? last_save->path.string() : ""};
  if (comm_.is_rank_0()) {
    core::log::info("saved {} {} after the notice; leaving with code {}", context.checkpoint,
                    core::seconds_text(handler::seconds_since(context.notice.time)), context.exit_code);
    log_.write(
        events::Exit{run_calls, context.exit_code, context.checkpoint, handler::seconds_since(context.notice.time)});
  }
  dry_run_.send_arrivals(comm_, notices_.own());
  return context;
}

void PreemptionCheckpointHandler::Impl::leave() {
  const auto prepare = [&] {
    core::failpoint("exit.saved");
    ExitContext prepared = prepare_exit();
    cluster::life().is_saved_for_notice = true;  // whoever dies from here on: the notice is acknowledged
    notices_.saved();
    if (!config.return_when_saved) {
      notices_.acknowledge();  // otherwise it stands until the handler ends, also for other handlers of this process
    }
    return prepared;
  };
  // Once any rank is in its exit function, a signal to any rank is a new notice.
  const ExitContext context = comm_.together(prepare, "preparing the exit");
  watch_.reset();
  manager.impl().remove_local_left_overs();
  emergency_save_.reset();
  manager.impl().give_back_local_copies();
  rest_threads();
  ended = true;  // if the exit function throws, the ranks unwind without a further agreement
  config.exit_fn(context);
  ended = false;
  if (threads_) {
    threads_->thread.resume();
  }
  policy_.stop_training();
  is_over = config.return_when_saved;
  if (is_over) {
    ++handlers_that_left;
  } else {
    cluster::life().is_saved_for_notice = false;
    log_.write(events::WentOn{run_calls});
    unlearn_notice();
  }
}

void PreemptionCheckpointHandler::Impl::warn_if_save_does_not_fit(std::chrono::duration<double> save_time,
                                                                  const char* when) const {
  const auto grace = *config.grace_period;
  if (grace.count() > 0 && !handler::save_fits(grace, save_time, *config.grace_margin)) {
    core::log::warning(
        "the grace period of {:.3g} s is too short: {} took {:.3g} s, and {:.3g} s are to be left over; ask for a "
        "longer grace period, or save less",
        Seconds(grace).count(), when, save_time.count(), Seconds(*config.grace_margin).count());
  }
}

void PreemptionCheckpointHandler::Impl::warn_if_earlier_saves_do_not_fit() const {
  if (config.grace_period->count() <= 0) {  // every save fits: the log need not be read
    return;
  }
  const auto log = core::read_events(manager.directory() / manager::kEventLogName);
  const auto is_save = [](const auto& logged) { return std::holds_alternative<events::SaveFinished>(logged.event); };
  if (const auto save = std::find_if(log.rbegin(), log.rend(), is_save); save != log.rend()) {
    warn_if_save_does_not_fit(Seconds(std::get<events::SaveFinished>(save->event).seconds),
                              "the last save of an earlier run");
  }
}

/// For the readers of the log: how long a notice may have to wait for the end of a step.
void PreemptionCheckpointHandler::Impl::report_longest_step() {
  if (threads_) {
    longest_step_ = std::max(longest_step_, threads_->thread.take_longest_step());
  }
  if (longest_step_.count() > 0) {
    log_.write(events::LongestStep{run_calls, Seconds(longest_step_).count()});
    longest_step_ = {};
  }
}

// The end of a handler: the boundary at which all ranks wait for each other, and the last agreement.

/// All ranks stand at this boundary with the same result, or all throw.
cluster::CheckResult PreemptionCheckpointHandler::Impl::agree_here() {
  cluster::CheckResult check_result;
  core::Outcome mine;
  try {
    check_result = agreement_.confirm();
    handle_problems(check_result);
    agreement_.check_met(check_result);
  } catch (const std::bad_alloc&) {
    mine = core::failure_of(std::current_exception());  // after the others have got it
  }
  try {
    comm_.agree(mine, "confirming a step boundary");
  } catch (...) {
    // Not all ranks know the decision: it is agreed on again if the program continues.
    policy_.drop_decision();
    policy_.drop_commit();
    notices_.forget_sent();
    throw;
  }
  return check_result;
}

/// The same, and all decide by that result.
void PreemptionCheckpointHandler::Impl::confirm() { decide(agree_here()); }

/// A rank that stands elsewhere gets the error, or it would continue as if nothing were wrong.
void PreemptionCheckpointHandler::Impl::confirm_or_fail() {
  try {
    confirm();
  } catch (const UsageError&) {
    if (ended) {
      throw;  // all ranks have got it
    }
    fail(std::current_exception());
  }
}

/// All ranks stand here with the same results: what they imply need not wait for a later boundary, there may be none.
void PreemptionCheckpointHandler::Impl::learn_decided_notice() {
  if (policy_.preemption_is_decided()) {
    learn_notice(policy_.decision()->notice_rank);
    policy_.drop_decision();
  }
}

/// All steps of the loop are made: what is left to do is to write the results, and perhaps another loop.
void PreemptionCheckpointHandler::Impl::act_on_notice_at_end(bool is_last) {
  learn_decided_notice();
  if (is_over) {
    return;
  }
  if (is_last && !notices_.agreed() && another_handler_has_left()) {
    give_notice("another handler", "it has saved, and the program leaves");
    learn_notice(0);
    save_for_preemption(true, {});
  } else if (is_last && notices_.agreed() && left_loop_for_notice()) {
    save_for_preemption(true, {});
  } else if (!is_last && notices_.agreed() && patient_scopes == 0) {
    save_last_step();
    policy_.stop_training();
    unlearn_notice();  // another loop agrees on it again
  }
}

/// A program that knows of a notice may have ended its loop early.
bool PreemptionCheckpointHandler::Impl::left_loop_for_notice() {
  const bool is_complete = config.total_steps > 0 && run_calls >= config.total_steps;
  return !is_complete && comm_.max(saw_notice ? 1 : 0, "finishing") > 0;
}

bool PreemptionCheckpointHandler::Impl::another_handler_has_left() {
  return comm_.max(handlers_that_left.load(), "finishing") > 0;
}

/// Where this start has made no step, the program may only have looked.
void PreemptionCheckpointHandler::Impl::save_last_step() {
  if (!config.save_at_finish || is_over || agreement_.index() == 1 || has_saved_here()) {
    return;
  }
  const auto newest = manager.latest();
  if (newest && newest->run_calls == run_calls && (!config.step_fn || newest->number == steps())) {
    return;
  }
  if (notices_.agreed()) {
    save_in_time(SaveReason::Kind::preemption, {});
  } else {
    save_in_time(SaveReason::Kind::user, {}, "the last step");
  }
}

void PreemptionCheckpointHandler::Impl::close_scope() {
  if (ended) {
    return;  // all ranks have saved, or have got the error
  }
  check_between_steps("the end of a scope");
  agreement_.at_boundary();
  confirm_or_fail();
  learn_decided_notice();
  if (notices_.agreed() && !is_over) {
    save_for_preemption(true, {});
  }
  if (dry_run_is_due()) {
    act_in_dry_run(false, {});
  }
  steps_go_on();
}

void PreemptionCheckpointHandler::Impl::agree_now(bool is_last) {
  check_between_steps("finish()");
  check_usable();
  agreement_.at_boundary();
  confirm_or_fail();
  met_at_ = agreement_.index();
  commit();
  act_on_notice_at_end(is_last);
  if (policy_.decision() && policy_.decision()->reason == SaveReason::Kind::user) {
    save_while_running(SaveReason::Kind::user, {});  // it was asked for, and would be forgotten
    commit();
  }
  policy_.drop_decision();
  if (!notices_.agreed() && !is_over && (is_last || patient_scopes == 0)) {
    act_in_dry_run(is_last, {});
  }
  steps_go_on();
}

void PreemptionCheckpointHandler::Impl::finish() {
  if (finished) {
    return;
  }
  agree_now(true);
  save_last_step();
  close();
  finished = true;
  manager.impl().local_copies_stay = false;
  if (agreement_.index() > 1) {  // otherwise it may only have looked
    manager.impl().remove_local_left_overs();
  }
}

void PreemptionCheckpointHandler::Impl::close() {
  if (ended) {
    return;
  }
  const cluster::CheckResult check_result = agreement_.close();
  if (check_result.failed_rank >= 0) {
    throw_received(check_result.failed_rank, {});
  }
  ended = true;
  rest_threads(config.peer_timeout);
  if (check_result.first_index != check_result.last_index) {
    throw UsageError(
        fmt::format("the ranks make different numbers of calls: the last step boundary of one is {}, of another {}",
                    check_result.first_index, check_result.last_index));
  }
  commit();
  // Not where a program left its loop without a word: nobody knows then whether all steps are done.
  const bool is_complete = !is_over && met_at_ > 0 && agreement_.index() == met_at_;
  if (is_complete) {
    save_last_step();
  }
  if (comm_.is_rank_0() && is_complete && notices_.agreed()) {
    core::log::info("all steps are done: the program may end in spite of the notice");
  } else if (comm_.is_rank_0() && !notices_.agreed() && notices_.own()) {
    core::log::info("a notice came after the last step boundary: nothing is saved for it");
  }
  report_longest_step();
  if (leave_manager() && !is_over) {
    log_.write(events::Finished{run_calls});
    if (is_complete && config.save_at_finish) {
      manager.impl().mark_finished(run_calls);
    }
  }
}

/// True for the last one of its manager: only then is the run at its end.
bool PreemptionCheckpointHandler::Impl::leave_manager() noexcept {
  return std::exchange(has_joined_, false) && --manager.impl().handlers == 0;
}

/// The other ranks' errors since the last boundary reach this rank in the destructor, which cannot throw them.
void PreemptionCheckpointHandler::Impl::warn_if_not_finished() const {
  if (comm_.is_rank_0() && !is_over && agreement_.index() > met_at_) {
    core::log::warning(
        "the handler was not finished: call finish() after the last step, or what fails on another rank after this "
        "rank's last step boundary, and a notice after it, are only logged");
  }
}

PreemptionCheckpointHandler::Impl::~Impl() {
  if (auto& link = manager.impl().handler; link && link->owner == this) {
    link.reset();
  }
  if (is_over) {
    notices_.acknowledge();
    --handlers_that_left;
  }
  if (ended || ranks_are_missing()) {
    leave_manager();
    return;
  }
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    leave_manager();
    fail_quietly("an exception outside of run() ended the program's use of the handler");
    return;
  }
  warn_if_not_finished();
  try {
    close();
  } catch (const std::exception& error) {
    core::log::error("end of the handler: {}", error.what());
  }
  leave_manager();
}

/// The program's handler lives on after MPI_Finalize. Its last agreement must come before.
void PreemptionCheckpointHandler::Impl::at_finalize() noexcept {
  if (!owner.is_here()) {
    return;
  }
  if (!ended && !ranks_are_missing()) {
    if (comm_.is_rank_0()) {
      core::log::warning(
          "MPI_Finalize was called while a handler lives: its end is now; call finish() after the last step, or put "
          "the "
          "handler into a block that ends before MPI_Finalize");
    }
    try {
      close();
    } catch (const std::exception& error) {
      core::log::error("end of the handler in MPI_Finalize: {}", error.what());
    }
  }
  ended = true;
  if (threads_) {
    threads_->thread.abandon();
    threads_->comm.leave_mpi();
  }
  comm_.leave_mpi();
}

}  // namespace reprieve
