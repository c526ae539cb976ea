// SPDX-License-Identifier: BSD-3-Clause
#include "run_status.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/event_reader.hpp"
#include "event_fields.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::tool {

namespace {

using Event = nlohmann::json;
using Seconds = std::chrono::duration<double>;
using Stage = supervisor::ChiefProgress::Stage;

std::string name_of(const Event& event) { return text_in(event, "event"); }

std::optional<TimePoint> time_of(const Event& event) { return core::time_of_event(text_in(event, "time")); }

/// How many steps were made between two events of one start, and in which time.
class Pace {
 public:
  void begin(const Event& ready) {
    first_ = ready;
    last_ = ready;
  }
  void take(const Event& event) {
    if (!first_.is_null() && event.contains("run_calls")) {
      last_ = event;
    }
  }
  [[nodiscard]] std::optional<double> steps_per_second() const {
    const double seconds = number_in(last_, "monotonic_s").value_or(0) - number_in(first_, "monotonic_s").value_or(0);
    const auto steps = static_cast<double>(count_in(last_, "run_calls").value_or(0)) -
                       static_cast<double>(count_in(first_, "run_calls").value_or(0));
    return seconds > 0 && steps > 0 ? std::optional(steps / seconds) : std::nullopt;
  }

 private:
  Event first_;
  Event last_;
};

/// @param saves_alone  it has saved, and no handler was ready before
RunState state_of(const supervisor::ChiefProgress& chief, bool lives, bool saves_alone) {
  switch (chief.stage) {
    case Stage::saved:
      return RunState::saved;
    case Stage::failed:
      return RunState::failed;
    case Stage::finished:
      return RunState::finished;
    case Stage::opened:
    case Stage::starting:
    case Stage::restoring:
      if (saves_alone) {
        return lives ? RunState::running : RunState::ended;
      }
      return lives ? RunState::starting : RunState::gone;
    case Stage::running:
      break;
  }
  if (!lives) {
    return RunState::gone;
  }
  return chief.leaving ? RunState::leaving : RunState::running;
}

bool works(RunState state) {
  return state == RunState::starting || state == RunState::running || state == RunState::leaving;
}

NearState near_in(const Event& event) {
  NearState near{count_in(event, "step").value_or(0), count_in(event, "bytes").value_or(0),
                 core::time_of_event(text_in(event, "taken"))};
  near.has_partners = flag_in(event, "partner");
  return near;
}

Json time_or_null(const std::optional<TimePoint>& time) { return time ? Json(utc_time(*time)) : Json(); }

}  // namespace

const char* to_string(RunState state) {
  constexpr std::array kNames{"starting", "running", "leaving", "saved", "finished", "failed", "gone", "ended"};
  return kNames.at(static_cast<std::size_t>(state));
}

std::uint64_t RunStatus::step_at(TimePoint now) const {
  if (state != RunState::running || !steps_per_second || !told_at || now < *told_at) {
    return told_step;
  }
  constexpr double kMost = 1e15;  // a broken log must not make more of it than a number holds
  const double since = std::min(kMost, *steps_per_second * Seconds(now - *told_at).count());
  const auto step = told_step + static_cast<std::uint64_t>(since);
  return total_steps > 0 ? std::min(step, std::max(total_steps, told_step)) : step;
}

std::optional<Seconds> RunStatus::time_left(TimePoint now) const {
  if (!works(state) || total_steps == 0 || !steps_per_second) {
    return std::nullopt;
  }
  const std::uint64_t step = step_at(now);
  return Seconds(step < total_steps ? static_cast<double>(total_steps - step) / *steps_per_second : 0.0);
}

std::optional<Seconds> RunStatus::at_risk_with_nodes(TimePoint now) const {
  if (!works(state) || !started) {
    return std::nullopt;
  }
  const TimePoint since = saved && saved->time ? std::max(*saved->time, *started) : *started;
  return std::max(Seconds(now - since), Seconds(0));
}

std::optional<Seconds> RunStatus::at_risk(TimePoint now) const {
  auto least = at_risk_with_nodes(now);
  if (least && near && near->time && *near->time > *started) {
    least = std::clamp(Seconds(now - *near->time), Seconds(0), *least);
  }
  return least;
}

void RunStatus::take(const NearState& copy) {
  if (!saved || !saved->step || copy.step > *saved->step) {
    near = copy;
  }
}

std::optional<RunStatus> status_of(const std::filesystem::path& directory, const std::vector<nlohmann::json>& events,
                                   bool lives) {
  RunStatus status;
  supervisor::ChiefProgress chief;
  Pace pace;
  bool saves = false;
  for (const Event& event : events) {
    const std::string name = name_of(event);
    chief.take(event);
    pace.take(event);
    if (name == "start") {
      ++status.starts;
      status.started = time_of(event);
      status.message.clear();
      status.has_handler = false;
      status.near.reset();
      status.near_directory = text_in(event, "near_directory");
      saves = false;
      pace = {};
    } else if (name == "ready") {
      status.has_handler = true;
      status.total_steps = count_in(event, "total_steps").value_or(0);
      status.job_end = core::time_of_event(text_in(event, "job_end"));
      status.slurm_job = text_in(event, "slurm_job");
      pace.begin(event);
    } else if (name == "save_finished") {
      saves = true;
      status.saved = SavedState{count_in(event, "number").value_or(0), chief.newest_step,
                                count_in(event, "bytes").value_or(0), time_of(event)};
      if (const auto near = std::exchange(status.near, std::nullopt)) {
        status.take(*near);  // a save in the background may be of an older step
      }
    } else if (name == "near_copies" && event.contains("step")) {
      status.take(near_in(event));
    } else if (name == "finished" || name == "exit") {
      status.near.reset();  // an orderly end gives the memory back
    } else if (name == "notice") {
      status.message = text_in(event, "source");
    } else if (name == "went_on") {
      status.message.clear();
    }
    if (event.contains("run_calls")) {
      status.told_step = count_in(event, "run_calls").value_or(status.told_step);
      status.told_at = time_of(event);
    }
  }
  if (status.starts == 0) {
    return std::nullopt;
  }
  status.directory = directory;
  status.state = state_of(chief, lives, saves && !status.has_handler);
  status.message = chief.error && status.state == RunState::failed ? chief.error->message : status.message;
  status.host = chief.host;
  status.pid = chief.pid;
  status.ranks = chief.world_size;
  status.steps_per_second = pace.steps_per_second();
  return status;
}

Json to_json(const RunStatus& status, TimePoint now) {
  Json json{{"directory", status.directory.string()},
            {"state", to_string(status.state)},
            {"message", status.message},
            {"host", status.host},
            {"pid", status.pid},
            {"ranks", status.ranks},
            {"starts", status.starts},
            {"started", time_or_null(status.started)},
            {"step", status.told_step},
            {"step_told_at", time_or_null(status.told_at)},
            {"step_estimate", status.step_at(now)},
            {"steps_per_second", or_null(status.steps_per_second)},
            {"total_steps", status.total_steps > 0 ? Json(status.total_steps) : Json()},
            {"job_end", time_or_null(status.job_end)},
            {"slurm_job", status.slurm_job.empty() ? Json() : Json(status.slurm_job)}};
  const auto seconds_or_null = [](const std::optional<Seconds>& time) { return time ? Json(time->count()) : Json(); };
  json["time_left_s"] = seconds_or_null(status.time_left(now));
  json["checkpoint"] = Json();
  if (status.saved) {
    json["checkpoint"] = {{"number", status.saved->number},
                          {"step", or_null(status.saved->step)},
                          {"bytes", status.saved->bytes},
                          {"time", time_or_null(status.saved->time)}};
  }
  json["near_copy"] = Json();
  if (status.near) {
    json["near_copy"] = {{"step", status.near->step},
                         {"bytes", status.near->bytes},
                         {"memory_bytes", status.near->memory()},
                         {"time", time_or_null(status.near->time)},
                         {"partners", status.near->has_partners},
                         {"directory", status.near_directory.string()}};
  }
  json["at_risk_s"] = seconds_or_null(status.at_risk(now));
  json["at_risk_with_nodes_s"] = seconds_or_null(status.at_risk_with_nodes(now));
  return json;
}

}  // namespace reprieve::tool
