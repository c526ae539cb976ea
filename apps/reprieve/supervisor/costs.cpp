// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/costs.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace reprieve::supervisor {

namespace {

using Json = nlohmann::json;

double number(const Json& event, const char* key) {
  const auto member = event.find(key);
  return member != event.end() && member->is_number() ? member->get<double>() : 0;
}

std::string text_or_empty(const Json& event, const char* key) {
  const auto member = event.find(key);
  return member != event.end() && member->is_string() ? member->get<std::string>() : "";
}

/// A moment between steps.
struct Mark {
  double time_s = 0;
  double run_calls = 0;
};

/// Reads one run after the other. Times are those of the monotonic clock, which is the same within a run.
class Reader {
 public:
  RunHistory read(const std::vector<Json>& events) {
    for (const Json& event : events) {
      take(event);
    }
    close_run();
    return std::move(history_);
  }

 private:
  void take(const Json& event) {
    const std::string name = text_or_empty(event, "event");
    if (name == "start") {
      if (ready_ && !ended_) {
        ++history_.failed;
      }
      close_run();
      start_s_ = number(event, "monotonic_s");
    }
    last_s_ = number(event, "monotonic_s");
    if (const auto reaction = reactions().find(name); reaction != reactions().end()) {
      (this->*reaction->second)(event);
    }
  }

  using Reaction = void (Reader::*)(const Json&);
  static const std::map<std::string, Reaction>& reactions() {
    static const std::map<std::string, Reaction> table{
        {"ready", &Reader::on_ready},
        {"restore", &Reader::on_restore},
        {"near_copies", &Reader::on_near_copies},
        {"steps", &Reader::on_steps},
        {"save_started", &Reader::on_save_started},
        {"save_finished", &Reader::on_save_finished},
        {"agreement", &Reader::on_agreement},
        {"exit", &Reader::on_exit},
        {"went_on", &Reader::on_went_on},
        {"finished", &Reader::on_finished},
    };
    return table;
  }

  void on_ready(const Json& event) {
    ready_ = true;
    ++history_.runs;
    mark(event);
  }
  void on_near_copies(const Json& event) { history_.near_copies_s.push_back(number(event, "seconds")); }

  void on_restore(const Json& event) { history_.restores_s.push_back(number(event, "seconds")); }
  void on_steps(const Json& event) {
    history_.longest_step_s = std::max(history_.longest_step_s, number(event, "longest_step_s"));
  }
  void on_save_started(const Json& event) {
    count_steps(event);
    save_started_s_ = last_s_;
  }
  void on_save_finished(const Json& event) {
    const double save_s = number(event, "seconds");
    const double blocked_s = event.contains("blocked_seconds") ? number(event, "blocked_seconds") : save_s;
    history_.saves_s.push_back(save_s);
    if (!std::exchange(has_saved_, true)) {
      history_.first_saves_s.push_back(save_s);
    }
    history_.blocked_s.push_back(blocked_s);
    history_.state_bytes = static_cast<std::uint64_t>(std::max(0.0, number(event, "bytes")));
    const auto reason = event.find("reason");
    if (reason != event.end() && reason->is_object() && text_or_empty(*reason, "kind") == "periodic") {
      if (const double work_s = last_s_ - blocked_s - last_save_s_.value_or(last_s_); work_s > 0) {
        history_.intervals_s.push_back(work_s);
      }
      last_save_s_ = last_s_;
    }
    // Steps go on while a save is written in the background, and after any other.
    mark_ = Mark{blocked_s < save_s ? save_started_s_ + blocked_s : last_s_, number(event, "run_calls")};
  }
  void on_agreement(const Json& event) { history_.waits_s.push_back(number(event, "seconds_from_notice")); }
  void on_exit(const Json& event) {
    ended_ = true;
    ++history_.preempted;
    history_.notices_s.push_back(number(event, "seconds_from_notice"));
  }
  void on_went_on(const Json& event) {
    ended_ = false;
    --history_.preempted;
    mark(event);
  }
  void on_finished(const Json& event) {
    count_steps(event);
    ended_ = true;
    ++history_.finished;
  }

  void mark(const Json& event) { mark_ = Mark{last_s_, number(event, "run_calls")}; }

  /// The steps since the last mark, which no save interrupted.
  void count_steps(const Json& event) {
    const double steps = mark_ ? number(event, "run_calls") - mark_->run_calls : 0;
    if (steps > 0) {
      history_.steps += static_cast<std::uint64_t>(steps);
      history_.stepping_s += last_s_ - mark_->time_s;
    }
    mark_.reset();
  }

  void close_run() {
    if (ready_) {
      history_.observed_s += std::max(0.0, last_s_ - start_s_);
    }
    ready_ = ended_ = has_saved_ = false;
    mark_.reset();
    last_save_s_.reset();
  }

  RunHistory history_;
  bool ready_ = false;
  bool ended_ = false;
  bool has_saved_ = false;
  double start_s_ = 0;
  double last_s_ = 0;
  double save_started_s_ = 0;
  std::optional<Mark> mark_;
  std::optional<double> last_save_s_;
};

}  // namespace

void RunHistory::add(const RunHistory& other) {
  runs += other.runs;
  finished += other.finished;
  preempted += other.preempted;
  failed += other.failed;
  observed_s += other.observed_s;
  for (const auto list :
       {&RunHistory::saves_s, &RunHistory::first_saves_s, &RunHistory::blocked_s, &RunHistory::restores_s,
        &RunHistory::waits_s, &RunHistory::notices_s, &RunHistory::intervals_s, &RunHistory::near_copies_s}) {
    (this->*list).insert((this->*list).end(), (other.*list).begin(), (other.*list).end());
  }
  stepping_s += other.stepping_s;
  steps += other.steps;
  longest_step_s = std::max(longest_step_s, other.longest_step_s);
  state_bytes = std::max(state_bytes, other.state_bytes);
}

RunHistory read_history(const std::vector<Json>& events) { return Reader().read(events); }

double young_interval_s(double save_s, double mtbf_s) { return std::sqrt(2 * save_s * mtbf_s); }

double daly_interval_s(double save_s, double mtbf_s) {
  if (save_s >= 2 * mtbf_s) {
    return mtbf_s;
  }
  const double ratio = save_s / (2 * mtbf_s);
  return young_interval_s(save_s, mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save_s;
}

double lost_fraction(double interval_s, double save_s, double restart_s, double mtbf_s) {
  const double wall_clock_per_work =
      mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1((interval_s + save_s) / mtbf_s) / interval_s;
  return 1 - 1 / wall_clock_per_work;
}

double shortest_mtbf_s(double observed_s) { return observed_s / -std::log(0.05); }

namespace {

constexpr double kFactor = 1.5;
constexpr double kLeast = 1.0;
constexpr double kSlurmLateness = 30.0;
constexpr double kRounding = 10.0;

}  // namespace

double grace_needed_s(const GraceCosts& costs) { return costs.wait_s + costs.save_s + costs.leave_s; }

double grace_with_margin_s(const GraceCosts& costs) { return kFactor * grace_needed_s(costs) + kLeast; }

int signal_lead_s(const GraceCosts& costs) {
  return static_cast<int>(std::ceil((grace_with_margin_s(costs) + kSlurmLateness) / kRounding) * kRounding);
}

}  // namespace reprieve::supervisor
