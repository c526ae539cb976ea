// SPDX-License-Identifier: BSD-3-Clause
#include "core/events.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/strict_json.hpp"
#include "core/values.hpp"
#include "reprieve/error.hpp"

namespace reprieve {

const char* to_string(SaveReason::Kind kind) noexcept {
  static constexpr const char* kNames[] = {"user", "periodic", "preemption"};
  const auto number = static_cast<std::size_t>(kind);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

nlohmann::ordered_json json_of(const SaveReason& reason) {
  return {{"kind", to_string(reason.kind)},
          {"rank", reason.rank},
          {"host", reason.host},
          {"source", reason.source},
          {"message", reason.message}};
}

bool read(const nlohmann::json& json, SaveReason& reason) {
  if (!json.is_object()) {
    return false;
  }
  using Kind = SaveReason::Kind;
  using core::read_field;
  std::string kind;
  read_field(json, "kind", kind);
  reason.kind = kind == "preemption" ? Kind::preemption : kind == "periodic" ? Kind::periodic : Kind::user;
  read_field(json, "rank", reason.rank);
  read_field(json, "host", reason.host);
  read_field(json, "source", reason.source);
  read_field(json, "message", reason.message);
  return true;
}

}  // namespace reprieve

namespace reprieve::core {

namespace {

using Maker = Event (*)(const Json& line);

template <std::size_t... Places>
std::map<std::string, Maker> makers_of(std::index_sequence<Places...> /*places*/) {
  return {{std::variant_alternative_t<Places, Event>::kName, [](const Json& line) {
             std::variant_alternative_t<Places, Event> event;
             read(line, event);
             return Event(std::move(event));
           }}...};
}

}  // namespace

OrderedJson to_json(const LoggedEvent& logged) {
  return std::visit(
      [&](const auto& event) {
        OrderedJson json{{"event", event.kName}, {"time", logged.time}};
        json["monotonic_s"] = json_of(logged.monotonic_s);
        json.update(json_of(event));
        return json;
      },
      logged.event);
}

std::optional<LoggedEvent> event_from_json(const Json& line) {
  static const std::map<std::string, Maker> kMakers = makers_of(std::make_index_sequence<std::variant_size_v<Event>>());
  if (!line.is_object() || !line.contains("event")) {
    return std::nullopt;
  }
  std::string name;
  read_field(line, "event", name);
  const auto maker = kMakers.find(name);
  LoggedEvent logged{(maker == kMakers.end() ? kMakers.at("") : maker->second)(line), "", std::nullopt};
  read_field(line, "time", logged.time);
  read_field(line, "monotonic_s", logged.monotonic_s);
  return logged;
}

std::optional<LoggedEvent> event_from_text(const std::string& line) {
  return nested_too_deep(line) ? std::nullopt : event_from_json(Json::parse(line, nullptr, false));
}

events::Step step_of(const Event& event) {
  return std::visit(
      [](const auto& one) -> events::Step {
        if constexpr (requires { one.run_calls; }) {
          return one.run_calls;
        } else {
          return std::nullopt;
        }
      },
      event);
}

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

/// A line that another process is writing at this moment looks cut as well, so it is checked once more, later. If it
/// still looks cut, the log gets an empty line, which readers pass over.
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
    descriptor_ = directory.open_file(file.filename().string(), O_RDWR | O_APPEND | O_CREAT, directory.file_mode());
  } catch (const StorageError& error) {
    report_failure(error.what());
    return;
  }
  torn_ = ends_inside_a_line(descriptor_.get());
}

EventLog::~EventLog() {
  if (descriptor_.is_open() && ::close(descriptor_.release()) != 0) {
    report_failure(error_text());
  }
}

void EventLog::write(const Event& event) {
  if (!descriptor_.is_open()) {
    return;
  }
  const auto line = to_json({event, event_time(std::chrono::system_clock::now()), monotonic_seconds()});
  // Text from signals, host names and exceptions may not be UTF-8; a replacement character is better than no event.
  const std::string text =
      (torn_ ? "\n" : "") + line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  const ssize_t written = uninterrupted([&] { return ::write(descriptor_.get(), text.data(), text.size()); });
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

std::vector<LoggedEvent> read_events(const std::filesystem::path& file, std::size_t tail_bytes) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    return {};  // a pipe, or a device, would never end
  }
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) {
    return {};
  }
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(0, stream.tellg()));
  const std::size_t start = size > tail_bytes ? size - tail_bytes : 0;
  stream.seekg(static_cast<std::streamoff>(start));
  std::vector<LoggedEvent> events;
  std::string line;
  if (start > 0) {
    std::getline(stream, line);  // most likely the rest of a line
  }
  while (std::getline(stream, line)) {
    if (auto event = event_from_text(line)) {
      events.push_back(std::move(*event));
    }
  }
  return events;
}

LogFollower::LogFollower(std::filesystem::path file, bool from_end) : file_(std::move(file)) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file_, error);
  offset_ = from_end && !error ? size : 0;
}

std::vector<LoggedEvent> LogFollower::next() {
  std::ifstream stream(file_, std::ios::binary);
  if (!stream) {
    throw storage_error("read", file_, errno);
  }
  std::error_code error;
  if (std::filesystem::file_size(file_, error) < offset_ && !error) {
    offset_ = 0;
  }
  stream.seekg(static_cast<std::streamoff>(offset_));
  std::vector<LoggedEvent> events;
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    offset_ += line.size() + 1;
    if (auto event = event_from_text(line)) {
      events.push_back(std::move(*event));
    }
  }
  return events;
}

std::string event_time(std::chrono::system_clock::time_point time) {
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(microseconds / 1'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, microseconds % 1'000'000);
}

std::optional<std::chrono::system_clock::time_point> utc_time(const std::string& text, const char* format,
                                                              std::string_view end) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), format, &parts);
  if (rest != nullptr && *rest == '.') {
    rest += 1 + std::strspn(rest + 1, "0123456789");
  }
  return rest != nullptr && rest == end ? std::optional(wall_clock_time(timegm(&parts))) : std::nullopt;
}

std::optional<std::chrono::system_clock::time_point> time_of_event(const std::string& text) {
  return utc_time(text, "%Y-%m-%dT%H:%M:%S", "Z");
}

}  // namespace reprieve::core
