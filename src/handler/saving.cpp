// SPDX-License-Identifier: BSD-3-Clause
// The part of the handler that saves, and leaves after that.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/event_reader.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "handler/handler_impl.hpp"
#include "manager/near_copies.hpp"

namespace reprieve {

namespace {

using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

}  // namespace

void PreemptionCheckpointHandler::Impl::carry_out(const handler::Decision& decision,
                                                  const std::vector<std::any>& save_fn_args) {
  using Kind = handler::Decision::Kind;
  switch (decision.kind) {
    case Kind::requested_save:
      save_while_running(decision.reason, save_fn_args);
      return;
    case Kind::near_copy:
      take_near_copy();
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
          if (comm_.is_chief()) {
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

/// The notice, which is still there, is agreed on anew if the program goes on.
void PreemptionCheckpointHandler::Impl::unlearn_notice() noexcept {
  notices_.drop_agreed();
  notices_.forget_told();
}

/// Before the manager's collective calls, in which a rank without memory would be missing.
CheckpointManager::SaveRequest PreemptionCheckpointHandler::Impl::prepare_save(
    SaveReason::Kind reason, const std::vector<std::any>& save_fn_args) {
  return comm_.together(
      [&] {
        tell_longest_step();
        CheckpointManager::SaveRequest request;
        request.run_calls = run_calls;
        request.reason.kind = reason;
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

void PreemptionCheckpointHandler::Impl::save(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args) {
  saver_.save(prepare_save(reason, save_fn_args), {steps(), agreement_.index()});
  requested_ = cluster::RequestedSave::none;
}

/// A save after which the program goes on.
void PreemptionCheckpointHandler::Impl::save_while_running(SaveReason::Kind reason,
                                                           const std::vector<std::any>& save_fn_args) {
  if (!saver_.works_in_background()) {
    save(reason, save_fn_args);
    return;
  }
  requested_ = cluster::RequestedSave::none;
  saver_.start_clock();
  if (saver_.is_busy()) {
    log_.save_skipped(steps());
    if (comm_.is_chief()) {
      core::log::info("the checkpoint at step {} is left out: the one before is still being written", steps());
    }
    return;
  }
  commit();
  saver_.save_in_background(prepare_save(reason, save_fn_args), {steps(), agreement_.index()});
}

/// A save function writes what a copy of the registered state does not hold; a drill makes its own saves.
bool PreemptionCheckpointHandler::Impl::takes_near_copies() const {
  return !manager.options().near_directory.empty() && !config.save_fn && !manager.impl().drill;
}

void PreemptionCheckpointHandler::Impl::take_near_copy() {
  near_copy_time_ = std::chrono::steady_clock::now();
  CheckpointManager::SaveRequest request;
  request.run_calls = run_calls;
  request.reason.kind = SaveReason::Kind::periodic;
  manager.impl().near_copy(request);
  near_is_under_way_ = manager.impl().near && manager.impl().near->is_under_way();
  watch_over_near_copies();
}

/// A notice after which no boundary comes in time: then each rank brings its near copy alone.
void PreemptionCheckpointHandler::Impl::watch_over_near_copies() {
  if (!manager.impl().near || rescue_ == manager.impl().near->rescue()) {
    return;
  }
  watch_.reset();
  rescue_ = manager.impl().near->rescue();
  try {
    watch_.emplace([this] { return notices_.stands(); }, manager.options().near_rescue_after,
                   [rescue = rescue_] { rescue->begin(); });
  } catch (const std::system_error& error) {
    core::log::warning("rank {} can make no thread to watch over its near copies: {}", comm_.rank(), error.what());
  }
}

/// For a save, and for no longer than one should take: a rank may hang in it.
void PreemptionCheckpointHandler::Impl::hold_rescue(bool holds) noexcept {
  constexpr std::chrono::duration<double> kLeast{2};
  if (rescue_) {
    const auto limit = std::max(kLeast, 3 * policy_.grace().save_time);
    rescue_->hold_for(holds ? std::chrono::duration_cast<std::chrono::milliseconds>(limit)
                            : std::chrono::milliseconds(0));
  }
}

/// A checkpoint is newer.
void PreemptionCheckpointHandler::Impl::end_rescue() noexcept {
  if (rescue_) {
    rescue_->end();
  }
}

void PreemptionCheckpointHandler::Impl::give_back_near_copies() {
  watch_.reset();
  rescue_.reset();
  manager.impl().give_back_near_copies();
}

void PreemptionCheckpointHandler::Impl::advance_near_copy() {
  manager::NearCopies* const copies = manager.impl().near.get();
  if (copies != nullptr) {
    copies->advance();
  }
  near_is_under_way_ = copies != nullptr && copies->is_under_way();
}

void PreemptionCheckpointHandler::Impl::commit() {
  policy_.drop_commit();
  saver_.commit();
}

void PreemptionCheckpointHandler::Impl::note_commit(const SaveReport& report) {
  comm_.together(
      [&] {
        last_save = report;
        const bool is_first = !policy_.save_time_is_known();
        policy_.note_save(Seconds(report.seconds));
        if (is_first && comm_.is_chief()) {
          warn_if_save_does_not_fit(Seconds(report.seconds), "the first save");
        }
      },
      "taking note of a save");
}

void PreemptionCheckpointHandler::Impl::save_for_preemption(bool is_final, const std::vector<std::any>& save_fn_args) {
  policy_.drop_commit();
  saver_.settle();
  if (!saver_.has_saved(agreement_.index())) {
    hold_rescue(true);
    try {
      save(SaveReason::Kind::preemption, save_fn_args);
    } catch (...) {
      hold_rescue(false);
      if (!policy_.trains_on()) {
        unlearn_notice();
      }
      throw;
    }
    end_rescue();
  }
  if (is_final || !goes_on_after_save()) {
    leave();
  }
}

void PreemptionCheckpointHandler::Impl::rehearse(bool is_last, const std::vector<std::any>& save_fn_args) {
  const handler::Rehearsal::Duty duty = rehearsal_.take_duty(run_calls, is_last);
  if (duty.save) {
    policy_.drop_commit();
    saver_.settle();
    if (!saver_.has_saved(agreement_.index())) {
      save(SaveReason::Kind::user, save_fn_args);
    }
  }
  if (duty.leave) {
    policy_.drop_decision();
    rehearsal_.give_notice(comm_.is_chief(), "end of a replay");
    learn_notice(0);
    save_for_preemption(true, save_fn_args);
  }
}

/// Whether there is time for more steps and another save. The time left after this one is agreed on anew: all ranks
/// must decide alike.
bool PreemptionCheckpointHandler::Impl::goes_on_after_save() {
  if (!notices_.agreed()->deadline) {
    return false;
  }
  policy_.note(meet_here());
  const handler::GraceInputs inputs = policy_.grace();
  if (!handler::room_for_another_save(inputs)) {
    return false;
  }
  policy_.train_on();
  if (comm_.is_chief()) {
    core::log::info("{:.1f} s are left: training on, with another checkpoint before the end", inputs.time_left.count());
    log_.trains_on(run_calls, inputs.time_left);
  }
  return true;
}

ExitContext PreemptionCheckpointHandler::Impl::prepare_exit() {
  ExitContext context{comm_.handle(), *config.restart_code, *notices_.agreed(),
                      last_save ? last_save->path.string() : ""};
  if (comm_.is_chief()) {
    core::log::info("saved {} {:.3f} s after the notice; leaving with code {}", context.checkpoint,
                    handler::seconds_since(context.notice.time), context.exit_code);
    log_.leaves(run_calls, context);
  }
  rehearsal_.tell_arrivals(comm_, notices_.own());
  return context;
}

void PreemptionCheckpointHandler::Impl::leave() {
  const ExitContext context = comm_.together([&] { return prepare_exit(); }, "preparing the exit");
  watch_.reset();
  notices_.saved();
  if (!config.return_when_saved) {
    notices_.acknowledge();  // otherwise it stands until the handler ends, also for other handlers of this process
  }
  manager.impl().remove_near_left_overs();
  give_back_near_copies();
  core::kill_point(core::KillPoint::exit_saved);
  threads_.rest();
  ended = true;  // if the exit function throws, the ranks unwind without a further agreement
  config.exit_fn(context);
  ended = false;
  threads_.resume();
  policy_.stop_training();
  is_over = config.return_when_saved;
  if (!is_over) {
    log_.went_on(run_calls);
    unlearn_notice();
  }
}

void PreemptionCheckpointHandler::Impl::warn_if_save_does_not_fit(std::chrono::duration<double> save_time,
                                                                  const char* when) const {
  const auto grace = *config.grace_period;
  if (grace.count() > 0 && !handler::save_fits(grace, save_time, config.grace_margin)) {
    core::log::warning(
        "the grace period of {:.3g} s is too short: {} took {:.3g} s, and {:.3g} s are to be left over; ask for a "
        "longer grace period, or save less",
        Seconds(grace).count(), when, save_time.count(), Seconds(config.grace_margin).count());
  }
}

void PreemptionCheckpointHandler::Impl::warn_if_earlier_saves_do_not_fit() const {
  const auto events = core::read_events(manager.directory() / manager::kEventLogName);
  const auto save = std::find_if(events.rbegin(), events.rend(), [](const Json& event) {
    return event.value("event", Json()) == "save_finished" && event.value("seconds", Json()).is_number();
  });
  if (save != events.rend()) {
    warn_if_save_does_not_fit(Seconds((*save)["seconds"].get<double>()), "the last save of an earlier run");
  }
}

/// For those who look at the log later: how long a notice may have to wait for the end of a step.
void PreemptionCheckpointHandler::Impl::tell_longest_step() {
  if (threads_.running()) {
    longest_step_ = std::max(longest_step_, threads_->take_longest_step());
  }
  if (longest_step_.count() > 0) {
    log_.longest_step(run_calls, longest_step_);
    longest_step_ = {};
  }
}

}  // namespace reprieve
