#include "core/event_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/file_rights.hpp"
#include "core/interrupted.hpp"
#include "core/log.hpp"

namespace reprieve::core {
namespace {

std::string utc_now() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
  const auto seconds = static_cast<std::time_t>(microseconds / 1'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, microseconds % 1'000'000);
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string error_text() { return std::generic_category().message(errno); }

bool ends_inside_a_line(int descriptor) {
  struct stat status {};
  char last = '\n';
  return fstat(descriptor, &status) == 0 && status.st_size > 0 &&
         pread(descriptor, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

}  // namespace

EventLog::EventLog(const std::filesystem::path& file) : file_(file) {
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const mode_t mode = file_mode_in(file.parent_path());
  descriptor_ = uninterrupted([&] { return ::open(file.c_str(), kFlags, mode); });
  if (descriptor_ < 0) {
    report_failure(error_text());
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
  nlohmann::ordered_json line{{"event", event}, {"time", utc_now()}, {"monotonic_s", monotonic_seconds()}};
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
