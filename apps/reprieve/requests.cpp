// SPDX-License-Identifier: BSD-3-Clause
// reprieve stop [DIR], reprieve save [DIR]

#include <algorithm>
#include <iostream>
#include <thread>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/events.hpp"
#include "core/log.hpp"
#include "core/run_record.hpp"
#include "files.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::tool::request_command {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kStopFooter =
    R"(Asks the run in DIR to save and to leave with its restart code, from any node that sees the directory, by the file
PREEMPT in it. The run looks for it every second (termination.poll_interval_ms), between two steps. The next launch
resumes there. A request is for the launch that is at work now: a later one is not stopped by it.

Examples:
  reprieve stop checkpoints
  reprieve stop checkpoints --wait        until it has left; prints the checkpoint

Exit codes: 0 asked, or with --wait saved, 1 the run ended without saving for it,)";

constexpr const char* kSaveFooter =
    R"(Asks the run in DIR for a checkpoint, from any node that sees the directory, by the file SAVE in it. The run looks for
it every second (termination.poll_interval_ms), saves between two steps, and continues.

Examples:
  reprieve save checkpoints
  reprieve save checkpoints --wait        until it has saved; prints the checkpoint

Exit codes: 0 asked, or with --wait saved, 1 the save failed, or the run ended without it,)";

constexpr std::chrono::milliseconds kLook{200};
/// What has not looked for the file by then does not look for it.
constexpr std::chrono::seconds kLongestAnswer{60};

struct Options {
  fs::path directory;
  bool wait = false;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directory, "Directory of checkpoints");
  command.add_flag("--wait", options.wait, "Wait until it has happened, and print the checkpoint");
}

/// What is asked for, and which event says that it has happened.
struct Request {
  const char* file;
  const char* what;
  bool stops;
};

/// What came of it.
struct Answer {
  bool is_good = false;
  std::string checkpoint;
  std::string text;
};

/// The answer in an event, if it is one.
struct AnswerIn {
  const Request& request;

  std::optional<Answer> operator()(const auto&) const { return std::nullopt; }
  std::optional<Answer> operator()(const events::SaveFinished& event) const {
    const bool is_it = !request.stops && event.reason && event.reason->kind == SaveReason::Kind::user;
    return is_it ? std::optional(Answer{true, event.file, "saved " + event.file}) : std::nullopt;
  }
  std::optional<Answer> operator()(const events::SaveFailed& event) const {
    return request.stops ? std::nullopt : std::optional(Answer{false, "", "not saved: " + event.message});
  }
  std::optional<Answer> operator()(const events::Exit& event) const {
    return Answer{true, event.checkpoint,
                  fmt::format("the run has saved {} and left with code {}", event.checkpoint, event.exit_code)};
  }
  std::optional<Answer> operator()(const events::Finished&) const {
    return Answer{request.stops, "", "the run has come to its end"};
  }
  std::optional<Answer> operator()(const events::Failed& event) const { return Answer{false, "", event.message}; }
};

std::optional<Answer> answer_in(core::LogFollower& log, const Request& request) {
  for (const core::LoggedEvent& logged : log.next()) {
    if (auto answer = std::visit(AnswerIn{request}, logged.event)) {
      return answer;
    }
  }
  return std::nullopt;
}

/// The request is taken back if nobody takes it.
void wait_until_taken(const fs::path& file, const core::Directory& directory) {
  for (const auto deadline = Clock::now() + kLongestAnswer; !is_gone(file);) {
    std::this_thread::sleep_for(kLook);
    if (Clock::now() >= deadline) {
      static_cast<void>(directory.remove_file(file.filename().string()));
      throw UsageError(
          fmt::format("the run has not looked for {} in {}, so the request is taken back: has the program a handler, "
                      "and is termination.preempt_file on?",
                      file.string(), core::duration_text(kLongestAnswer)));
    }
  }
}

Answer wait_for_answer(const Options& options, const Request& request, core::LogFollower& log) {
  for (int looks = 1;; ++looks) {
    if (auto answer = answer_in(log, request)) {
      return *answer;
    }
    constexpr int kLooksAtLock = 5;
    if (looks % kLooksAtLock == 0 && lock_if_free(options.directory)) {
      return answer_in(log, request)
          .value_or(Answer{false, "", "the run has ended and did not say that it saved; `reprieve log` shows more"});
    }
    std::this_thread::sleep_for(kLook);
  }
}

int ask(const Options& options, const Request& request) {
  require_directory(options.directory);
  if (lock_if_free(options.directory)) {
    throw MissingError(fmt::format(
        "no run uses {} now, so there is none to {}; where the file system has no locks between nodes, ask on the "
        "node of its rank 0",
        options.directory.string(), request.stops ? "stop" : "save"));
  }
  core::LogFollower log(options.directory / core::kEventLogName);
  static_cast<void>(log.next());  // what has happened already
  const core::Directory opened = core::Directory::open(options.directory);
  constexpr std::size_t kMostBytes = 4000;
  opened.write_text(request.file, core::kForLaunch + opened.read_text(core::kLockName, kMostBytes), opened.file_mode(),
                    false);
  Answer answer{true, "", fmt::format("the run was asked to {}", request.what)};
  if (options.wait) {
    wait_until_taken(options.directory / request.file, opened);
    answer = wait_for_answer(options, request, log);
  }
  print_answer(
      options.json,
      {{"directory", options.directory.string()},
       {"done", options.wait && answer.is_good},
       {"checkpoint", answer.checkpoint.empty() ? Json() : Json((options.directory / answer.checkpoint).string())},
       {"text", answer.text}},
      [&] { std::cout << printable(answer.text) << '\n'; });
  return answer.is_good ? kGood : kBad;
}

}  // namespace

void add(const Tool& tool) {
  add_command<Options>(tool, "save", "Ask a run for a checkpoint", kSaveFooter, define, [](const Options& options) {
    return ask(options, {core::kSaveFile, "save, and to continue", false});
  });
  add_command<Options>(tool, "stop", "Ask a run to save and to leave", kStopFooter, define, [](const Options& options) {
    return ask(options, {core::kPreemptFile, "save, and to leave with its restart code", true});
  });
}

}  // namespace reprieve::tool::request_command

// reprieve log [DIR]

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
  const auto file = options.directory / core::kEventLogName;
  if (!std::filesystem::exists(file)) {
    throw MissingError(core::escaped(options.directory.string()) +
                       " has no event log (events.jsonl): no run was ever here");
  }
  core::LogFollower log(file);
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

void add(const Tool& tool) { add_command(tool, "log", "What happened in a run, line by line", kFooter, define, run); }

}  // namespace reprieve::tool::log_command
