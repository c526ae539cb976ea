// SPDX-License-Identifier: BSD-3-Clause
#include "handler/run_log.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/collectives.hpp"
#include "core/event_log.hpp"
#include "core/process.hpp"
#include "termination/notice_sources.hpp"
#include "termination/signal_flag.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::handler {

namespace {

using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

Json names_of(const std::vector<int>& signals) {
  Json names = Json::array();
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
  Json fields{{"run_calls", run_calls},
              {"signals", names_of(*config.signals)},
              {"restart_code", *config.restart_code},
              {"platform", to_string(platform.platform)},
              {"device", to_string(platform.device)},
              {"agreement", agreement}};
  if (config.total_steps > 0) {
    fields["total_steps"] = config.total_steps;
  }
  if (const auto end = end_of_job(config)) {
    fields["job_end"] = core::event_time(*end);
  }
  if (const auto job = termination::slurm_job_id(core::environment_variable)) {
    fields["slurm_job"] = *job;
  }
  manager_.record("ready", fields);
}

void RunLog::already_finished(std::uint64_t run_calls, bool refused) {
  manager_.record("already_finished", {{"run_calls", run_calls}, {"refused", refused}});
}

void RunLog::agreed(const TerminationNotice& notice, std::uint64_t run_calls, std::int64_t boundary) {
  const double age = seconds_since(notice.time);
  Json fields{{"source", notice.source},
              {"message", notice.message},
              {"age_s", age},
              {"rank", notice.rank},
              {"host", notice.host}};
  if (notice.deadline) {
    fields["time_left_s"] = -seconds_since(*notice.deadline);
  }
  manager_.record("notice", fields);
  manager_.record("agreement", {{"run_calls", run_calls}, {"boundary", boundary}, {"seconds_from_notice", age}});
}

void RunLog::longest_step(std::uint64_t run_calls, std::chrono::nanoseconds length) {
  manager_.record("steps", {{"run_calls", run_calls}, {"longest_step_s", Seconds(length).count()}});
}

void RunLog::save_skipped(std::uint64_t step) { manager_.record("save_skipped", {{"number", step}}); }

void RunLog::trains_on(std::uint64_t run_calls, Seconds time_left) {
  manager_.record("train_on", {{"run_calls", run_calls}, {"time_left_s", time_left.count()}});
}

void RunLog::leaves(std::uint64_t run_calls, const ExitContext& context) {
  manager_.record("exit", {{"run_calls", run_calls},
                           {"exit_code", context.exit_code},
                           {"checkpoint", context.checkpoint},
                           {"seconds_from_notice", seconds_since(context.notice.time)}});
}

void RunLog::went_on(std::uint64_t run_calls) { manager_.record("went_on", {{"run_calls", run_calls}}); }

void RunLog::finished(std::uint64_t run_calls) { manager_.record("finished", {{"run_calls", run_calls}}); }

void RunLog::failed(std::uint64_t run_calls, int rank, ErrorCode code, const std::string& message) {
  manager_.record("error",
                  {{"rank", rank}, {"error", to_string(code)}, {"message", message}, {"run_calls", run_calls}});
}

void RunLog::step(std::uint64_t run_calls, std::chrono::nanoseconds length, bool only_record) {
  const Json fields{{"run_calls", run_calls}, {"step_s", Seconds(length).count()}};
  if (only_record) {
    manager_.run_record.record("step", fields);
  } else {
    manager_.record("step", fields);
  }
}

void RunLog::arrivals(const Json& of_ranks) { manager_.record("arrivals", {{"ranks", of_ranks}}); }

Rehearsal::Rehearsal(std::optional<core::DrillOrders> orders, RunLog& log) : orders_(std::move(orders)), log_(log) {
  if (orders_) {
    save_at_ = orders_->save_at.value_or(kNever);
    leave_at_ = orders_->leave_at.value_or(kNever);
  }
}

void Rehearsal::begin(bool is_chief) {
  if (orders_ && orders_->leave_at_once) {
    give_notice(is_chief, "rehearsal of a restart");
  }
}

void Rehearsal::give_notice(bool is_chief, const char* message) {
  if (is_chief) {
    notice_ = termination::LocalNotice{"drill", message, Clock::now(), std::nullopt};
  }
}

/// At the end of the program there will be no later step: there is nothing more to wait for.
Rehearsal::Duty Rehearsal::take_duty(std::uint64_t run_calls, bool is_last) noexcept {
  const Duty duty{run_calls >= save_at_, leave_at_ != kNever && (is_last || run_calls >= leave_at_)};
  save_at_ = duty.save ? kNever : save_at_;
  leave_at_ = duty.leave ? kNever : leave_at_;
  return duty;
}

void Rehearsal::tell_arrivals(cluster::Communicator& comm, const std::optional<termination::LocalNotice>& mine) {
  if (!orders_) {
    return;
  }
  nlohmann::json arrival{{"rank", comm.rank()}, {"host", comm.host()}};
  if (mine) {
    arrival.update({{"source", mine->source}, {"message", mine->message}, {"age_s", seconds_since(mine->time)}});
  }
  log_.arrivals(cluster::gather(comm, arrival, "telling where the notice arrived"));
}

}  // namespace reprieve::handler
