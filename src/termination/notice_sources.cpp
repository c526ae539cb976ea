// SPDX-License-Identifier: BSD-3-Clause
#include "termination/notice_sources.hpp"

#include <signal.h>  // NOLINT: signal masks are POSIX, not in <csignal>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "core/values.hpp"
#include "reprieve/error.hpp"
#include "termination/metadata_source.hpp"
#include "termination/platform.hpp"
#include "termination/signal_flag.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::termination {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

/// How often the directory of the run is looked at, at least.
constexpr milliseconds kSupervisorInterval{100};
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

  std::optional<Announcement> ask(const std::stop_token& stop) override {
    ask_slurm_if_older_than(kSlurmInterval, stop);
    if (is_near()) {
      ask_slurm_if_older_than(kFresh, stop);  // the limit of a job may be changed
    }
    if (preempted_) {
      return announcement("Slurm is preempting the job");
    }
    return is_near() ? std::optional(announcement("the end of the job is near")) : std::nullopt;
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

  [[nodiscard]] Announcement announcement(std::string message) const {
    Announcement found{"preempted", std::move(message)};
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

namespace {

/// A source that is one question, and remembers nothing.
class Question final : public PolledSource {
 public:
  using Ask = std::function<std::optional<Announcement>()>;

  Question(std::string name, Ask ask) : name_(std::move(name)), ask_(std::move(ask)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  std::optional<Announcement> ask(const std::stop_token& /*stop*/) override { return ask_(); }

 private:
  std::string name_;
  Ask ask_;
};

/// Finds nothing: its thread keeps the handler of the signals in front of those that are installed later, and lets the
/// signals through where the program has blocked them in all of its own threads.
std::optional<Announcement> keep_signals(const std::vector<int>& signals) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : signals) {
    sigaddset(&watched, signal);
  }
  if (pthread_sigmask(SIG_UNBLOCK, &watched, nullptr) != 0) {
    throw Error(ErrorCode::io, "cannot let signals through");
  }
  keep_signal_handler(signals);
  return std::nullopt;
}

std::optional<Announcement> ask_program(const WatcherFn& function) {
  const WatchResult result = function();
  return result.notice ? std::optional(Announcement{"", result.message, result.time_left}) : std::nullopt;
}

/// Left behind, the file would count for the next start as well.
/// @param again  what happens if the file cannot be removed
std::optional<Announcement> take_file(const std::filesystem::path& file, const char* again) {
  const std::string name = file.filename().string();
  const std::string message = "somebody made " + file.string();
  bool is_there = false;
  try {
    // Opened each time: else a network file system shows what was there before.
    const auto directory = core::Directory::open(file.has_parent_path() ? file.parent_path() : ".");
    is_there = directory.contains(name);
    const bool counts = is_there && core::is_for_this_launch(directory, name);
    if (is_there) {
      directory.remove_file(name);
    }
    return counts ? std::optional(Announcement{"", message}) : std::nullopt;
  } catch (const StorageError& problem) {
    if (!is_there) {
      return std::nullopt;  // the lock of the directory notices that it has gone
    }
    core::log::warning("{}; {}", problem.what(), again);
    return Announcement{file.string(), message};
  }
}

/// A notice, or a request for a checkpoint, which is a hint.
std::optional<Announcement> take_request(const SourceSettings& settings) {
  auto found = settings.preempt_file ? take_file(*settings.preempt_file, "it will preempt the next start as well")
                                     : std::nullopt;
  if (!found && settings.save_file) {
    found = take_file(*settings.save_file, "it will make the next start save as well");
    if (found) {
      found->is_hint = true;
    }
  }
  return found;
}

constexpr std::size_t kLongestReason = 1000;

/// The kernel gives the lock back. Only on this host: directories have none across NFS and Lustre.
bool supervisor_has_gone(const std::filesystem::path& run_directory) {
  const auto above = core::Directory::open(run_directory.parent_path());
  return above.contains(core::kLockedFile) && above.read_text(core::kLockedFile, kLongestReason) == core::host_name() &&
         ::flock(above.descriptor(), LOCK_SH | LOCK_NB) == 0;
}

/// The supervisor gives notice by a file in the directory of the run. Its death is one too: nobody would
/// report the end of the job.
std::optional<Announcement> supervisor_notice(const std::filesystem::path& run_directory) {
  try {
    // Opened each time: else a network file system shows what was there before.
    const auto directory = core::Directory::open(run_directory);
    if (directory.contains(core::kNoticeFile)) {
      static std::atomic<int> count{0};  // each handler of the process says it
      directory.write_text(fmt::format("{}{}-{}-{}", core::kSeenPrefix, core::host_name(), ::getpid(), ++count), "",
                           core::kOwnFile, false);
      return Announcement{"notice", directory.read_text(core::kNoticeFile, kLongestReason)};
    }
    return supervisor_has_gone(run_directory) ? std::optional(Announcement{"gone", "it was killed"}) : std::nullopt;
  } catch (const StorageError&) {
    return std::nullopt;  // another node, or a supervisor that has come to its end
  }
}

LocalNotice with_grace(LocalNotice notice, milliseconds grace) {
  if (!notice.deadline && grace.count() > 0) {
    notice.deadline = notice.time + grace;
  }
  return notice;
}

}  // namespace

NoticeSources::NoticeSources(const SourceSettings& settings)
    : signals_(settings.signals), signal_grace_(settings.signal_grace) {
  install_signal_handler(signals_);
  if (!signals_.empty()) {
    try {
      add(std::make_unique<Question>("signal handler", [this] { return keep_signals(signals_); }), seconds(1),
          settings.grace);
    } catch (const std::system_error& error) {
      core::log::debug("no thread keeps the handler of the signals: {}", error.what());  // it is there all the same
    }
  }
  const auto watch = [&](std::unique_ptr<PolledSource> source) {
    add(std::move(source), settings.poll_interval, settings.grace);
  };
  if (settings.watcher_fn) {
    watch(std::make_unique<Question>("watcher function",
                                     [function = settings.watcher_fn] { return ask_program(function); }));
  }
  if (settings.preempt_file || settings.save_file) {
    const auto file = settings.preempt_file.value_or(settings.save_file.value_or(""));
    watch(
        std::make_unique<Question>("file " + file.filename().string(), [settings] { return take_request(settings); }));
  }
  if (settings.run_directory) {
    add(std::make_unique<Question>("reprieve run",
                                   [directory = *settings.run_directory] { return supervisor_notice(directory); }),
        std::min(settings.poll_interval, kSupervisorInterval), settings.signal_grace);
  }
  if (settings.deadline) {
    watch(make_deadline_source(*settings.deadline));
  }
  if (settings.metadata != MetadataServer::none) {
    watch(make_metadata_source(settings.metadata, environment_variable));
  }
}

void NoticeSources::add(std::unique_ptr<PolledSource> source, milliseconds interval, milliseconds grace) {
  auto poller = std::make_unique<Poller>(std::move(source), interval);  // throws where there is no thread
  Watched& added = pollers_.emplace_back();
  added.poller = std::move(poller);
  added.grace = grace;
}

std::optional<LocalNotice> NoticeSources::signal_notice() const {
  const auto signal = pending_signal(signals_);
  if (!signal) {
    return std::nullopt;
  }
  std::string message = "sent by the kernel, or from outside of the container";
  if (signal->sender != 0) {
    message = signal->from_parent ? "sent by the launcher" : fmt::format("sent by process {}", signal->sender);
  }
  return LocalNotice{"signal " + signal_name(signal->signal), std::move(message), signal->time, std::nullopt};
}

std::optional<LocalNotice> NoticeSources::current() const {
  std::vector<LocalNotice> notices;
  if (auto notice = signal_notice()) {
    notices.push_back(with_grace(std::move(*notice), signal_grace_));
  }
  for (const auto& [poller, grace] : pollers_) {
    if (auto notice = poller->notice()) {
      notices.push_back(with_grace(std::move(*notice), grace));
    }
  }
  return merged(notices);
}

bool NoticeSources::any() const noexcept {
  return any_signal_pending(signals_) ||
         std::any_of(pollers_.begin(), pollers_.end(), [](const Watched& each) { return each.poller->any(); });
}

std::optional<std::string> NoticeSources::take_hint() {
  for (const auto& [poller, grace] : pollers_) {
    if (auto hint = poller->take_hint()) {
      return hint;
    }
  }
  return std::nullopt;
}

void NoticeSources::saved() {
  for (const auto& [poller, grace] : pollers_) {
    poller->saved();
  }
}

void NoticeSources::acknowledge() {
  acknowledge_signals(signals_);
  for (const auto& [poller, grace] : pollers_) {
    poller->acknowledge();
  }
}

std::optional<LocalNotice> merged(const std::vector<LocalNotice>& notices) {
  if (notices.empty()) {
    return std::nullopt;
  }
  const auto end_of = [](const LocalNotice& notice) { return notice.deadline.value_or(notice.time); };
  LocalNotice result =
      *std::min_element(notices.begin(), notices.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  const bool any_known =
      std::any_of(notices.begin(), notices.end(), [](const auto& n) { return n.deadline.has_value(); });
  if (any_known) {
    const auto& tightest = *std::min_element(notices.begin(), notices.end(),
                                             [&](const auto& a, const auto& b) { return end_of(a) < end_of(b); });
    result.deadline = end_of(tightest);
  }
  return result;
}

}  // namespace reprieve::termination
