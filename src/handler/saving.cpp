// The part of the handler that saves and leaves.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/event_reader.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "handler/handler_impl.hpp"
#include "handler/json_exchange.hpp"
#include "manager/manager_impl.hpp"

namespace reprieve {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

}  // namespace

/// The step that the state holds. Where that does not tell a checkpoint from the one before, since the program does not
/// count or has counted back, it follows that one: the newest must have the highest number.
std::uint64_t PreemptionCheckpointHandler::Impl::next_number() const {
  const std::uint64_t step = steps();
  const bool is_new = !last_number_ || step > *last_number_;
  const bool replaces_the_last = last_number_ == step && step > 0;
  return is_new || replaces_the_last ? step : *last_number_ + 1;
}

CheckpointManager::SaveRequest PreemptionCheckpointHandler::Impl::request_for(
    SaveReason reason, const std::vector<std::any>& save_fn_args) const {
  CheckpointManager::SaveRequest request;
  request.number = next_number();
  request.run_calls = run_calls;
  request.reason = std::move(reason);
  request.save_fn = config.save_fn;
  request.save_fn_args = save_fn_args;
  return request;
}

/// A save after which the program goes on.
void PreemptionCheckpointHandler::Impl::save_while_running(SaveReason reason,
                                                           const std::vector<std::any>& save_fn_args) {
  const ManagerOptions& options = manager.options();
  if (!options.background) {
    save(std::move(reason), save_fn_args);
    return;
  }
  wish = cluster::SaveWish::none;
  last_save_time_ = Clock::now();
  if (manager.background_save_pending() && options.background_busy == BackgroundBusy::skip) {
    manager.impl().record("save_skipped", {{"number", next_number()}});
    if (comm_.is_chief()) {
      core::log::info("checkpoint {} is left out: the one before is still being written", next_number());
    }
    return;
  }
  commit_background_save();
  record_steps();
  const CheckpointManager::SaveRequest request = request_for(std::move(reason), save_fn_args);
  manager.save_in_background(request);
  last_number_ = request.number;
  last_save_index_ = agreement_.index();
}

void PreemptionCheckpointHandler::Impl::save(SaveReason reason, const std::vector<std::any>& save_fn_args) {
  record_steps();
  const SaveReport report = manager.save(request_for(std::move(reason), save_fn_args));
  wish = cluster::SaveWish::none;
  last_save_index_ = agreement_.index();
  last_save_time_ = Clock::now();
  saved(report);
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
  last_save = report;
  last_number_ = report.number;
  const bool is_first = save_times_.empty();
  save_times_.add(Seconds(report.seconds));
  if (is_first && comm_.is_chief()) {
    warn_if_save_does_not_fit(Seconds(report.seconds), "the first save");
  }
}

void PreemptionCheckpointHandler::Impl::save_for_preemption(bool is_final, const std::vector<std::any>& save_fn_args) {
  settle_background_save();
  if (agreement_.index() != last_save_index_) {
    try_save_for_preemption(save_fn_args);
  }
  if (!is_final && notice->deadline) {
    // The time left after the save, agreed on anew: all ranks must decide alike whether to train on.
    const auto inputs = grace_inputs(agreement_.confirm());
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
    save({SaveReason::Kind::preemption, notice->rank, notice->host, notice->source, notice->message}, save_fn_args);
  } catch (...) {
    if (!training_on_) {
      notice.reset();  // so that the notice, which is still there, is agreed on anew if the program goes on
    }
    throw;
  }
}

void PreemptionCheckpointHandler::Impl::leave() {
  const ExitContext context{comm_.handle(), *config.restart_code, *notice, last_save ? last_save->path.string() : ""};
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
  drill_notice_.reset();
  sources_.saved();
  if (!config.return_when_saved) {
    sources_.acknowledge();  // otherwise it stands until the handler ends, also for other handlers of this process
  }
  core::kill_point(core::KillPoint::exit_saved);
  ended = true;  // if the exit function throws, the ranks unwind without a further agreement
  config.exit_fn(context);
  ended = false;
  training_on_ = false;
  is_over = config.return_when_saved;
  if (!is_over) {
    manager.impl().record("went_on", {{"run_calls", run_calls}});
    notice.reset();
  }
}

/// Which ranks have had a notice of their own, and how long ago.
void PreemptionCheckpointHandler::Impl::record_arrivals() {
  Json mine{{"rank", comm_.rank()}, {"host", comm_.host()}};
  if (const auto local = local_notice()) {
    mine.update(
        {{"source", local->source}, {"message", local->message}, {"age_s", handler::seconds_since(local->time)}});
  }
  const Json all = handler::gather(comm_, mine, "telling where the notice arrived");
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
