// The handler's side of the agreement by threads: when there is something to tell, and where the threads rest.

#include <algorithm>
#include <system_error>

#include "core/log.hpp"
#include "handler/handler_impl.hpp"
#include "manager/manager_impl.hpp"

namespace reprieve {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

/// While the program trains on, the length of its steps is looked at so often.
constexpr milliseconds kLookWhileTrainingOn{1000};
/// Before the chief asks once more whether the save in the background is written everywhere.
constexpr milliseconds kAskForCommitAgain{50};
/// The other ranks' threads answer in milliseconds, or hardly at all.
constexpr milliseconds kAnnouncement{5000};

constexpr const char* kWhat = "choosing how the ranks agree";

}  // namespace

/// Who wants a check at every boundary gets that. @throws ConfigError, on all ranks
bool PreemptionCheckpointHandler::Impl::threads_are_wanted() {
  const bool wants_every_boundary = config.agreement == Agreement::automatic && config.check_interval.count() == 0;
  if (config.agreement == Agreement::boundaries || wants_every_boundary) {
    return false;
  }
  const bool possible = comm_.max(cluster::any_thread_may_use_mpi() ? 0 : 1, kWhat) == 0;
  if (!possible && config.agreement == Agreement::threads) {
    throw ConfigError(
        "termination.agreement: found \"threads\", but MPI does not run with MPI_THREAD_MULTIPLE on all ranks: ask for "
        "it by MPI_Init_thread, or choose \"auto\"");
  }
  return possible;
}

/// If one rank can make no thread, none uses them.
void PreemptionCheckpointHandler::Impl::begin_rounds() {
  round_comm_.emplace(comm_.handle(), config.peer_timeout);
  round_channel_.emplace(*round_comm_);
  rounds_.emplace(*round_channel_, cluster::RoundOptions{.peer_timeout = config.peer_timeout},
                  [this] { return has_news(); });
  std::int64_t failed = 0;
  try {
    rounds_->start();
  } catch (const std::system_error& error) {
    core::log::warning("rank {} ({}) can make no thread for the agreement ({}): all ranks agree at boundaries instead",
                       comm_.rank(), comm_.host(), error.what());
    failed = 1;
  }
  if (comm_.max(failed, kWhat) != 0) {
    rounds_.reset();
    round_channel_.reset();
    round_comm_.reset();
    return;
  }
  agreement_.check_by(*rounds_);
  plan_alarm(0ms);
  rounds_->resume();
}

/// At a place where all ranks are: they have just told each other that nothing more will be agreed on, for now.
void PreemptionCheckpointHandler::Impl::rest_rounds(milliseconds limit) noexcept {
  if (!rounds_) {
    return;
  }
  try {
    rounds_->rest(limit);
  } catch (const std::exception& error) {
    core::log::warning("{}", error.what());
  }
}

void PreemptionCheckpointHandler::Impl::resume_rounds() noexcept {
  if (rounds_) {
    rounds_->resume();
  }
}

/// MPI is about to end.
void PreemptionCheckpointHandler::Impl::end_rounds() noexcept {
  if (rounds_) {
    rounds_->abandon();
    round_comm_->leave_mpi();
  }
}

/// In the thread: whether this rank knows something that the others do not.
bool PreemptionCheckpointHandler::Impl::has_news() {
  heed_hints();
  if (hinted_) {
    return true;
  }
  if (!sources_.any()) {
    return false;
  }
  const auto local = sources_.current();
  return local && local->deadline.value_or(local->time).time_since_epoch().count() < told_deadline_;
}

/// The notice counts as a new one.
void PreemptionCheckpointHandler::Impl::forget_what_was_told() noexcept { told_deadline_ = kNothingTold; }

void PreemptionCheckpointHandler::Impl::ask_for_save() noexcept {
  requested = cluster::RequestedSave::user;
  if (rounds_) {
    rounds_->request();
  }
}

/// Before a boundary is counted, so that the round stops this rank there. The thread looks only now and then.
void PreemptionCheckpointHandler::Impl::tell_news() {
  if (!rounds_) {
    return;
  }
  if (sources_.any() && told_deadline_ == kNothingTold) [[unlikely]] {
    rounds_->request();
  }
  if (comm_.is_chief() && !commit_at_ && manager.background_save_pending()) [[unlikely]] {
    ask_for_commit();
  }
}

/// Once the chief's own part is written. If another rank's is not, again after a while.
void PreemptionCheckpointHandler::Impl::ask_for_commit() {
  const auto now = Clock::now();
  if (now < ask_for_commit_after_ || manager.impl().background_written() != manager.impl().background_started) {
    return;
  }
  ask_for_commit_after_ = now + std::max<Clock::duration>(kAskForCommitAgain, (now - last_save_time_) / 4);
  rounds_->request();
}

/// What becomes due by the clock begins a round.
void PreemptionCheckpointHandler::Impl::plan_alarm(milliseconds not_before) {
  if (!rounds_) {
    return;
  }
  const auto now = Clock::now();
  std::optional<Clock::time_point> alarm;
  const auto wake_at = [&](Clock::time_point time) {
    time = std::max<Clock::time_point>(time, now + not_before);
    alarm = alarm ? std::min(*alarm, time) : time;
  };
  if (comm_.is_chief() && config.save_every.count() > 0 && !notice) {
    wake_at(last_save_time_ + config.save_every);
  }
  if (comm_.is_chief() && manager.impl().drill) {
    wake_at(last_told_step_ + kDrillStepInterval);
  }
  if (training_on_ && notice && notice->deadline && verdict_) {
    const auto lead = handler::final_save_lead(grace_inputs(*verdict_));
    wake_at(std::min<Clock::time_point>(now + kLookWhileTrainingOn,
                                        *notice->deadline - std::chrono::duration_cast<Clock::duration>(lead)));
  }
  rounds_->set_alarm(alarm);
}

/// After a save or a wait.
void PreemptionCheckpointHandler::Impl::steps_go_on() {
  agreement_.restart_step_clock();
  plan_alarm(0ms);
}

/// So that the other ranks come to hear of the error, and this one knows how long their steps take.
void PreemptionCheckpointHandler::Impl::announce_failure() {
  if (rounds_) {
    rounds_->announce_failure(std::min(config.error_timeout, kAnnouncement));
    longest_known_step_ = std::max(longest_known_step_, rounds_->longest_step_of_all());
  }
}

}  // namespace reprieve
