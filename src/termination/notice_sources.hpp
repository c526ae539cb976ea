// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// All sources of notices of one process behind one question.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprieve/notice.hpp"
#include "termination/deadline.hpp"
#include "termination/poller.hpp"

namespace reprieve::termination {

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
  std::optional<DeadlineSettings> deadline;
};

class NoticeSources {
 public:
  /// Installs the signal handlers and starts a thread for each source that has to be asked.
  explicit NoticeSources(const SourceSettings& settings);
  NoticeSources(const NoticeSources&) = delete;
  NoticeSources& operator=(const NoticeSources&) = delete;

  /// The earliest notice that is not acknowledged, with the earliest deadline of all: its own, what follows from the
  /// grace period, or, if another source grants no time, the moment when that one spoke. None if no source grants any.
  [[nodiscard]] std::optional<LocalNotice> current() const;

  /// Whether a source may have a notice that is not acknowledged: if not, `current` is none. Cost: a few loads.
  [[nodiscard]] bool any() const noexcept;

  /// A source has hinted at an end that is likely but not announced, since this was last asked.
  [[nodiscard]] std::optional<std::string> take_hint();

  /// The state is saved and the process is about to leave: told to the sources that want to know.
  void saved();

  /// The notices were acted on: look for the next one.
  void acknowledge();

 private:
  void add(std::unique_ptr<PolledSource> source);
  [[nodiscard]] std::optional<LocalNotice> signal_notice() const;

  const std::vector<int> signals_;
  const std::chrono::milliseconds signal_grace_;
  const std::chrono::milliseconds grace_;
  const std::chrono::milliseconds poll_interval_;
  std::vector<std::unique_ptr<Poller>> pollers_;
};

/// The earliest of @p notices with the earliest of their deadlines, as described at `current`. Pure.
std::optional<LocalNotice> merged(const std::vector<LocalNotice>& notices);

}  // namespace reprieve::termination
