// SPDX-License-Identifier: BSD-3-Clause
#include "termination/notice_sources.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "termination/metadata_source.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::termination {

namespace {

using std::chrono::milliseconds;

class FunctionSource : public PolledSource {
 public:
  explicit FunctionSource(WatcherFn function) : function_(std::move(function)) {}
  [[nodiscard]] std::string name() const override { return "watcher function"; }

  std::optional<Finding> ask(const std::stop_token& /*stop*/) override {
    const WatchResult result = function_();
    return result.notice ? std::optional(Finding{"", result.message, result.time_left}) : std::nullopt;
  }

 private:
  WatcherFn function_;
};

class FileSource : public PolledSource {
 public:
  explicit FileSource(std::filesystem::path file) : file_(std::move(file)) {}
  [[nodiscard]] std::string name() const override { return "file " + file_.filename().string(); }

  /// Left behind, the file would preempt the next start as well.
  std::optional<Finding> ask(const std::stop_token& /*stop*/) override {
    std::error_code error;
    if (!std::filesystem::exists(file_, error)) {
      return std::nullopt;
    }
    bool stays = false;
    try {
      const auto place = core::Directory::open(file_.has_parent_path() ? file_.parent_path() : ".");
      place.remove_file(file_.filename().string());
    } catch (const StorageError& problem) {
      stays = true;
      core::log::warning("{}; it will preempt the next start as well", problem.what());
    }
    return Finding{stays ? file_.string() : "", "somebody made " + file_.string()};
  }

 private:
  std::filesystem::path file_;
};

LocalNotice with_grace(LocalNotice notice, milliseconds grace) {
  if (!notice.deadline && grace.count() > 0) {
    notice.deadline = notice.time + grace;
  }
  return notice;
}

}  // namespace

NoticeSources::NoticeSources(const SourceSettings& settings)
    : signals_(settings.signals),
      signal_grace_(settings.signal_grace),
      grace_(settings.grace),
      poll_interval_(settings.poll_interval) {
  install_signal_handler(signals_);
  if (settings.watcher_fn) {
    add(std::make_unique<FunctionSource>(settings.watcher_fn));
  }
  if (settings.preempt_file) {
    add(std::make_unique<FileSource>(*settings.preempt_file));
  }
  if (settings.deadline) {
    add(make_deadline_source(*settings.deadline));
  }
  if (settings.metadata != MetadataServer::none) {
    add(make_metadata_source(settings.metadata, environment_variable));
  }
}

void NoticeSources::add(std::unique_ptr<PolledSource> source) {
  pollers_.push_back(std::make_unique<Poller>(std::move(source), poll_interval_));
}

std::optional<LocalNotice> NoticeSources::signal_notice() const {
  const auto signal = pending_signal(signals_);
  if (!signal) {
    return std::nullopt;
  }
  std::string message = "sent by the kernel";
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
  for (const auto& poller : pollers_) {
    if (auto notice = poller->notice()) {
      notices.push_back(with_grace(std::move(*notice), grace_));
    }
  }
  return merged(notices);
}

bool NoticeSources::any() const noexcept {
  return any_signal_pending(signals_) ||
         std::any_of(pollers_.begin(), pollers_.end(), [](const auto& poller) { return poller->any(); });
}

std::optional<std::string> NoticeSources::take_hint() {
  for (const auto& poller : pollers_) {
    if (auto hint = poller->take_hint()) {
      return hint;
    }
  }
  return std::nullopt;
}

void NoticeSources::saved() {
  for (const auto& poller : pollers_) {
    poller->saved();
  }
}

void NoticeSources::acknowledge() {
  acknowledge_signals(signals_);
  for (const auto& poller : pollers_) {
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
