// SPDX-License-Identifier: BSD-3-Clause
#include "core/event_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "core/directory.hpp"
#include "core/event_reader.hpp"
#include "core/interrupted.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {
namespace {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string error_text() { return std::generic_category().message(errno); }

bool lacks_its_end(int descriptor) {
  struct stat status {};
  char last = '\n';
  return fstat(descriptor, &status) == 0 && status.st_size > 0 &&
         pread(descriptor, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

/// A line that another process is writing in this moment looks cut as well, so it is looked at once more, later. Should
/// it be taken for cut all the same, the log gets an empty line, which readers pass over.
bool ends_inside_a_line(int descriptor) {
  if (!lacks_its_end(descriptor)) {
    return false;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return lacks_its_end(descriptor);
}

}  // namespace

EventLog::EventLog(const std::filesystem::path& file) : file_(file) {
  try {
    const Directory directory = Directory::open(file.has_parent_path() ? file.parent_path() : ".");
    descriptor_ =
        directory.open_file(file.filename().string(), O_RDWR | O_APPEND | O_CREAT, directory.file_mode()).release();
  } catch (const StorageError& error) {
    report_failure(error.what());
    return;
  }
  torn_ = ends_inside_a_line(descriptor_);
}

EventLog::~EventLog() {
  if (descriptor_ >= 0 && ::close(descriptor_) != 0) {
    report_failure(error_text());
  }
}

EventLog::EventLog(EventLog&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      failed_(other.failed_),
      torn_(other.torn_),
      file_(std::move(other.file_)) {}

EventLog& EventLog::operator=(EventLog&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(failed_, other.failed_);
  std::swap(torn_, other.torn_);
  std::swap(file_, other.file_);
  return *this;
}

void EventLog::record(const std::string& event, const nlohmann::json& fields) {
  if (descriptor_ < 0) {
    return;
  }
  nlohmann::ordered_json line{
      {"event", event}, {"time", event_time(std::chrono::system_clock::now())}, {"monotonic_s", monotonic_seconds()}};
  for (const auto& [key, value] : fields.items()) {
    line[key] = value;
  }
  // Text from signals, host names and exceptions may not be UTF-8; a replacement character is better than no event.
  const std::string text =
      (torn_ ? "\n" : "") + line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  const ssize_t written = uninterrupted([&] { return ::write(descriptor_, text.data(), text.size()); });
  if (written < 0) {
    report_failure(error_text());
    return;
  }
  torn_ = static_cast<std::size_t>(written) != text.size();
  if (torn_) {
    report_failure(fmt::format("only {} of {} bytes were written", written, text.size()));
  }
}

void EventLog::report_failure(const std::string& problem) {
  if (!failed_) {
    log::warning("event log {}: {}; events may be missing", file_.string(), problem);
  }
  failed_ = true;
}

}  // namespace reprieve::core
