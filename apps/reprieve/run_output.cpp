// SPDX-License-Identifier: BSD-3-Clause
#include "run_output.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <ctime>
#include <set>

#include "text.hpp"

namespace reprieve::tool {

namespace {

/// Events that are shown even to those who want to see nothing.
bool matters(const std::string& name) {
  static const std::set<std::string> kNames{"warning",   "give_up",     "fallback",   "kill",
                                            "set_aside", "save_failed", "no_requeue", "near_drain"};
  return kNames.contains(name);
}

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return fmt::format("{:%H:%M:%S}", parts);
}

/// One write, so that the lines of the ranks do not get in between; none if it could block, since a stopped terminal or
/// a reader that does not read must not keep the supervisor from its signals.
void write_if_possible(const std::string& text) {
  pollfd entry{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&entry, 1, 0) != 1 || (entry.revents & POLLOUT) == 0) {
    return;
  }
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) {
    return;  // nobody reads it: there is nowhere to say so
  }
}

}  // namespace

RunOutput::RunOutput(Form form) : form_(form), terminal_(form == Form::text && ::isatty(STDERR_FILENO) == 1) {}

RunOutput::~RunOutput() { wipe(); }

void RunOutput::event(const supervisor::SupervisorEvent& event) {
  if (form_ == Form::quiet && !matters(event.name)) {
    return;
  }
  wipe();
  if (form_ == Form::json) {
    Json line{{"event", event.name}};
    line["wall_clock_s"] = static_cast<std::int64_t>(std::time(nullptr));
    line["text"] = event.text;
    for (const auto& [key, value] : event.fields.items()) {
      line[key] = value;
    }
    write_if_possible(line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
  } else {
    write_if_possible(fmt::format("[reprieve {}] {}\n", clock_time(), printable(first_line(event.text))));
  }
}

void RunOutput::status(const std::string& text) {
  if (!terminal_) {
    return;
  }
  // The cursor goes back to the start of the line, so that a line of the program overwrites the status.
  write_if_possible(fmt::format("\r[reprieve] {}\x1b[K\r", printable(text)));
  status_shown_ = true;
}

void RunOutput::wipe() {
  if (status_shown_) {
    write_if_possible("\r\x1b[K");
    status_shown_ = false;
  }
}

}  // namespace reprieve::tool
