// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/preemption_watcher.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "core/directory.hpp"
#include "core/events.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/threads.hpp"
#include "reprieve/error.hpp"
#include "termination/metadata_source.hpp"
#include "termination/notice_sources.hpp"
#include "termination/preemption_watcher.hpp"

namespace reprieve::termination {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

PreemptionMessage message_of(const events::Notice& notice, const std::string& time) {
  PreemptionMessage message{notice.rank, notice.host, notice.source, notice.message,
                            core::time_of_event(time).value_or(std::chrono::system_clock::now())};
  message.time -=
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::duration<double>(notice.age_s));
  return message;
}

Json read_json(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::pread(descriptor, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return Json::parse(text, nullptr, false);
}

/// NFS 4 gives an exclusive lock to those alone who may write.
core::Descriptor open_record(const fs::path& file) {
  try {
    return core::open_file_by_path(file, O_RDWR, 0, core::Links::refused);
  } catch (const StorageError& error) {
    if (error.code() != ErrorCode::permission) {
      throw;
    }
  }
  return core::open_file_by_path(file, O_RDONLY, 0, core::Links::refused);
}

}  // namespace

RunFollower::RunFollower(fs::path directory)
    : directory_(std::move(directory)), log_(directory_ / core::kEventLogName, true) {
  hold_record();
}

void RunFollower::hold_record() {
  try {
    record_ = open_record(directory_ / core::kWorkerRecordName);
    workers_ = core::workers_from_json(read_json(record_.get()));
  } catch (const StorageError&) {  // not there yet: the next call tries again
  }
}

std::optional<PreemptionMessage> RunFollower::next_notice() {
  try {
    for (const core::LoggedEvent& logged : log_.next()) {
      if (std::holds_alternative<events::Ready>(logged.event)) {
        hold_record();
      } else if (const auto* notice = std::get_if<events::Notice>(&logged.event)) {
        return message_of(*notice, logged.time);
      }
    }
  } catch (const StorageError&) {  // not there yet
  }
  return std::nullopt;
}

std::vector<std::string> RunFollower::living() {
  std::vector<std::string> names;
  std::vector<std::string> elsewhere;
  for (const core::Worker& worker : workers_) {
    const std::string name = fmt::format("rank {} (process {} on {})", worker.rank, worker.pid, worker.host);
    if (worker.host != core::host_name()) {
      elsewhere.push_back(name);
    } else if (worker.start != 0 && core::start_of_process(worker.pid) == worker.start) {
      names.push_back(name);
    }
  }
  if (!names.empty() || !record_.is_open()) {
    return names;
  }
  if (::flock(record_.get(), LOCK_EX | LOCK_NB) == 0) {
    static_cast<void>(::flock(record_.get(), LOCK_UN));
    return {};
  }
  if (errno != EWOULDBLOCK) {
    core::log::debug("{} has no locks: what lives on other nodes cannot be seen", directory_.string());
    return {};
  }
  return elsewhere.empty() ? std::vector<std::string>{"a process that one of the ranks started"} : elsewhere;
}

}  // namespace reprieve::termination

namespace reprieve {

namespace {

/// The interval between checks whether the processes have gone.
constexpr std::chrono::milliseconds kPollEvery{20};

}  // namespace

struct [[gnu::visibility("hidden")]] PreemptionWatcher::Impl {
  /// Reads what the run has written until now. The mutex is held.
  void catch_up() {
    if (follower && !message) {
      message = follower->next_notice();
    }
  }

  void follow(const std::stop_token& stop, std::chrono::milliseconds interval) {
    std::unique_lock lock(mutex);
    while (!stop.stop_requested() && !message) {
      catch_up();
      if (!message) {
        wake.wait_for(lock, stop, interval, [this] { return message.has_value(); });
      }
    }
    const auto found = message;
    lock.unlock();
    tell(found);
  }

  void listen(const std::stop_token& stop, termination::NoticeBoard& board, std::size_t seen) {
    const auto posted = board.wait_for_more(seen, stop);
    {
      const std::lock_guard lock(mutex);
      message = posted;
    }
    tell(posted);
  }

  void tell(const std::optional<PreemptionMessage>& found) const {
    if (!found || !callback) {
      return;
    }
    try {
      callback(*found);
    } catch (const std::exception& error) {
      core::log::error("the callback of a PreemptionWatcher failed: {}", error.what());
    } catch (...) {
      core::log::error("the callback of a PreemptionWatcher failed");
    }
  }

  [[nodiscard]] std::vector<std::string> living() {
    const std::lock_guard lock(mutex);
    catch_up();
    return follower->living();
  }

  Callback callback;
  PlatformInfo platform;
  std::mutex mutex;  ///< guards what follows
  std::condition_variable_any wake;
  std::unique_ptr<termination::RunFollower> follower;  ///< outside of a job
  std::optional<PreemptionMessage> message;
  std::jthread thread;  ///< last: it uses the rest
};

// The public constructor of a watcher inside of a job comes here from the handler's layer.
PreemptionWatcher::PreemptionWatcher(std::shared_ptr<termination::NoticeBoard> board, bool preempted,
                                     PlatformInfo platform, Callback callback)
    : impl_(std::make_unique<Impl>()) {
  impl_->callback = std::move(callback);
  impl_->platform = std::move(platform);
  const std::size_t seen = board->count() - (preempted ? 1 : 0);
  const core::SignalsBlocked blocked;
  impl_->thread = std::jthread(
      [impl = impl_.get(), board, seen](const std::stop_token& stop) { impl->listen(stop, *board, seen); });
}

PreemptionWatcher::PreemptionWatcher(std::filesystem::path checkpoint_directory, Callback callback,
                                     std::chrono::milliseconds poll_interval)
    : impl_(std::make_unique<Impl>()) {
  impl_->callback = std::move(callback);
  impl_->platform = detect_platform();
  impl_->follower = std::make_unique<termination::RunFollower>(std::move(checkpoint_directory));
  const core::SignalsBlocked blocked;
  impl_->thread = std::jthread(
      [impl = impl_.get(), poll_interval](const std::stop_token& stop) { impl->follow(stop, poll_interval); });
}

PreemptionWatcher::~PreemptionWatcher() = default;

std::optional<PreemptionMessage> PreemptionWatcher::preemption_message() const {
  const std::lock_guard lock(impl_->mutex);
  impl_->catch_up();
  if (impl_->message) {
    impl_->wake.notify_all();
  }
  return impl_->message;
}

const PlatformInfo& PreemptionWatcher::platform() const noexcept { return impl_->platform; }

void PreemptionWatcher::block_until_worker_exit(std::chrono::milliseconds limit) const {
  if (!impl_->follower) {
    return;
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<std::string> living;
  while (!(living = impl_->living()).empty()) {
    if (std::chrono::steady_clock::now() >= end) {
      throw UnresponsiveError(fmt::format("the processes of the run have not ended within {} s: {}",
                                          std::chrono::duration<double>(limit).count(), fmt::join(living, ", ")),
                              {});
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

}  // namespace reprieve
