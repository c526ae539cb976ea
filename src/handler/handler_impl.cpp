#include "handler/handler_impl.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "cluster/json_exchange.hpp"
#include "core/log.hpp"
#include "core/saturating_time.hpp"
#include "handler/error_report.hpp"
#include "manager/manager_impl.hpp"
#include "manager/same_settings.hpp"
#include "settings/environment.hpp"
#include "settings/settings_table.hpp"
#include "storage/registration.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

/// What a save does not settle is looked at again after this time.
constexpr std::chrono::milliseconds kAlarmAfterSave{1000};

void check_same_ranks(MPI_Comm comm, const CheckpointManager& manager) {
  int size = 0;
  cluster::check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (manager.impl().comm.size() != size) {
    throw UsageError(
        fmt::format("the handler's communicator has {} ranks, its manager's {}: they must be the same ranks", size,
                    manager.impl().comm.size()));
  }
}

/// What the environment says goes before what the program says; all ranks were given the same, and it is allowed.
TerminationConfig agreed_config(MPI_Comm comm, const CheckpointManager& manager, TerminationConfig config) {
  check_same_ranks(comm, manager);
  constexpr const char* what = "making the handler";
  cluster::Communicator& ranks = manager.impl().comm;
  Settings settings;
  settings.termination = std::move(config);
  settings::apply(manager.impl().environment, settings);
  ranks.agree(core::capture([&] { validate(settings.termination); }), what);
  core::Json values = manager::shared_values(termination_settings(), settings.termination);
  values["return_when_saved"] = settings.termination.return_when_saved;
  values["has a step_fn"] = settings.termination.step_fn != nullptr;
  manager::check_same_on_all_ranks(ranks, values, what);
  return std::move(settings.termination);
}

}  // namespace

PreemptionCheckpointHandler::Impl::Impl(MPI_Comm user_comm, CheckpointManager& checkpoint_manager,
                                        std::unique_ptr<CheckpointManager> owned, TerminationConfig termination_config)
    : config(agreed_config(user_comm, checkpoint_manager, std::move(termination_config))),
      owned_manager(std::move(owned)),
      manager(checkpoint_manager),
      comm_(user_comm, config.peer_timeout),
      platform_(find_surroundings()),
      sources_(own_sources()),
      channel_(comm_),
      agreement_(
          channel_, comm_.rank(), comm_.size(), {config.check_interval, config.peer_timeout}, [this] { return look(); },
          [this](const cluster::Verdict& verdict) { hear(verdict); }),
      exceptions_at_start_(std::uncaught_exceptions()),
      finalize_hook_([this] { at_finalize(); }) {
  if (!config.abort_fn) {
    config.abort_fn = abort_job;
  }
  const bool by_threads = threads_are_wanted();
  Checkpoint::Registry& registry = manager.impl().checkpoint.registry();
  storage::check_registration(comm_, registry);
  state_use_ = registry.use();
  restored = manager.restore_or_initialize();
  if (restored) {
    take_up(*restored);
    storage::check_descriptions(comm_, registry);
  }
  heed_the_end();
  plan_next_periodic_save();
  if (comm_.is_chief()) {
    handler::remove_error_report(manager.directory());
    warn_if_earlier_saves_do_not_fit();
    if (const auto& drill = manager.impl().drill; drill && drill->leave_at_once) {
      drill_notice_ = termination::LocalNotice{"drill", "rehearsal of a restart", Clock::now(), std::nullopt};
    }
  }
  record_workers();
  last_save_time_ = Clock::now();
  join_manager();
  if (by_threads) {
    begin_rounds();
  }
  record_ready();
}

/// The count of the run that saved the checkpoint goes on. Where nobody counted, only the program's own count can tell
/// where the state stands: to go on from 0 would make all steps once more, on a state that has made them.
void PreemptionCheckpointHandler::Impl::take_up(const CheckpointInfo& from) {
  if (!from.run_calls && !config.step_fn) {
    throw UsageError(fmt::format(
        "{} was saved by a CheckpointManager without a handler, so it does not say how many calls of run() its state "
        "holds; set TerminationConfig::step_fn to the program's own count of steps, which then stands for it, or move "
        "the file away",
        from.path.string()));
  }
  run_calls = from.run_calls ? *from.run_calls : config.step_fn();
  last_number_ = from.number;
  last_step_ = steps();
}

/// A run that was finished does no work twice. With more steps to make it goes on, if its last state is there.
void PreemptionCheckpointHandler::Impl::heed_the_end() {
  already_finished = manager.impl().finished_at();
  if (!already_finished) {
    return;
  }
  const bool has_last_state = restored && run_calls >= *already_finished;
  const bool refused = !has_last_state && !manager.options().restart_finished;
  manager.impl().record("already_finished", {{"run_calls", *already_finished}, {"refused", refused}});
  if (comm_.is_chief()) {
    core::log::info("the run in {} is already finished, at step {}", manager.directory().string(), *already_finished);
  }
  if (refused) {
    throw UsageError(
        fmt::format("the run in {} is already finished, at step {}, and {}: to go on would make steps a second time. "
                    "To do that all "
                    "the same, for one to make more steps, set checkpoints.restart_finished; to start anew, use "
                    "another directory. A "
                    "program that saves its last state before it finishes can be given more steps at any time",
                    manager.directory().string(), *already_finished,
                    restored ? fmt::format("its newest checkpoint holds step {}", run_calls) : "it has no checkpoint"));
  }
}

void PreemptionCheckpointHandler::Impl::join_manager() {
  manager.impl().handler = manager::HandlerLink{this, [this] { return run_calls; }, [this] { return wanted_number(); },
                                                [this](const CheckpointInfo& from) {
                                                  take_up(from);
                                                  plan_next_periodic_save();
                                                }};
}

/// The manager has a communicator of its own, and may have waited for them in vain. Then there is no point in waiting
/// once more, and the error that names them must not be lost behind another one.
bool PreemptionCheckpointHandler::Impl::ranks_are_missing() const {
  return comm_.broken() || manager.impl().comm.broken() || (rounds_ && rounds_->broken());
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
                                  {"device", to_string(platform_.device)},
                                  {"agreement", rounds_ ? "threads" : "boundaries"}});
}

/// For those who look at the log later: how long a notice may have to wait for the end of a step.
void PreemptionCheckpointHandler::Impl::record_steps() {
  if (rounds_) {
    longest_step_ = std::max(longest_step_, rounds_->take_longest_step());
  }
  if (longest_step_.count() > 0) {
    manager.impl().record("steps", {{"run_calls", run_calls}, {"longest_step_s", Seconds(longest_step_).count()}});
    longest_step_ = {};
  }
}

// ---------------------------------------------------------------------------------------------------------------------------
// Agreement: what this rank says, and what it hears.

/// Without the memory to find out, it is told in the next check.
cluster::LocalView PreemptionCheckpointHandler::Impl::look() {
  try {
    return look_around();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

cluster::LocalView PreemptionCheckpointHandler::Impl::look_around() {
  heed_hints();
  if (hinted_.exchange(false)) {
    requested = cluster::RequestedSave::user;
  }
  cluster::LocalView view;
  view.requested = requested;
  view.written = static_cast<std::int64_t>(manager.impl().background_written());
  const bool periodic_is_on = config.save_every.count() > 0;
  if (periodic_is_on && comm_.is_chief() && Clock::now() - last_save_time_ >= config.save_every) {
    view.requested = std::max(view.requested, cluster::RequestedSave::periodic);
  }
  if (const auto local = local_notice()) {
    view.notice = true;
    // A notice that grants no time leaves none, whatever another rank was granted.
    const auto deadline = local->deadline.value_or(local->time);
    view.time_left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    told_deadline_ = deadline.time_since_epoch().count();
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
  plan_alarm(decision_ ? kAlarmAfterSave : config.check_interval);
}

/// At the first boundary no step has been measured yet.
void PreemptionCheckpointHandler::Impl::note_step_time(const cluster::Verdict& verdict) {
  if (verdict.first_index <= 1) {
    return;
  }
  longest_step_ = std::max(longest_step_, verdict.step_time);
  longest_known_step_ = std::max(longest_known_step_, verdict.step_time);
  if (manager.impl().drill && Clock::now() - last_told_step_ >= kDrillStepInterval) {
    last_told_step_ = Clock::now();
    manager.impl().run_record.record("step",
                                     {{"run_calls", run_calls}, {"step_s", Seconds(verdict.step_time).count()}});
  }
}

void PreemptionCheckpointHandler::Impl::check_call_counts(const cluster::Verdict& verdict) {
  if (verdict.closing_index >= 0 && agreement_.index() > verdict.closing_index) {
    fail(std::make_exception_ptr(UsageError(
        fmt::format("the ranks make different numbers of calls: a rank finished its handler after step boundary "
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
  if (decision_ && decision_->kind != Kind::requested_save) {
    return;
  }
  if (verdict.notice_rank >= 0 && !notice) {
    decision_ = Decision{Kind::preemption, verdict.act_at, verdict.notice_rank, SaveReason::Kind::preemption};
  } else if (training_on_ && handler::final_save_is_due(grace_inputs(verdict))) {
    decision_ = Decision{Kind::final_save, verdict.act_at, verdict.notice_rank, SaveReason::Kind::preemption};
  } else if (verdict.requested != cluster::RequestedSave::none && !decision_ && !notice) {
    const bool is_user = verdict.requested == cluster::RequestedSave::user;
    decision_ = Decision{Kind::requested_save, verdict.act_at, -1,
                         is_user ? SaveReason::Kind::user : SaveReason::Kind::periodic};
  }
}

handler::GraceInputs PreemptionCheckpointHandler::Impl::grace_inputs(const cluster::Verdict& verdict) const {
  return {verdict.time_left.value_or(std::chrono::milliseconds(0)), save_times_.upper_estimate(), verdict.step_time,
          config.check_interval, config.grace_margin};
}

// ---------------------------------------------------------------------------------------------------------------------------
// Boundaries.

void PreemptionCheckpointHandler::Impl::check_usable() const {
  if (finished) {
    throw UsageError("the handler was finished: finish() comes after the last step boundary");
  }
  if (ended) {
    throw UsageError("the handler ended with an error that all ranks heard; make a new one to go on");
  }
}

/// Both kinds of calls count, which is hardly what a program wants that makes both.
void PreemptionCheckpointHandler::Impl::note_use_of_run() {
  if (!uses_run && counts_boundaries && comm_.is_chief()) {
    core::log::warning(
        "this program calls run() and save_checkpoint_if_preempted(), and both count in total_run_calls(): call "
        "step_boundary() where no step is made, or set count_boundaries (termination.count_boundaries) to false");
  }
  uses_run = true;
}

void PreemptionCheckpointHandler::Impl::count_boundary() {
  if (!config.count_boundaries) {
    return;
  }
  if (!counts_boundaries) {
    counts_boundaries = true;
    if (std::exchange(uses_run, false)) {
      note_use_of_run();
    }
  }
  ++run_calls;
}

void PreemptionCheckpointHandler::Impl::check_between_steps(const char* call) const {
  if (step_is_open) {
    throw UsageError(fmt::format(
        "{} inside of a step: a save there would make the step again after a restart; call it between calls "
        "of run()",
        call));
  }
}

bool PreemptionCheckpointHandler::Impl::boundary_is_quiet() {
  if (ended || step_is_open) [[unlikely]] {
    check_usable();
    check_between_steps("run() or save_checkpoint_if_preempted()");
  }
  tell_news();
  or_fail([this] { agreement_.at_boundary(); });
  if (!rounds_ && sources_.any()) [[unlikely]] {
    tell_of_waiting_notice();
  }
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
  confirm();
  const bool periodic = periodic_save_is_due();
  if (periodic) {
    plan_next_periodic_save();
  }
  if (commit_is_due()) {
    commit_background_save();
  }
  const bool preemption_is_near = decision_ && decision_->kind != Decision::Kind::requested_save;
  if (decision_is_due()) {
    const Decision decision = *decision_;
    decision_.reset();
    carry_out(decision, save_fn_args);
  } else if (periodic && !preemption_is_near) {
    save_while_running(SaveReason::Kind::periodic, save_fn_args);
  }
  steps_go_on();
}

void PreemptionCheckpointHandler::Impl::carry_out(const Decision& decision, const std::vector<std::any>& save_fn_args) {
  switch (decision.kind) {
    case Decision::Kind::requested_save:
      save_while_running(decision.reason, save_fn_args);
      return;
    case Decision::Kind::preemption:
      learn_notice(decision.notice_rank);
      if (patient_scopes == 0) {
        save_for_preemption(false, save_fn_args);
      } else if (notice->deadline) {
        wait_for_end_of_scope(save_fn_args);
      }
      return;
    case Decision::Kind::final_save:
      save_for_preemption(true, save_fn_args);
      return;
  }
}

/// By the clocks of the day, which only name the rank here: nothing is decided by them. Among equals the lowest.
int PreemptionCheckpointHandler::Impl::earliest_rank_with_notice(int otherwise) {
  constexpr const char* what = "looking for the first notice";
  constexpr auto kNone = std::numeric_limits<std::int64_t>::min();
  std::int64_t mine = kNone;
  if (const auto local = local_notice()) {
    const auto time = std::chrono::system_clock::now().time_since_epoch() - (Clock::now() - local->time);
    mine = -std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  }
  const std::int64_t first = comm_.max(mine, what);
  const std::int64_t mark = comm_.max(mine == first ? comm_.size() - comm_.rank() : 0, what);
  return first == kNone ? otherwise : comm_.size() - static_cast<int>(mark);
}

void PreemptionCheckpointHandler::Impl::begin_phase() {
  check_usable();
  agreement_.begin_phase();
  // All ranks have the same verdicts here: what follows from them need not wait for steps of the new phase.
  const auto next = agreement_.index() + 1;
  if (decision_) {
    decision_->at = std::min(decision_->at, next);
  }
  if (commit_at_) {
    commit_at_ = std::min(*commit_at_, next);
  }
}

void PreemptionCheckpointHandler::Impl::learn_notice(int one_of_them) {
  try {
    comm_.together([&] { share_notice(one_of_them); }, "sharing a termination notice");
  } catch (...) {
    notice.reset();  // it is agreed on anew if the program goes on
    forget_what_was_told();
    throw;
  }
}

void PreemptionCheckpointHandler::Impl::share_notice(int one_of_them) {
  const int rank = earliest_rank_with_notice(one_of_them);
  const auto now = Clock::now();
  notice_waits_since_.reset();
  told_of_wait_ = false;
  Json message;
  if (comm_.rank() == rank) {
    const auto local = local_notice().value_or(termination::LocalNotice{"unknown", "", now, std::nullopt});
    message = {{"source", local.source}, {"message", local.message}, {"age_s", Seconds(now - local.time).count()}};
    if (local.deadline) {
      message["time_left_s"] = Seconds(*local.deadline - now).count();
    }
  }
  message = cluster::broadcast(comm_, message, rank, "sharing a termination notice");

  const auto before = [&](double age_s) { return now - std::chrono::duration_cast<Clock::duration>(Seconds(age_s)); };
  TerminationNotice shared{rank, comm_.host_of(rank), message["source"], message["message"], before(message["age_s"]),
                           {}};
  if (message.contains("time_left_s")) {
    shared.deadline = core::later(now, Seconds(message["time_left_s"].get<double>()));
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
