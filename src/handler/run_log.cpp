// SPDX-License-Identifier: BSD-3-Clause
#include "handler/run_log.hpp"

#include <thread>
#include <utility>

#include "cluster/communicator.hpp"
#include "core/events.hpp"
#include "core/process.hpp"
#include "termination/notice_sources.hpp"
#include "termination/signal_flag.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::handler {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::chrono::milliseconds kDrillInterval{100};

std::vector<std::string> names_of(const std::vector<int>& signals) {
  std::vector<std::string> names;
  names.reserve(signals.size());
  for (const int signal : signals) {
    names.push_back(termination::signal_name(signal));
  }
  return names;
}

/// As far as it is known at the start.
std::optional<termination::WallClock::time_point> end_of_job(const TerminationConfig& config) {
  if (config.end_time) {
    return config.end_time;
  }
  const auto known =
      termination::end_in_environment(*config.platform, core::environment_variable, termination::WallClock::now());
  return known ? std::optional(known->end) : std::nullopt;
}

}  // namespace

void RunLog::ready(std::uint64_t run_calls, const TerminationConfig& config, const PlatformInfo& platform,
                   std::string_view agreement) {
  events::Ready event{.run_calls = run_calls,
                      .signals = names_of(*config.signals),
                      .restart_code = *config.restart_code,
                      .platform = to_string(platform.platform),
                      .device = to_string(platform.device),
                      .agreement = std::string(agreement),
                      .slurm_job = termination::slurm_job_id(core::environment_variable)};
  if (config.total_steps > 0) {
    event.total_steps = config.total_steps;
  }
  if (const auto end = end_of_job(config)) {
    event.job_end = core::event_time(*end);
  }
  manager_.record(event);
}

void RunLog::agreed(const TerminationNotice& notice, std::uint64_t run_calls, std::int64_t boundary) {
  const double age = seconds_since(notice.time);
  events::Notice event{notice.source, notice.message, age, notice.rank, notice.host, std::nullopt};
  if (notice.deadline) {
    event.time_left_s = -seconds_since(*notice.deadline);
  }
  manager_.record(event);
  manager_.record(events::Agreement{run_calls, boundary, age});
}

void RunLog::step(std::uint64_t run_calls, std::chrono::nanoseconds length) noexcept {
  const auto now = Clock::now();
  if (now < next_step_) {
    return;
  }
  next_step_ = now + (for_drill_ ? Clock::duration(kDrillInterval) : news_interval(now - begin_));
  try {
    const events::StepReached event{run_calls, Seconds(length).count()};
    if (for_drill_) {
      manager_.run_record.write(event);
    } else {
      manager_.record(event);
    }
  } catch (...) {
    // The step itself must not fail for it.
  }
}

namespace {

constexpr std::uint64_t kFirstMemoryLook = 2;
constexpr int kMemorySamples = 6;
constexpr int kCallsInPause = 20;
constexpr std::chrono::milliseconds kPauseForMemory{300};  // the pollers look ten times a second

}  // namespace

DryRun::DryRun(std::optional<core::DrillOrders> orders, RunLog& log) : orders_(std::move(orders)), log_(log) {
  if (orders_) {
    save_at_ = orders_->save_at.value_or(kNever);
    leave_at_ = orders_->leave_at.value_or(kNever);
    watch_memory_at_ = orders_->watch_memory.value_or(false) ? kFirstMemoryLook : kNever;
  }
}

/// At the end of the program there will be no later step: there is nothing more to wait for.
DryRun::Action DryRun::take_action(std::uint64_t run_calls, bool is_last) noexcept {
  const Action action{run_calls >= save_at_, leave_at_ != kNever && (is_last || run_calls >= leave_at_),
                      run_calls >= watch_memory_at_};
  save_at_ = action.save ? kNever : save_at_;
  leave_at_ = action.leave ? kNever : leave_at_;
  return action;
}

/// The first step may set up what the others use.
void DryRun::watch_memory(cluster::Communicator& comm, const Checkpoint::Registry& registry) {
  const std::vector<VariableMemory> variables = memory_of(registry);
  if (comm.is_rank_0()) {
    memory_watch_.after_step(variables);
  }
  // What MPI and the threads of this library change by themselves.
  for (int call = 0; call < kCallsInPause; ++call) {
    static_cast<void>(comm.max(call, "a pause for a look at the memory"));
  }
  if (comm.is_rank_0()) {
    std::this_thread::sleep_for(kPauseForMemory);
    memory_watch_.after_pause();
  }
  if (++memory_samples_ == kMemorySamples) {
    watch_memory_at_ = kNever;
    log_.write(memory_watch_.changes(variables));
  }
}

void DryRun::send_arrivals(cluster::Communicator& comm, const std::optional<termination::LocalNotice>& mine) {
  if (!orders_) {
    return;
  }
  events::Arrivals::OfRank arrival{.rank = comm.rank(), .host = comm.host()};
  if (mine) {
    arrival.source = mine->source;
    arrival.message = mine->message;
    arrival.age_s = seconds_since(mine->time);
  }
  log_.write(events::Arrivals{comm.gather_values(arrival, "gathering where the notice arrived")});
}

}  // namespace reprieve::handler
