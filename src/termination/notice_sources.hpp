// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// All sources of notices of one process behind one question.

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "reprieve/notice.hpp"
#include "reprieve/platform.hpp"
#include "termination/metadata_source.hpp"

namespace reprieve::termination {

// Where a handler puts the notice that all ranks have agreed on, for other threads of its process.

class NoticeBoard {
 public:
  void post(PreemptionMessage message) {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
      latest_ = std::move(message);
    }
    posted_.notify_all();
  }

  /// How many have been posted so far.
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  /// Waits until more than @p seen are posted and returns the latest; nothing if @p stop is requested before.
  std::optional<PreemptionMessage> wait_for_more(std::size_t seen, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return posted_.wait(lock, stop, [&] { return count_ > seen; }) ? latest_ : std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any posted_;
  std::size_t count_ = 0;
  std::optional<PreemptionMessage> latest_;
};

// The end of a job that is known in advance.

/// When a job ends, and for how long it may run in all.
struct JobEnd {
  WallClock::time_point end;
  std::chrono::seconds whole_time{0};
};

/// What the environment of a batch system says: SLURM_JOB_START_TIME and SLURM_JOB_END_TIME (seconds since 1970), or
/// PBS_WALLTIME (seconds, or hours:minutes:seconds), counted from @p started. Nothing if it says nothing. Pure.
std::optional<JobEnd> end_in_environment(Platform platform, const EnvironmentLookup& environment,
                                         WallClock::time_point started);

/// How long before the end the notice comes: @p wanted, or the default of a batch job, and never more than half of the
/// time, so that a run which is notified at once and requeued makes some progress. Pure.
std::chrono::milliseconds lead_before_end(const JobEnd& job, std::optional<std::chrono::milliseconds> wanted);

struct DeadlineSettings {
  std::optional<JobEnd> known;                    ///< from the configuration or the environment
  std::optional<std::string> slurm_job;           ///< ask Slurm: now and then, and before it is too late
  std::optional<std::chrono::milliseconds> lead;  ///< nothing: the default
};

/// Gives notice when the end is near, or when Slurm says that it is preempting the job.
std::unique_ptr<PolledSource> make_deadline_source(DeadlineSettings settings);

/// What this process watches.
struct SourceSettings {
  std::vector<int> signals;
  std::chrono::milliseconds poll_interval{1000};
  /// From a signal to the kill, and from any other notice that has no deadline of its own; zero: not known, so it may
  /// come at any time.
  std::chrono::milliseconds signal_grace{0};
  std::chrono::milliseconds grace{0};
  WatcherFn watcher_fn;
  MetadataServer metadata = MetadataServer::none;
  std::optional<std::filesystem::path> preempt_file;
  std::optional<std::filesystem::path> save_file;      ///< a hint, and no notice
  std::optional<std::filesystem::path> run_directory;  ///< of the supervisor that has started the run
  std::optional<DeadlineSettings> deadline;
};

class NoticeSources {
 public:
  /// Installs the signal handlers and starts a thread for each source that has to be asked.
  explicit NoticeSources(const SourceSettings& settings);
  NoticeSources(const NoticeSources&) = delete;
  NoticeSources& operator=(const NoticeSources&) = delete;

  /// The earliest notice that is not acknowledged. Its deadline is the earliest of all sources, or what follows from
  /// the grace period. A source without a deadline counts as one that ends when it spoke. If no source has a deadline,
  /// the notice has none.
  [[nodiscard]] std::optional<LocalNotice> current() const;

  /// Whether a source may have a notice that is not acknowledged: if not, `current` is none. Cost: a few loads.
  [[nodiscard]] bool any() const noexcept;

  /// A source has hinted at an end that is likely but not announced, since this was last asked.
  [[nodiscard]] std::optional<std::string> take_hint();

  /// The state is saved and the process is about to leave: reported to the sources that want to know.
  void saved();

  /// The notices were acted on: look for the next one.
  void acknowledge();

 private:
  void add(std::unique_ptr<PolledSource> source, std::chrono::milliseconds interval, std::chrono::milliseconds grace);
  [[nodiscard]] std::optional<LocalNotice> signal_notice() const;

  const std::vector<int> signals_;
  const std::chrono::milliseconds signal_grace_;
  struct Watched {
    std::unique_ptr<Poller> poller;
    std::chrono::milliseconds grace{};  ///< from its notice to the kill
  };
  std::vector<Watched> pollers_;
};

/// The earliest of @p notices with the earliest of their deadlines, as described at `current`. Pure.
std::optional<LocalNotice> merged(const std::vector<LocalNotice>& notices);

}  // namespace reprieve::termination
