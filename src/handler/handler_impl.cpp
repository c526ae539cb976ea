#include "handler/handler_impl.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/event_reader.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "handler/error_report.hpp"
#include "handler/json_exchange.hpp"
#include "handler/settings_check.hpp"
#include "manager/manager_impl.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

/// A drill is told of the steps so often.
constexpr std::chrono::milliseconds kDrillStepInterval{100};

const TerminationConfig& checked(const TerminationConfig& config) {
  validate(config);
  return config;
}

double seconds_since(Clock::time_point time) { return Seconds(Clock::now() - time).count(); }

}  // namespace

PreemptionCheckpointHandler::Impl::Impl(MPI_Comm user_comm, CheckpointManager& checkpoint_manager,
                                        std::unique_ptr<CheckpointManager> owned, TerminationConfig termination_config)
    : config(checked(termination_config)),
      owned_manager(std::move(owned)),
      manager(checkpoint_manager),
      comm_(user_comm, config.peer_timeout),
      platform_(find_surroundings()),
      sources_(own_sources()),
      channel_(comm_),
      agreement_(
          channel_, comm_.rank(), comm_.size(), {config.check_interval, config.peer_timeout}, [this] { return look(); },
          [this](const cluster::Verdict& verdict) { hear(verdict); }),
      exceptions_at_start_(std::uncaught_exceptions()) {
  if (!config.abort_fn) {
    config.abort_fn = abort_job;
  }
  if (manager.impl().comm.size() != comm_.size()) {
    throw UsageError(
        fmt::format("the handler's communicator has {} ranks, its manager's {}: they must be the same ranks",
                    comm_.size(), manager.impl().comm.size()));
  }
  restored = manager.restore_or_initialize();
  if (restored) {
    run_calls = restored->run_calls;
    last_periodic_calls_ = run_calls;
  }
  if (comm_.is_chief()) {
    handler::remove_error_report(manager.directory());
    warn_if_earlier_saves_do_not_fit();
    if (const auto& drill = manager.impl().drill; drill && drill->leave_at_once) {
      drill_notice_ = termination::LocalNotice{"drill", "rehearsal of a restart", Clock::now(), std::nullopt};
    }
  }
  record_workers();
  record_ready();
  last_save_time_ = Clock::now();
}

/// The manager has a communicator of its own, and may have waited for them in vain. Then there is no point in waiting
/// once more, and the error that names them must not be lost behind another one.
bool PreemptionCheckpointHandler::Impl::ranks_are_missing() const {
  return comm_.broken() || manager.impl().comm.broken();
}

/// The restore was collective, so by now every rank watches its signals.
void PreemptionCheckpointHandler::Impl::record_ready() {
  Json signals = Json::array();
  for (const int signal : *config.signals) {
    signals.push_back(termination::signal_name(signal));
  }
  manager.impl().record("ready", {{"run_calls", run_calls},
                                  {"signals", signals},
                                  {"restart_code", *config.restart_code},
                                  {"platform", to_string(platform_.platform)},
                                  {"device", to_string(platform_.device)}});
}

/// For those who look at the log later: how long a notice may have to wait for the end of a step.
void PreemptionCheckpointHandler::Impl::record_steps() {
  if (longest_step_.count() > 0) {
    manager.impl().record("steps", {{"run_calls", run_calls}, {"longest_step_s", Seconds(longest_step_).count()}});
    longest_step_ = {};
  }
}

PreemptionCheckpointHandler::Impl::~Impl() {
  if (ended || ranks_are_missing()) {
    return;
  }
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    fail_quietly("an exception outside of run() ended the program's use of the handler");
    return;
  }
  try {
    if (const int failed_rank = agreement_.close().failed_rank; failed_rank >= 0) {
      hear_error(failed_rank, {});
    }
    commit_background_save();
    if (comm_.is_chief() && !notice && sources_.current()) {
      core::log::info("a notice came after the last step boundary: nothing is saved for it");
    }
    record_steps();
    manager.impl().record("finished", {{"run_calls", run_calls}});
  } catch (const std::exception& error) {
    core::log::error("end of the handler: {}", error.what());
  }
}

// ---------------------------------------------------------------------------------------------------------------------------
// Agreement: what this rank says, and what it hears.

cluster::LocalView PreemptionCheckpointHandler::Impl::look() {
  heed_hints();
  cluster::LocalView view;
  view.wish = wish;
  view.written = static_cast<std::int64_t>(manager.impl().background_written());
  const bool periodic_is_on = config.save_every.count() > 0;
  if (periodic_is_on && comm_.is_chief() && Clock::now() - last_save_time_ >= config.save_every) {
    view.wish = std::max(view.wish, cluster::SaveWish::periodic);
  }
  if (const auto local = local_notice()) {
    view.notice = true;
    // A notice that grants no time leaves none, whatever another rank was granted.
    const auto deadline = local->deadline.value_or(local->time);
    view.time_left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  }
  return view;
}

void PreemptionCheckpointHandler::Impl::hear(const cluster::Verdict& verdict) {
  verdict_ = verdict;
  note_step_time(verdict);
  if (verdict.failed_rank >= 0) {
    hear_error(verdict.failed_rank, {});
  }
  check_call_counts(verdict);
  comm_.set_last_seen(fmt::format("step boundary {}", verdict.first_index));
  decide(verdict);
}

/// At the first boundary no step has been measured yet.
void PreemptionCheckpointHandler::Impl::note_step_time(const cluster::Verdict& verdict) {
  if (verdict.first_index <= 1) {
    return;
  }
  longest_step_ = std::max(longest_step_, verdict.step_time);
  if (manager.impl().drill && Clock::now() - last_told_step_ >= kDrillStepInterval) {
    last_told_step_ = Clock::now();
    manager.impl().run_record.record("step",
                                     {{"run_calls", run_calls}, {"step_s", Seconds(verdict.step_time).count()}});
  }
}

void PreemptionCheckpointHandler::Impl::check_call_counts(const cluster::Verdict& verdict) {
  if (verdict.closing_index >= 0 && agreement_.index() > verdict.closing_index) {
    fail(std::make_exception_ptr(UsageError(
        fmt::format("the ranks make different numbers of calls: a rank ended its handler after step boundary "
                    "{}, while rank {} is at step boundary {}",
                    verdict.closing_index, comm_.rank(), agreement_.index()))));
  }
}

/// Every input here is the same on all ranks, so all ranks decide alike.
void PreemptionCheckpointHandler::Impl::decide(const cluster::Verdict& verdict) {
  using Kind = Decision::Kind;
  // A verdict from before the save began counts fewer.
  if (manager.background_save_pending() && !commit_at_ &&
      verdict.written == static_cast<std::int64_t>(manager.impl().background_started)) {
    commit_at_ = verdict.act_at;
  }
  if (decision_ && decision_->kind != Kind::wish) {
    return;
  }
  if (verdict.notice_rank >= 0 && !notice) {
    decision_ = Decision{Kind::preemption, verdict.act_at, verdict.notice_rank, SaveReason::Kind::preemption};
  } else if (training_on_ && handler::final_save_is_due(grace_inputs(verdict))) {
    decision_ = Decision{Kind::final_save, verdict.act_at, verdict.notice_rank, SaveReason::Kind::preemption};
  } else if (verdict.wish != cluster::SaveWish::none && !decision_ && !notice) {
    const bool is_user = verdict.wish == cluster::SaveWish::user;
    decision_ = Decision{Kind::wish, verdict.act_at, -1, is_user ? SaveReason::Kind::user : SaveReason::Kind::periodic};
  }
}

handler::GraceInputs PreemptionCheckpointHandler::Impl::grace_inputs(const cluster::Verdict& verdict) const {
  return {verdict.time_left.value_or(std::chrono::milliseconds(0)), save_times_.upper_estimate(), verdict.step_time,
          config.check_interval, config.grace_margin};
}

// ---------------------------------------------------------------------------------------------------------------------------
// Boundaries.

void PreemptionCheckpointHandler::Impl::check_usable() const {
  if (ended) {
    throw UsageError("the handler ended with an error that all ranks heard; make a new one to go on");
  }
}

bool PreemptionCheckpointHandler::Impl::boundary_is_quiet() {
  if (ended) [[unlikely]] {
    check_usable();
  }
  agreement_.at_boundary();
  return !decision_is_due() && !periodic_save_is_due() && !commit_is_due();
}

bool PreemptionCheckpointHandler::Impl::decision_is_due() const {
  return decision_ && agreement_.index() >= decision_->at;
}

bool PreemptionCheckpointHandler::Impl::commit_is_due() const {
  return commit_at_ && agreement_.index() >= *commit_at_;
}

bool PreemptionCheckpointHandler::Impl::periodic_save_is_due() const {
  return config.save_every_steps > 0 && run_calls != last_periodic_calls_ && run_calls % config.save_every_steps == 0 &&
         !notice;
}

void PreemptionCheckpointHandler::Impl::act(const std::vector<std::any>& save_fn_args) {
  agreement_.confirm();
  const bool periodic = periodic_save_is_due();
  last_periodic_calls_ = periodic ? run_calls : last_periodic_calls_;
  if (commit_is_due()) {
    commit_background_save();
  }
  const bool preemption_is_near = decision_ && decision_->kind != Decision::Kind::wish;
  if (decision_is_due()) {
    const Decision decision = *decision_;
    decision_.reset();
    carry_out(decision, save_fn_args);
  } else if (periodic && !preemption_is_near) {
    save_while_running({.kind = SaveReason::Kind::periodic}, save_fn_args);
  }
  agreement_.restart_step_clock();
}

void PreemptionCheckpointHandler::Impl::carry_out(const Decision& decision, const std::vector<std::any>& save_fn_args) {
  switch (decision.kind) {
    case Decision::Kind::wish:
      save_while_running({.kind = decision.reason}, save_fn_args);
      return;
    case Decision::Kind::preemption:
      learn_notice(decision.notice_rank);
      if (scope_depth == 0) {
        save_for_preemption(false, save_fn_args);
      }
      return;
    case Decision::Kind::final_save:
      save_for_preemption(true, save_fn_args);
      return;
  }
}

void PreemptionCheckpointHandler::Impl::close_scope() {
  check_usable();
  agreement_.at_boundary();
  agreement_.confirm();
  // All ranks stand here with the same verdicts: what they imply need not wait for a later boundary, there may be none.
  if (decision_ && decision_->kind == Decision::Kind::preemption) {
    learn_notice(decision_->notice_rank);
    decision_.reset();
  }
  if (notice) {
    save_for_preemption(true, {});
  }
  agreement_.restart_step_clock();
}

void PreemptionCheckpointHandler::Impl::learn_notice(int rank) {
  const auto now = Clock::now();
  Json message;
  if (comm_.rank() == rank) {
    const auto local = local_notice().value_or(termination::LocalNotice{"unknown", "", now, std::nullopt});
    message = {{"source", local.source}, {"message", local.message}, {"age_s", Seconds(now - local.time).count()}};
    if (local.deadline) {
      message["time_left_s"] = Seconds(*local.deadline - now).count();
    }
  }
  message = handler::broadcast(comm_, message, rank, "sharing a termination notice");

  const auto before = [&](double age_s) { return now - std::chrono::duration_cast<Clock::duration>(Seconds(age_s)); };
  TerminationNotice shared{rank, comm_.host_of(rank), message["source"], message["message"], before(message["age_s"]),
                           {}};
  if (message.contains("time_left_s")) {
    shared.deadline = before(-message["time_left_s"].get<double>());
  }
  notice = std::move(shared);
  const auto age = std::chrono::duration_cast<std::chrono::system_clock::duration>(now - notice->time);
  board->post({rank, notice->host, notice->source, notice->message, std::chrono::system_clock::now() - age});
  if (comm_.is_chief()) {
    core::log::warning("preemption: {} on rank {} ({}), {}; all ranks agreed on step {}", notice->source, notice->rank,
                       notice->host, notice->message, run_calls);
    message.update({{"rank", rank}, {"host", notice->host}});
    manager.impl().record("notice", message);
    manager.impl().record("agreement", {{"run_calls", run_calls},
                                        {"boundary", agreement_.index()},
                                        {"seconds_from_notice", seconds_since(notice->time)}});
  }
}

// ---------------------------------------------------------------------------------------------------------------------------
// Saves and the exit.

CheckpointManager::SaveRequest PreemptionCheckpointHandler::Impl::request_for(
    SaveReason reason, const std::vector<std::any>& save_fn_args) const {
  CheckpointManager::SaveRequest request;
  request.number = run_calls;
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
    manager.impl().record("save_skipped", {{"number", run_calls}});
    if (comm_.is_chief()) {
      core::log::info("checkpoint {} is left out: the one before is still being written", run_calls);
    }
    return;
  }
  commit_background_save();
  record_steps();
  manager.save_in_background(request_for(std::move(reason), save_fn_args));
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
  last_checkpoint_ = report.path.string();
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
  const ExitContext context{comm_.handle(), *config.restart_code, *notice, last_checkpoint_};
  if (comm_.is_chief()) {
    const double seconds = seconds_since(notice->time);
    core::log::info("saved {} {:.3f} s after the notice; leaving with code {}", last_checkpoint_, seconds,
                    *config.restart_code);
    manager.impl().record("exit", {{"run_calls", run_calls},
                                   {"exit_code", *config.restart_code},
                                   {"checkpoint", last_checkpoint_},
                                   {"seconds_from_notice", seconds}});
  }
  if (manager.impl().drill) {
    record_arrivals();
  }
  drill_notice_.reset();
  sources_.saved();
  sources_.acknowledge();
  core::kill_point(core::KillPoint::exit_saved);
  ended = true;  // if the exit function throws, the ranks unwind without a further agreement
  config.exit_fn(context);
  manager.impl().record("went_on", {{"run_calls", run_calls}});
  ended = false;
  training_on_ = false;
  notice.reset();
}

/// Which ranks have had a notice of their own, and how long ago.
void PreemptionCheckpointHandler::Impl::record_arrivals() {
  Json mine{{"rank", comm_.rank()}, {"host", comm_.host()}};
  if (const auto local = local_notice()) {
    mine.update({{"source", local->source}, {"message", local->message}, {"age_s", seconds_since(local->time)}});
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
