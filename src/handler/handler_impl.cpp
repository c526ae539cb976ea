#include "handler/handler_impl.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

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
    last_number_ = restored->number;
  }
  plan_next_periodic_save();
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
  if (is_over) {
    sources_.acknowledge();
  }
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
    if (!is_over) {
      manager.impl().record("finished", {{"run_calls", run_calls}});
    }
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
  return config.save_every_steps > 0 && steps() >= next_periodic_step_ && !notice;
}

/// At the next multiple: steps may pass it, if the program is not here at every one.
void PreemptionCheckpointHandler::Impl::plan_next_periodic_save() {
  if (config.save_every_steps > 0) {
    next_periodic_step_ = (steps() / config.save_every_steps + 1) * config.save_every_steps;
  }
}

void PreemptionCheckpointHandler::Impl::act(const std::vector<std::any>& save_fn_args) {
  agreement_.confirm();
  const bool periodic = periodic_save_is_due();
  if (periodic) {
    plan_next_periodic_save();
  }
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
  if (notice && !is_over) {
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
                                        {"seconds_from_notice", handler::seconds_since(notice->time)}});
  }
}

}  // namespace reprieve
