// The part of the handler that saves and leaves.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "cluster/json_exchange.hpp"
#include "core/event_reader.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "handler/handler_impl.hpp"
#include "manager/manager_impl.hpp"

namespace reprieve {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

}  // namespace

/// The step that the state holds, where that follows all checkpoints that are there; else the manager takes the next
/// number. A second save at the same step replaces the first.
manager::HandlerLink::NextNumber PreemptionCheckpointHandler::Impl::wanted_number() const {
  const std::uint64_t step = steps();
  return {step, last_number_ == step && last_step_ == step && step > 0};
}

CheckpointManager::SaveRequest PreemptionCheckpointHandler::Impl::request_for(
    SaveReason::Kind reason, const std::vector<std::any>& save_fn_args) const {
  CheckpointManager::SaveRequest request;
  request.run_calls = run_calls;
  request.reason.kind = reason;
  if (reason == SaveReason::Kind::preemption) {
    request.reason = {reason, notice->rank, notice->host, notice->source, notice->message};
  }
  request.save_fn = config.save_fn;
  request.save_fn_args = save_fn_args;
  return request;
}

/// Before the manager's collective calls, in which a rank without memory would be missing.
CheckpointManager::SaveRequest PreemptionCheckpointHandler::Impl::prepare_save(
    SaveReason::Kind reason, const std::vector<std::any>& save_fn_args) {
  return comm_.together(
      [&] {
        record_steps();
        return request_for(reason, save_fn_args);
      },
      "preparing a save");
}

/// A save after which the program goes on.
void PreemptionCheckpointHandler::Impl::save_while_running(SaveReason::Kind reason,
                                                           const std::vector<std::any>& save_fn_args) {
  const ManagerOptions& options = manager.options();
  if (!options.background || save_fn_is_all()) {
    save(reason, save_fn_args);
    return;
  }
  requested = cluster::RequestedSave::none;
  last_save_time_ = Clock::now();
  if (manager.background_save_pending() && options.background_busy == BackgroundBusy::skip) {
    manager.impl().record("save_skipped", {{"number", steps()}});
    if (comm_.is_chief()) {
      core::log::info("the checkpoint at step {} is left out: the one before is still being written", steps());
    }
    return;
  }
  commit_background_save();
  manager.save_in_background(prepare_save(reason, save_fn_args));
  last_number_ = manager.impl().last_number;
  last_step_ = steps();
  last_save_index_ = agreement_.index();
}

void PreemptionCheckpointHandler::Impl::save(SaveReason::Kind reason, const std::vector<std::any>& save_fn_args) {
  const CheckpointManager::SaveRequest request = prepare_save(reason, save_fn_args);
  const SaveReport report = save_fn_is_all() ? save_by_function(request) : manager.save(request);
  requested = cluster::RequestedSave::none;
  last_save_index_ = agreement_.index();
  last_save_time_ = Clock::now();
  saved(report);
  last_number_ = report.number;
  last_step_ = steps();
}

/// The user's function makes the checkpoint; what it made is known only if this handler's manager did it.
SaveReport PreemptionCheckpointHandler::Impl::save_by_function(const CheckpointManager::SaveRequest& request) {
  const auto start = Clock::now();
  const std::optional<CheckpointInfo> before = manager.latest();
  const std::uint64_t number = manager.impl().run_save_fn_instead(request);
  const std::int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
  const double seconds = 1e-6 * static_cast<double>(comm_.max(us, "the save function"));
  const std::optional<CheckpointInfo> made = manager.latest();
  if (made && (!before || made->path != before->path || made->time != before->time)) {
    return {made->path, made->number, made->size_bytes, seconds, seconds};
  }
  if (comm_.is_chief()) {
    core::log::warning(
        "the save function left no new checkpoint in {}: the next start restores {}, unless the program restores "
        "something by itself",
        manager.directory().string(), made ? made->path.filename().string() : "nothing");
  }
  return {{}, number, 0, seconds, seconds};
}

/// Waits for the threads of all ranks if they are not done. @throws what went wrong in one of them
void PreemptionCheckpointHandler::Impl::commit_background_save() {
  commit_at_.reset();
  try {
    if (const auto report = manager.finish_background_save()) {
      saved(*report);
    }
  } catch (...) {
    last_save_index_ = -1;
    throw;
  }
}

void PreemptionCheckpointHandler::Impl::saved(const SaveReport& report) {
  comm_.together(
      [&] {
        last_save = report;
        const bool is_first = save_times_.empty();
        save_times_.add(Seconds(report.seconds));
        if (is_first && comm_.is_chief()) {
          warn_if_save_does_not_fit(Seconds(report.seconds), "the first save");
        }
      },
      "taking note of a save");
}

void PreemptionCheckpointHandler::Impl::save_for_preemption(bool is_final, const std::vector<std::any>& save_fn_args) {
  settle_background_save();
  if (agreement_.index() != last_save_index_) {
    try_save_for_preemption(save_fn_args);
  }
  if (!is_final && notice->deadline) {
    // The time left after the save, agreed on anew: all ranks must decide alike whether to train on.
    confirm();
    const auto inputs = grace_inputs(*verdict_);
    if (handler::room_for_another_save(inputs)) {
      training_on_ = true;
      if (comm_.is_chief()) {
        core::log::info("{:.1f} s are left: training on, with another checkpoint before the end",
                        inputs.time_left.count());
        manager.impl().record("train_on", {{"run_calls", run_calls}, {"time_left_s", inputs.time_left.count()}});
      }
      return;
    }
  }
  leave();
}

/// Until the end of the scope, or until the last boundary at which a save is safe. When that is depends on how long a
/// save takes; if that is not known, one is made at once.
void PreemptionCheckpointHandler::Impl::wait_for_end_of_scope(const std::vector<std::any>& save_fn_args) {
  if (save_times_.empty()) {
    save_for_preemption(false, save_fn_args);
  } else {
    training_on_ = true;
  }
}

/// Before the save that counts: that of an earlier step, if it cannot be committed, must not hinder it.
void PreemptionCheckpointHandler::Impl::settle_background_save() {
  try {
    commit_background_save();
  } catch (const Error& error) {
    core::log::debug("{}", error.what());  // the manager has told it
  }
}

void PreemptionCheckpointHandler::Impl::try_save_for_preemption(const std::vector<std::any>& save_fn_args) {
  try {
    save(SaveReason::Kind::preemption, save_fn_args);
  } catch (...) {
    if (!training_on_) {
      notice.reset();  // so that the notice, which is still there, is agreed on anew if the program goes on
      forget_what_was_told();
    }
    throw;
  }
}

ExitContext PreemptionCheckpointHandler::Impl::prepare_exit() {
  ExitContext context{comm_.handle(), *config.restart_code, *notice, last_save ? last_save->path.string() : ""};
  if (comm_.is_chief()) {
    const double seconds = handler::seconds_since(notice->time);
    core::log::info("saved {} {:.3f} s after the notice; leaving with code {}", context.checkpoint, seconds,
                    *config.restart_code);
    manager.impl().record("exit", {{"run_calls", run_calls},
                                   {"exit_code", *config.restart_code},
                                   {"checkpoint", context.checkpoint},
                                   {"seconds_from_notice", seconds}});
  }
  if (manager.impl().drill) {
    record_arrivals();
  }
  return context;
}

void PreemptionCheckpointHandler::Impl::leave() {
  const ExitContext context = comm_.together([&] { return prepare_exit(); }, "preparing the exit");
  drill_notice_.reset();
  sources_.saved();
  if (!config.return_when_saved) {
    sources_.acknowledge();  // otherwise it stands until the handler ends, also for other handlers of this process
  }
  core::kill_point(core::KillPoint::exit_saved);
  rest_rounds(kRestLimit);
  ended = true;  // if the exit function throws, the ranks unwind without a further agreement
  config.exit_fn(context);
  ended = false;
  resume_rounds();
  training_on_ = false;
  is_over = config.return_when_saved;
  if (!is_over) {
    manager.impl().record("went_on", {{"run_calls", run_calls}});
    notice.reset();
    forget_what_was_told();
  }
}

/// Which ranks have had a notice of their own, and how long ago.
void PreemptionCheckpointHandler::Impl::record_arrivals() {
  Json mine{{"rank", comm_.rank()}, {"host", comm_.host()}};
  if (const auto local = local_notice()) {
    mine.update(
        {{"source", local->source}, {"message", local->message}, {"age_s", handler::seconds_since(local->time)}});
  }
  const Json all = cluster::gather(comm_, mine, "telling where the notice arrived");
  manager.impl().record("arrivals", {{"ranks", all}});
}

void PreemptionCheckpointHandler::Impl::warn_if_save_does_not_fit(std::chrono::duration<double> save_time,
                                                                  const char* when) const {
  const auto grace = *config.grace_period;
  if (grace.count() > 0 && !handler::save_fits(grace, save_time, config.grace_margin)) {
    core::log::warning(
        "the grace period of {:.3g} s is too short: {} took {:.3g} s, and {:.3g} s are to be left over; ask for a "
        "longer "
        "grace period, or save less",
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

}  // namespace reprieve
