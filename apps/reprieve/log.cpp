// SPDX-License-Identifier: BSD-3-Clause
// reprieve log [DIR]

#include "core/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

#include "command.hpp"
#include "files.hpp"
#include "reprieve/error.hpp"
#include "supervisor/run_progress.hpp"
#include "text.hpp"

namespace reprieve::tool::log_command {

namespace {

constexpr const char* kFooter =
    R"(Prints what happened in DIR, a line for each event: the time (UTC), the step, and what it was. Node-local copies and the
progress between two saves are left out.

Examples:
  reprieve log checkpoints
  reprieve log checkpoints --last 20
  reprieve log checkpoints --follow               and what happens from now on, until interrupted
  reprieve log checkpoints --json | jq 'select(.event == "save_finished") | .seconds'    all events, one on a line

Exit codes: 0 printed,)";

struct Options {
  std::filesystem::path directory;
  std::uint64_t last = 0;
  bool follow = false;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directory, "Directory of checkpoints");
  command.add_option("--last", options.last, "Begin with the last N events only")
      ->check(not_negative())
      ->type_name("N");
  command.add_flag("--follow", options.follow, "Print what happens from now on, too");
  add_json(command, options.json);
}

/// The words of `reprieve run`, and for some events that it has no use for.
struct Words {
  const core::LoggedEvent& logged;

  std::string operator()(const auto&) const {
    const auto event = supervisor::describe(logged);
    return event ? event->text : "";
  }
  std::string operator()(const events::Start& event) const {
    return fmt::format("start {} on {}, {} (process {})", event.run, event.host,
                       count_text(static_cast<std::uint64_t>(event.world_size), "rank"), event.pid);
  }
  std::string operator()(const events::Notice& event) const {
    return fmt::format("notice on rank {} ({}): {}{}", event.rank, event.host, event.source,
                       event.message.empty() ? "" : ", " + event.message);
  }
  std::string operator()(const events::SaveStarted& event) const {
    return fmt::format("saving checkpoint {}{}", event.number, event.reason ? ": " + reason_text(*event.reason) : "");
  }
  std::string operator()(const events::PassedOver& event) const {
    return fmt::format("{} is corrupt and passed over: {}", event.file, event.reason);
  }
  std::string operator()(const events::Retired& event) const {
    return fmt::format("removed checkpoint {}", event.number);
  }
};

void print(const core::LoggedEvent& logged, bool json) {
  if (json) {
    std::cout << to_json(logged).dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    return;
  }
  const std::string words = std::visit(Words{logged}, logged.event);
  if (!words.empty()) {
    const auto step = core::step_of(logged.event);
    const auto time = core::time_of_event(logged.time);
    std::cout << fmt::format("{}  {:>8}  {}\n", time ? utc_time(*time) : "?", step ? std::to_string(*step) : "-",
                             printable(words));
  }
}

int run(const Options& options) {
  constexpr std::chrono::milliseconds kLook{500};
  require_directory(options.directory);
  if (!std::filesystem::exists(options.directory / manager::kEventLogName)) {
    throw MissingError(core::escaped(options.directory.string()) +
                       " has no event log (events.jsonl): no run was ever here");
  }
  LogFollower log(options.directory);
  auto events = log.next();
  const std::uint64_t shown = options.last == 0 ? events.size() : std::min<std::uint64_t>(options.last, events.size());
  events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(shown));
  for (;;) {
    for (const core::LoggedEvent& event : events) {
      print(event, options.json);
    }
    if (!options.follow) {
      return kGood;
    }
    if (!std::cout.flush()) {
      throw StorageError(ErrorCode::io, "cannot write to standard output");
    }
    std::this_thread::sleep_for(kLook);
    events = log.next();
  }
}

}  // namespace

void add(const Tool& tool) {
  add_command<Options>(tool, "log", "What happened in a run, line by line", kFooter, define, run);
}

}  // namespace reprieve::tool::log_command
