// SPDX-License-Identifier: BSD-3-Clause
#include "termination/deadline.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "core/log.hpp"
#include "core/saturating_time.hpp"
#include "reprieve/error.hpp"
#include "termination/platform_traits.hpp"
#include "termination/short_command.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::termination {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

/// How often Slurm is asked, and how long for its answer is waited.
constexpr seconds kSlurmInterval{30};
constexpr seconds kSlurmLimit{10};
/// What is longer is no limit: numbers stay far from overflow.
constexpr seconds kLongestWallTime = std::chrono::hours(24 * 366 * 1000);
/// An answer not older than this is as good as a new one.
constexpr seconds kFresh{5};

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range && stop == text.data() + text.size() && text.front() != '-') {
    return std::numeric_limits<std::int64_t>::max();
  }
  return error == std::errc{} && stop == text.data() + text.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> number_in(const EnvironmentLookup& environment, const char* name) {
  const auto text = environment(name);
  return text ? number(*text) : std::nullopt;
}

/// "5400", "90:00" or "1:30:00".
std::optional<seconds> parse_wall_time(std::string_view text) {
  seconds sum{0};
  while (true) {
    const auto colon = text.find(':');
    const auto part = number(text.substr(0, colon));
    if (!part) {
      return std::nullopt;
    }
    sum = std::min(sum, kLongestWallTime) * 60 + std::min(seconds(*part), kLongestWallTime);
    if (colon == std::string_view::npos) {
      return sum;
    }
    text.remove_prefix(colon + 1);
  }
}

class DeadlineSource : public PolledSource {
 public:
  explicit DeadlineSource(DeadlineSettings settings) : settings_(std::move(settings)) {}
  [[nodiscard]] std::string name() const override { return "deadline"; }

  std::optional<Finding> ask(const std::stop_token& stop) override {
    ask_slurm_if_older_than(kSlurmInterval, stop);
    if (is_near()) {
      ask_slurm_if_older_than(kFresh, stop);  // the limit of a job may be changed
    }
    if (preempted_) {
      return finding("Slurm is preempting the job");
    }
    return is_near() ? std::optional(finding("the end of the job is near")) : std::nullopt;
  }

 private:
  void ask_slurm_if_older_than(seconds age, const std::stop_token& stop) {
    if (settings_.slurm_job && (!asked_ || Clock::now() - *asked_ >= age)) {
      ask_slurm(stop);
    }
  }

  [[nodiscard]] bool is_near() const {
    const auto& job = settings_.known;
    return job && WallClock::now() >= core::later(job->end, -lead_before_end(*job, settings_.lead));
  }

  /// @throws Error if Slurm does not answer
  void ask_slurm(const std::stop_token& stop) {
    asked_ = Clock::now();
    const auto text =
        output_of({"scontrol", "show", "job", *settings_.slurm_job}, slurm_environment(), kSlurmLimit, stop);
    const auto job = text ? parse_slurm_job(*text) : std::nullopt;
    if (!job) {
      if (!settings_.known) {
        throw Error(ErrorCode::io, fmt::format("scontrol does not tell about job {}", *settings_.slurm_job));
      }
      return;
    }
    preempted_ = job->preempted;
    if (job->end) {
      const auto whole = job->start ? core::between<seconds>(*job->start, *job->end) : seconds(0);
      settings_.known = JobEnd{*job->end, whole};
    }
  }

  [[nodiscard]] Finding finding(std::string message) const {
    Finding found{"preempted", std::move(message)};
    if (settings_.known) {
      const auto end = settings_.known->end;
      found.id = std::to_string(end.time_since_epoch().count());
      found.time_left = std::max(milliseconds(0), core::between<milliseconds>(WallClock::now(), end));
    }
    return found;
  }

  DeadlineSettings settings_;
  std::optional<Clock::time_point> asked_;
  bool preempted_ = false;
};

}  // namespace

std::optional<JobEnd> end_in_environment(Platform platform, const EnvironmentLookup& environment,
                                         WallClock::time_point started) {
  const PlatformTraits& traits = traits_of(platform);
  if (traits.end_variable != nullptr) {
    const auto begin = number_in(environment, traits.begin_variable);
    const auto end = number_in(environment, traits.end_variable);
    if (!end || *end == 0) {
      return std::nullopt;
    }
    const auto end_time = core::wall_clock_time(*end);
    const auto begin_time = begin ? core::wall_clock_time(*begin) : started;
    return JobEnd{end_time, core::between<seconds>(begin_time, end_time)};
  }
  const auto text = traits.wall_time_variable != nullptr ? environment(traits.wall_time_variable) : std::nullopt;
  const auto wall_time = text ? parse_wall_time(*text) : std::nullopt;
  return wall_time && wall_time->count() > 0 ? std::optional(JobEnd{core::later(started, *wall_time), *wall_time})
                                             : std::nullopt;
}

milliseconds lead_before_end(const JobEnd& job, std::optional<milliseconds> wanted) {
  if (job.whole_time.count() <= 0) {
    return wanted.value_or(milliseconds(0));
  }
  const milliseconds lead = wanted.value_or(default_lead(job.whole_time));
  return std::min(lead, core::saturated<milliseconds>(job.whole_time / 2));
}

std::unique_ptr<PolledSource> make_deadline_source(DeadlineSettings settings) {
  return std::make_unique<DeadlineSource>(std::move(settings));
}

}  // namespace reprieve::termination
