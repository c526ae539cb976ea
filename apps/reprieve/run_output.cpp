#include "run_output.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <iostream>
#include <set>

#include "text.hpp"

namespace reprieve::tool {

namespace {

/// Events that are shown even to those who want to see nothing.
bool matters(const std::string& name) {
  static const std::set<std::string> kNames{"warning", "give_up", "kill", "set_aside", "save_failed", "no_requeue"};
  return kNames.contains(name);
}

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return fmt::format("{:%H:%M:%S}", parts);
}

}  // namespace

RunOutput::RunOutput(Form form) : form_(form), terminal_(form == Form::text && ::isatty(STDERR_FILENO) == 1) {}

RunOutput::~RunOutput() {
  wipe();
  std::cerr << std::flush;
}

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
    std::cerr << line.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  } else {
    // One write, so that the lines of the ranks do not get in between.
    std::cerr << fmt::format("[reprieve {}] {}\n", clock_time(), printable(event.text)) << std::flush;
  }
}

void RunOutput::status(const std::string& text) {
  if (!terminal_) {
    return;
  }
  // The cursor goes back to the start of the line, so that a line of the program overwrites the status.
  std::cerr << fmt::format("\r[reprieve] {}\x1b[K\r", printable(text)) << std::flush;
  status_shown_ = true;
}

void RunOutput::wipe() {
  if (status_shown_) {
    std::cerr << "\r\x1b[K" << std::flush;
    status_shown_ = false;
  }
}

}  // namespace reprieve::tool
