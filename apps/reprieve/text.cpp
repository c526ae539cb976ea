// SPDX-License-Identifier: BSD-3-Clause
#include "text.hpp"

#include <unistd.h>

#include <sstream>
#include <utility>

#include "core/events.hpp"
#include "core/process.hpp"

namespace reprieve::tool {

std::string human_age(std::chrono::system_clock::time_point time) {
  using std::chrono::seconds;
  const auto age = std::chrono::duration_cast<seconds>(std::chrono::system_clock::now() - time).count();
  if (age < 0) {
    return "in the future";
  }
  constexpr long kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (age < kMinute) {
    return fmt::format("{} s", age);
  }
  if (age < kHour) {
    return fmt::format("{} min", age / kMinute);
  }
  if (age < kDay) {
    return fmt::format("{} h {} min", age / kHour, age % kHour / kMinute);
  }
  return fmt::format("{} d {} h", age / kDay, age % kDay / kHour);
}

std::string utc_time(std::chrono::system_clock::time_point time) {
  constexpr std::size_t kToTheSecond = 19;
  return core::event_time(time).substr(0, kToTheSecond) + 'Z';
}

std::string reason_text(const SaveReason& reason) {
  std::string text = to_string(reason.kind);
  if (reason.kind == SaveReason::Kind::preemption) {
    text += fmt::format(": {} on rank {} ({})", reason.source, reason.rank, reason.host);
  }
  if (!reason.message.empty()) {
    text += ": " + reason.message;
  }
  return printable(text);
}

std::string printable(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (!result.empty()) {
      result += result.back() == ':' ? " " : "; ";
    }
    result += line;
  }
  return core::escaped(result);
}

std::string first_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() < text.size() && line.ends_with(':') ? line.substr(0, line.size() - 1) : line;
}

namespace {

/// Where the text of a line begins: behind the last wide gap of its left half, or where the line begins.
std::size_t text_column(const std::string& line, std::size_t width) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  const std::size_t column = gap == std::string::npos ? begin : line.find_first_not_of(' ', gap);
  return column != std::string::npos && column < width * 3 / 4 ? column : begin;
}

using Clock = std::chrono::steady_clock;
constexpr auto kDelay = std::chrono::milliseconds(500);
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr auto kLogInterval = std::chrono::seconds(10);
constexpr const char* kWipe = "\r\x1b[K";

bool& has_color() {
  static bool has = [] {
    const std::string unwanted = core::environment_variable("NO_COLOR").value_or("");
    return unwanted.empty() && ::isatty(STDOUT_FILENO) == 1 && core::environment_variable("TERM") != "dumb";
  }();
  return has;
}

using supervisor::Finding;

/// For lines on a terminal.
constexpr std::size_t kWidth = 110;

}  // namespace

std::string wrapped(const std::string& text, std::size_t width) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t column = text_column(line, width);
    while (line.size() > width) {
      const std::size_t space = line.rfind(' ', width);
      if (space == std::string::npos || space <= column) {
        break;  // one long word
      }
      result += line.substr(0, line.find_last_not_of(' ', space) + 1) + '\n';
      line = std::string(column, ' ') + line.substr(space + 1);
    }
    result += line + '\n';
  }
  return result;
}

Table table_of(const std::vector<std::string>& titles) {
  std::vector<Table::Column> columns;
  for (const std::string& title : titles) {
    const bool is_right = title.starts_with('>');
    columns.push_back({title.substr(is_right ? 1 : 0), is_right ? Table::Align::right : Table::Align::left});
  }
  return Table(columns);
}

Json to_json(const SaveReason& reason) {
  Json json{{"kind", to_string(reason.kind)}};
  if (reason.kind == SaveReason::Kind::preemption) {
    json["rank"] = reason.rank;
    json["host"] = reason.host;
    json["source"] = reason.source;
  }
  json["message"] = reason.message;
  return json;
}

void print_json(std::ostream& out, const Json& json, int indent) {
  Json answer = Json::object();
  answer["version"] = kJsonVersion;
  answer.update(json);
  out << answer.dump(indent, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string toned(Tone tone, const std::string& text) {
  return has_color() ? name_of(tone, {"\x1b[32m", "\x1b[33m", "\x1b[1;31m"}) + text + "\x1b[0m" : text;
}

void set_color(bool always, bool never) { has_color() = always || (!never && has_color()); }

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()),
      next_(begin_ + (terminal_ ? Clock::duration(kDelay) : kLogInterval)) {}

Progress::~Progress() {
  if (shown_) {
    std::cerr << kWipe << std::flush;
  }
}

void Progress::update(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  const auto now = Clock::now();
  if (total_bytes == 0 || now < next_) {
    return;
  }
  const std::string text = label_ + ": " + core::transfer_text(done_bytes, total_bytes, now - begin_);
  if (terminal_) {
    std::cerr << kWipe << text << std::flush;
    shown_ = true;
    next_ = now + kInterval;
  } else {
    std::cerr << text << std::endl;
    next_ = now + kLogInterval;
  }
}

void print_findings(std::ostream& out, const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    const Tone tone = finding.grade == Finding::Grade::good      ? Tone::good
                      : finding.grade == Finding::Grade::problem ? Tone::bad
                                                                 : Tone::warning;
    const std::string mark = name_of(finding.grade, {"ok     ", "look at", "PROBLEM", "unknown"});
    const std::string lines = wrapped(mark + "  " + printable(finding.text), kWidth);
    out << toned(tone, mark) << lines.substr(mark.size());
    if (!finding.advice.empty()) {
      out << wrapped("         -> " + printable(finding.advice), kWidth);
    }
  }
}

Json to_json(const std::vector<Finding>& findings) {
  return list_json(findings, [](const Finding& finding) -> Json {
    return {{"grade", name_of(finding.grade, {"good", "warning", "problem", "unknown"})},
            {"id", finding.id},
            {"text", finding.text},
            {"advice", finding.advice}};
  });
}

}  // namespace reprieve::tool
