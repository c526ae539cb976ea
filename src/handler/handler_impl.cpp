// SPDX-License-Identifier: BSD-3-Clause
#include "handler/handler_impl.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/log.hpp"
#include "handler/exit.hpp"
#include "manager/opening.hpp"
#include "manager/save.hpp"
#include "settings/settings.hpp"
#include "storage/write/registration.hpp"

namespace reprieve {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// What a save leaves open is checked again after this time.
constexpr milliseconds kAlarmAfterSave{1000};
/// While the program trains on, the length of its steps is checked so often.
constexpr milliseconds kPollWhileTrainingOn{1000};
/// Before rank 0 asks once more whether the save in the background is written everywhere.
constexpr milliseconds kAskForCommitAgain{50};

constexpr const char* kChoosing = "choosing how the ranks agree";

void check_same_ranks(MPI_Comm comm, const CheckpointManager& manager) {
  int size = 0;
  cluster::check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (manager.impl().comm.size() != size) {
    throw UsageError(fmt::format("the handler's communicator has {}, its manager's {}: they must be the same ranks",
                                 core::count_text(size, "rank"), manager.impl().comm.size()));
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
  manager::SharedValues values = manager::shared_values(termination_settings(), settings.termination);
  values["return_when_saved"] = manager::text_of(settings.termination.return_when_saved);
  values["has a step_fn"] = manager::text_of(settings.termination.step_fn != nullptr);
  manager::check_same_on_all_ranks(ranks, values, what);
  return std::move(settings.termination);
}

/// Whether the ranks agree by threads. Who wants a check at every boundary gets that. Collective.
/// @throws ConfigError, on all ranks, if threads are asked for and MPI does not allow them
bool threads_are_wanted(cluster::Communicator& comm, const TerminationConfig& config) {
  if (config.agreement == Agreement::boundaries) {
    return false;
  }
  const bool possible = comm.max(cluster::any_thread_may_use_mpi() ? 0 : 1, kChoosing) == 0;
  if (!possible && config.agreement == Agreement::threads) {
    throw ConfigError(
        "termination.agreement: found \"threads\", but MPI does not run with MPI_THREAD_MULTIPLE on all ranks: ask for "
        "it by MPI_Init_thread, or choose \"auto\"");
  }
  return possible;
}

}  // namespace

PreemptionCheckpointHandler::Impl::Impl(MPI_Comm user_comm, CheckpointManager& checkpoint_manager,
                                        std::unique_ptr<CheckpointManager> owned, TerminationConfig termination_config)
    : config(agreed_config(user_comm, checkpoint_manager, std::move(termination_config))),
      owned_manager(std::move(owned)),
      manager(checkpoint_manager),
      comm_(user_comm, config.peer_timeout),
      runtime_info_(handler::find_runtime_info(comm_, config, manager.options().read_environment)),
      log_(manager.impl()),
      dry_run_(manager.impl().drill, log_),
      notices_(comm_, handler::sources_of(comm_, config, runtime_info_, manager.directory())),
      policy_({config.save_every_steps, *config.grace_margin}),
      channel_(comm_),
      agreement_(
          channel_, comm_.rank(), comm_.size(), {.peer_timeout = config.peer_timeout}, [this] { return local_view(); },
          [this](const cluster::CheckResult& check_result) { handle(check_result); }),
      exceptions_at_start_(std::uncaught_exceptions()),
      finalize_hook_([this] { at_finalize(); }) {
  if (!config.abort_fn) {
    config.abort_fn = abort_job;
  }
  const bool by_threads = threads_are_wanted(comm_, config);
  Checkpoint::Registry& registry = manager.impl().checkpoint.registry();
  manager.impl().run_record.write(events::HandlerBegun{});
  storage::check_registration(comm_, registry);
  state_use_ = registry.use();
  restore();
  if (restored) {
    resume_from(*restored);
  } else {
    storage::check_declared_memory(comm_, registry);
    compare_replicated();
  }
  note_if_finished();
  plan_periodic_save();
  if (comm_.is_rank_0()) {
    if (!restored) {
      core::log::info("no checkpoint in {}: beginning at step {}", manager.directory().string(), steps());
    }
    if (saves_automatically()) {
      core::log::info(
          "periodic saves: the first after {} min, then by their cost; termination.save_every_s sets the interval, 0 "
          "switches them off",
          handler::kLeastInterval.count());
    }
    handler::remove_error_report(manager.impl().directory.opened());
    warn_if_earlier_saves_do_not_fit();
  }
  if (dry_run_.leaves_at_once()) {
    give_notice("drill", "dry run of a restart");
  }
  worker_lock_ = handler::record_workers(comm_, manager.directory());
  save_time_ = local_copy_time_ = Clock::now();
  if (comm_.is_rank_0() && config.save_fn && !manager.options().local_directory.empty()) {
    core::log::warning("no node-local copies are taken: they cannot hold what the save function writes");
  }
  join_manager();
  if (by_threads) {
    begin_rounds();
  }
  // The restore was collective, so by now every rank watches its signals.
  log_.ready(run_calls, config, platform(), threads_ ? "threads" : "boundaries");
  ++manager.impl().handlers;
  has_joined_ = true;
}

/// What functions of the program describe is compared before an array is read: later, a start would have overwritten
/// the arrays and reported success.
void PreemptionCheckpointHandler::Impl::restore() {
  std::function<void()>& check = manager.impl().check_arrays;
  check = [this] { storage::check_descriptions(comm_, manager.impl().checkpoint.registry()); };
  try {
    restored = manager.restore_or_initialize();
  } catch (...) {
    check = nullptr;
    throw;
  }
  check = nullptr;
}

/// Before the first step, and not only at the save for a notice, which may be the first one.
void PreemptionCheckpointHandler::Impl::compare_replicated() {
  constexpr const char* what = "comparing the replicated values at the start";
  std::vector<storage::LocalVariable> variables;
  comm_.agree(core::capture([&] { variables = storage::collect_replicated(manager.impl().checkpoint.registry()); }),
              what);
  manager.impl().has_compared_replicated = !storage::compare_replicated(comm_, variables, what);
}

/// The count of the run that saved the checkpoint continues. Where nobody counted, only the program's own count shows
/// where the state stands: to resume from 0 would repeat all steps, on a state that has made them.
void PreemptionCheckpointHandler::Impl::resume_from(const CheckpointInfo& from) {
  if (!from.run_calls && !config.step_fn) {
    throw UsageError(fmt::format(
        "{} was saved by a CheckpointManager without a handler, so it does not say how many calls of run() its state "
        "holds; set TerminationConfig::step_fn to the program's own count of steps, which then stands for it, or move "
        "the file away",
        from.path.string()));
  }
  run_calls = from.run_calls ? *from.run_calls : config.step_fn();
  saved_.number = from.number;
  saved_.step = steps();
}

/// The mark of an earlier version may stand without the last state.
void PreemptionCheckpointHandler::Impl::note_if_finished() {
  already_finished = manager.impl().finished_at();
  if (!restored || run_calls < already_finished) {
    already_finished.reset();
  }
  if (already_finished) {
    log_.write(events::AlreadyFinished{*already_finished});
    if (comm_.is_rank_0()) {
      core::log::info("the run in {} is already finished, at step {}", manager.directory().string(), *already_finished);
    }
  }
}

void PreemptionCheckpointHandler::Impl::join_manager() {
  manager.impl().local_copies_stay = true;  // until the run is finished, or saved
  // The step that the state holds, where that follows all checkpoints that are there; else the manager takes the next
  // number. A second save at the same step replaces the first.
  const auto next_number = [this] {
    const std::uint64_t step = steps();
    return manager::HandlerLink::NextNumber{step, saved_.number == step && saved_.step == step && step > 0};
  };
  manager.impl().handler = manager::HandlerLink{this, [this] { return run_calls; }, next_number,
                                                [this](const CheckpointInfo& from) {
                                                  resume_from(from);
                                                  plan_periodic_save();
                                                }};
}

/// If one rank can make no thread, none uses them. Collective.
void PreemptionCheckpointHandler::Impl::begin_rounds() {
  threads_.emplace(comm_.handle(), config.peer_timeout, [this] { return notices_.has_news(); });
  std::int64_t failed = 0;
  try {
    threads_->thread.start();
  } catch (const std::system_error& error) {
    core::log::warning("rank {} ({}) can make no thread for the agreement ({}): all ranks agree at boundaries instead",
                       comm_.rank(), comm_.host(), error.what());
    failed = 1;
  }
  if (comm_.max(failed, kChoosing) != 0) {
    threads_.reset();
    return;
  }
  agreement_.check_by(threads_->thread);
  plan_alarm(milliseconds(0));
  threads_->thread.resume();
}

/// At a point where all ranks are: they have just agreed that nothing more will be agreed on, for now.
void PreemptionCheckpointHandler::Impl::rest_threads(milliseconds limit) noexcept {
  try {
    if (threads_) {
      threads_->thread.rest(limit);
    }
  } catch (const std::exception& error) {
    core::log::warning("{}", error.what());
  }
}

// ---------------------------------------------------------------------------------------------------------------------------
// Checks: what this rank sends, and what it gets.

/// Without the memory to find out, the next check sends it.
cluster::LocalView PreemptionCheckpointHandler::Impl::local_view() try {
  if (notices_.take_hint()) {
    requested_ = cluster::RequestedSave::user;
  }
  cluster::LocalView view;
  view.requested = requested_;
  view.written = static_cast<std::int64_t>(manager.impl().background->written());
  if (comm_.is_rank_0() && takes_local_copies() && Clock::now() - local_copy_time_ >= manager.options().local_every) {
    view.requested = std::max(view.requested, cluster::RequestedSave::local);
  }
  if (const auto due = next_save_by_time(); due && Clock::now() >= *due) {
    view.requested = std::max(view.requested, cluster::RequestedSave::periodic);
  }
  if (const auto notice = notices_.own()) {
    const auto deadline = handler::Notices::deadline_of(*notice);
    view.notice = true;
    view.time_left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    notices_.note_sent(deadline);
  }
  return view;
} catch (const std::bad_alloc&) {
  return {};
}

void PreemptionCheckpointHandler::Impl::handle(const cluster::CheckResult& check_result) {
  handle_problems(check_result);
  decide(check_result);
}

void PreemptionCheckpointHandler::Impl::handle_problems(const cluster::CheckResult& check_result) {
  note_step_time(check_result);
  if (check_result.failed_rank >= 0) {
    throw_received(check_result.failed_rank, {});
  }
  if (check_result.closing_index >= 0 && agreement_.index() > check_result.closing_index) {
    fail(std::make_exception_ptr(UsageError(
        fmt::format("the ranks make different numbers of calls: a rank finished its handler after step boundary "
                    "{}, while rank {} is at step boundary {}",
                    check_result.closing_index, comm_.rank(), agreement_.index()))));
  }
  comm_.set_last_seen(fmt::format("step boundary {}", check_result.first_index));
}

void PreemptionCheckpointHandler::Impl::decide(const cluster::CheckResult& check_result) {
  policy_.decide(check_result, {notices_.agreed().has_value(), manager.background_save_pending(),
                                static_cast<std::int64_t>(manager.impl().background->begun())});
  plan_alarm(policy_.decision() ? kAlarmAfterSave : cluster::kCheckInterval);
}

/// At the first boundary no step has been measured yet.
void PreemptionCheckpointHandler::Impl::note_step_time(const cluster::CheckResult& check_result) {
  if (check_result.first_index <= 1) {
    return;
  }
  longest_step_ = std::max(longest_step_, check_result.step_time);
  longest_known_step_ = std::max(longest_known_step_, check_result.step_time);
  log_.step(run_calls, check_result.step_time);
}

/// Before a boundary is counted, so that the round stops this rank there. The thread looks only now and then.
void PreemptionCheckpointHandler::Impl::send_news() {
  if (!threads_) {
    return;
  }
  if (notices_.any_unsent()) [[unlikely]] {
    threads_->thread.request(true);
  }
  if (comm_.is_rank_0() && !policy_.commit_is_planned() && manager.background_save_pending()) [[unlikely]] {
    ask_for_commit();
  }
}

/// Once rank 0's own part is written. If another rank's is not, again after a while.
void PreemptionCheckpointHandler::Impl::ask_for_commit() {
  const auto now = Clock::now();
  if (now < ask_for_commit_after_ || manager.impl().background->written() != manager.impl().background->begun()) {
    return;
  }
  ask_for_commit_after_ = now + std::max<Clock::duration>(kAskForCommitAgain, (now - save_time_) / 4);
  threads_->thread.request();
}

/// What becomes due by the clock begins a round.
void PreemptionCheckpointHandler::Impl::plan_alarm(milliseconds not_before) {
  if (!threads_) {
    return;
  }
  const auto now = Clock::now();
  const auto& notice = notices_.agreed();
  std::optional<Clock::time_point> alarm;
  const auto wake_at = [&](Clock::time_point time) {
    time = std::max<Clock::time_point>(time, now + not_before);
    alarm = alarm ? std::min(*alarm, time) : time;
  };
  if (const auto due = next_save_by_time(); due && !notice) {
    wake_at(*due);
  }
  if (comm_.is_rank_0() && takes_local_copies() && !notice) {
    wake_at(local_copy_time_ + manager.options().local_every);
  }
  if (comm_.is_rank_0()) {
    wake_at(log_.next_step());
  }
  if (policy_.trains_on() && notice && notice->deadline && policy_.has_check_result()) {
    const auto lead = std::chrono::duration_cast<Clock::duration>(handler::final_save_lead(policy_.grace()));
    wake_at(std::min<Clock::time_point>(now + kPollWhileTrainingOn, *notice->deadline - lead));
  }
  threads_->thread.set_alarm(alarm);
}

/// After a save or a wait.
void PreemptionCheckpointHandler::Impl::steps_go_on() {
  agreement_.restart_step_clock();
  plan_alarm(milliseconds(0));
}

void PreemptionCheckpointHandler::Impl::ask_for_save() noexcept {
  requested_ = cluster::RequestedSave::user;
  if (threads_) {
    threads_->thread.request();
  }
}

// ---------------------------------------------------------------------------------------------------------------------------
// Boundaries.

void PreemptionCheckpointHandler::Impl::check_usable() const {
  if (finished) {
    throw UsageError("the handler was finished: finish() comes after the last step boundary");
  }
  if (ended) {
    throw UsageError("the handler ended with an error that all ranks received; make a new one to continue");
  }
}

/// Both kinds of calls count, which is hardly what a program wants that makes both.
void PreemptionCheckpointHandler::Impl::note_use_of_run() {
  if (!uses_run && counts_boundaries && comm_.is_rank_0()) {
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
  send_news();
  if (local_is_under_way_) [[unlikely]] {
    or_fail([this] { advance_local_copy(); });
  }
  or_fail([this] { agreement_.at_boundary(); });
  const auto here = agreement_.index();
  const bool decision_is_due = policy_.decision_is_due(here);
  if (!threads_ && notices_.any() && !decision_is_due) [[unlikely]] {
    notices_.report_if_one_waits(here, [&] {
      return policy_.preemption_is_decided() ? policy_.decision()->at - here : agreement_.boundaries_until_result();
    });
  }
  return !decision_is_due && !periodic_save_is_due() && !policy_.commit_is_due(here) && !dry_run_is_due();
}

/// The program says nothing of periodic saves; a drill makes its own.
bool PreemptionCheckpointHandler::Impl::saves_automatically() const {
  return !config.save_every && config.save_every_steps == 0 && !manager.impl().drill;
}

/// Rank 0 alone asks for these saves. A save that the program has made through the manager counts as well.
std::optional<Clock::time_point> PreemptionCheckpointHandler::Impl::next_save_by_time() const {
  const bool by_setting = config.save_every.value_or(milliseconds(0)).count() > 0;
  if (!comm_.is_rank_0() || (!by_setting && !saves_automatically())) {
    return std::nullopt;
  }
  if (by_setting) {
    return save_time_ + *config.save_every;
  }
  return std::max(save_time_, manager.impl().last_commit) +
         std::chrono::duration_cast<Clock::duration>(policy_.automatic_interval());
}

bool PreemptionCheckpointHandler::Impl::periodic_save_is_due() const {
  return policy_.saves_by_steps() && policy_.periodic_save_is_due(steps()) && !notices_.agreed();
}

/// Inside of a scope that saves at its end the state may be in pieces: the end of the scope does it.
bool PreemptionCheckpointHandler::Impl::dry_run_is_due() const {
  return dry_run_.is_due(run_calls) && patient_scopes == 0 && !notices_.agreed();
}

/// Rank 0 has it, and the others hear of it as of any other.
void PreemptionCheckpointHandler::Impl::give_notice(const char* source, const char* message) {
  if (comm_.is_rank_0()) {
    notices_.give(source, message);
  }
}

void PreemptionCheckpointHandler::Impl::plan_periodic_save() {
  if (policy_.saves_by_steps()) {
    policy_.plan_periodic_save(steps());
  }
}

void PreemptionCheckpointHandler::Impl::act(const std::vector<std::any>& save_fn_args) {
  confirm();
  const bool periodic = periodic_save_is_due();
  if (periodic) {
    plan_periodic_save();
  }
  if (policy_.commit_is_due(agreement_.index())) {
    commit();
  }
  if (dry_run_is_due()) {
    act_in_dry_run(false, save_fn_args);
  } else if (policy_.decision_is_due(agreement_.index()) && !(periodic && policy_.local_copy_is_decided())) {
    carry_out(policy_.take_decision(), save_fn_args);
  } else if (periodic && !policy_.preemption_is_near()) {
    save_while_running(SaveReason::Kind::periodic, save_fn_args);
  }
  steps_go_on();
}

void PreemptionCheckpointHandler::Impl::begin_phase() {
  check_usable();
  agreement_.begin_phase();
  // All ranks have the same results here: what follows from them need not wait for steps of the new phase.
  policy_.bring_forward(agreement_.index() + 1);
}

}  // namespace reprieve
