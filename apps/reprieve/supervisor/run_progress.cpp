// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/run_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "core/log.hpp"
#include "termination/platform.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::supervisor {

namespace {

using Json = nlohmann::json;
using Stage = ChiefProgress::Stage;

/// The member's value, or nothing if there is none of that type: records may come from another version of the library.
template <class T>
std::optional<T> get(const Json& event, const char* key) {
  const auto member = event.find(key);
  constexpr bool is_count = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  if (member == event.end() || (is_count && !member->is_number_integer())) {
    return std::nullopt;
  }
  try {
    return member->get<T>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string text(const Json& event, const char* key) { return get<std::string>(event, key).value_or(""); }

void on_start(ChiefProgress& chief, const Json& event) {
  const auto newest = chief.newest;
  const auto newest_step = chief.newest_step;
  chief = {};
  chief.newest = newest;
  chief.newest_step = newest_step;
  chief.started = text(event, "time");
  chief.directory = text(event, "directory");
  chief.near_directory = text(event, "near_directory");
  chief.host = text(event, "host");
  chief.pid = get<int>(event, "pid").value_or(0);
  chief.world_size = get<int>(event, "world_size").value_or(0);
}

void on_handler(ChiefProgress& chief, const Json&) {
  chief.has_handler = true;
  chief.stage = Stage::starting;
}

/// A program that goes back to a checkpoint in the middle of its work watches its signals as before.
bool is_at_work(const ChiefProgress& chief) { return chief.stage == Stage::running; }

void on_restore_started(ChiefProgress& chief, const Json& event) {
  if (!is_at_work(chief)) {
    chief.stage = Stage::restoring;
    chief.restoring = chief.directory / text(event, "file");
    chief.error.reset();
  }
}

void on_restore(ChiefProgress& chief, const Json& event) {
  if (!is_at_work(chief)) {
    chief.stage = chief.has_handler ? Stage::starting : Stage::opened;
  }
  chief.uncaught.reset();
  chief.restored = get<std::uint64_t>(event, "number");
  chief.restored_step = get<std::uint64_t>(event, "run_calls");
}

void on_ready(ChiefProgress& chief, const Json& event) {
  chief.has_handler = true;
  chief.stage = Stage::running;
  chief.signals = get<std::vector<std::string>>(event, "signals").value_or(std::vector<std::string>{});
  chief.restart_code = get<int>(event, "restart_code").value_or(0);
}

void on_save_finished(ChiefProgress& chief, const Json& event) {
  chief.uncaught.reset();
  if (const auto number = get<std::uint64_t>(event, "number")) {
    chief.newest = *number;
    chief.newest_step = get<std::uint64_t>(event, "run_calls");
  }
}

void on_exit(ChiefProgress& chief, const Json& event) {
  chief.stage = Stage::saved;
  chief.leaving = false;
  chief.saved = SavedExit{text(event, "checkpoint"), get<int>(event, "exit_code").value_or(0),
                          get<double>(event, "seconds_from_notice").value_or(0)};
}

void on_notice(ChiefProgress& chief, const Json&) {
  chief.noticed = true;
  chief.leaving = true;
}

void on_went_on(ChiefProgress& chief, const Json&) {
  chief.stage = Stage::running;
  chief.leaving = false;
}

void on_finished(ChiefProgress& chief, const Json&) {
  chief.stage = Stage::finished;
  chief.leaving = false;
}

/// The program says so in its own way, by an error for one: that is no failure.
void on_already_finished(ChiefProgress& chief, const Json& event) {
  if (get<bool>(event, "refused").value_or(false)) {
    chief.already_finished = get<std::uint64_t>(event, "run_calls");
    chief.stage = Stage::finished;
  }
}

RunError error_of(const Json& event) { return {text(event, "error"), text(event, "message")}; }

void on_failure(ChiefProgress& chief, const Json& event) {
  chief.stage = Stage::failed;
  chief.error = error_of(event);
}

/// The program may try again.
void on_open_failed(ChiefProgress& chief, const Json& event) {
  chief.directory = text(event, "directory");
  on_failure(chief, event);
}

/// One at work may catch the error.
void on_restore_failed(ChiefProgress& chief, const Json& event) {
  if (is_at_work(chief)) {
    chief.uncaught = error_of(event);
  } else {
    on_failure(chief, event);
  }
}

using Reaction = std::function<void(ChiefProgress&, const Json&)>;

const std::map<std::string, Reaction>& reactions() {
  static const std::map<std::string, Reaction> table{
      {"start", on_start},
      {"handler", on_handler},
      {"restore_started", on_restore_started},
      {"restore", on_restore},
      {"open_failed", on_open_failed},
      {"restore_failed", on_restore_failed},
      {"ready", on_ready},
      {"save_finished", on_save_finished},
      {"notice", on_notice},
      {"exit", on_exit},
      {"went_on", on_went_on},
      {"error", on_failure},
      {"finished", on_finished},
      {"already_finished", on_already_finished},
  };
  return table;
}

bool is_starting(const ChiefProgress& chief) {
  return chief.stage == Stage::starting || chief.stage == Stage::restoring;
}

/// A manager without a handler neither hears of notices nor says how it ended.
bool counts(const ChiefProgress& chief) { return chief.stage != Stage::opened; }

bool has_ended(const ChiefProgress& chief) {
  return chief.stage == Stage::saved || chief.stage == Stage::failed || chief.stage == Stage::finished;
}

}  // namespace

void ChiefProgress::take(const Json& event) {
  const auto reaction = reactions().find(text(event, "event"));
  if (reaction == reactions().end()) {
    return;
  }
  reaction->second(*this, event);
  run_calls = get<std::uint64_t>(event, "run_calls").value_or(run_calls);
}

bool RunProgress::ready() const {
  return has_handler() &&
         std::none_of(chiefs_.begin(), chiefs_.end(), [](const auto& entry) { return is_starting(entry.second); });
}

bool RunProgress::has_handler() const {
  return std::any_of(chiefs_.begin(), chiefs_.end(), [](const auto& entry) { return counts(entry.second); });
}

bool RunProgress::notice_arrived() const {
  return has_handler() && std::all_of(chiefs_.begin(), chiefs_.end(), [](const auto& entry) {
           return entry.second.noticed || has_ended(entry.second) || !counts(entry.second);
         });
}

std::vector<const ChiefProgress*> RunProgress::current() const {
  std::vector<const ChiefProgress*> found;
  for (const auto& [record, chief] : chiefs_) {
    const bool superseded = std::any_of(chiefs_.begin(), chiefs_.end(), [&, one = &chief](const auto& other) {
      return other.second.directory == one->directory && other.second.started > one->started;
    });
    if (!superseded) {
      found.push_back(&chief);
    }
  }
  // What a manager without a handler could not do does not count where a handler came to its end in spite of it.
  const auto came_to_end = [](const ChiefProgress* chief) {
    return chief->has_handler && (chief->stage == Stage::saved || chief->stage == Stage::finished);
  };
  if (std::any_of(found.begin(), found.end(), came_to_end)) {
    std::erase_if(found,
                  [](const ChiefProgress* chief) { return chief->stage == Stage::failed && !chief->has_handler; });
  }
  return found;
}

const SavedExit* RunProgress::saved() const {
  const SavedExit* saved = nullptr;
  for (const ChiefProgress* chief : current()) {
    if (chief->stage == Stage::saved) {
      saved = &*chief->saved;
    } else if (chief->stage != Stage::finished && counts(*chief)) {
      return nullptr;
    }
  }
  return saved;
}

std::optional<std::uint64_t> RunProgress::already_finished() const {
  std::optional<std::uint64_t> steps;
  for (const auto& [record, chief] : chiefs_) {
    if (!counts(chief)) {
      continue;
    }
    if (!chief.already_finished || chief.stage != Stage::finished) {
      return std::nullopt;
    }
    steps = std::max(steps, chief.already_finished);
  }
  return steps;
}

const RunError* RunProgress::error() const {
  for (const ChiefProgress* chief : current()) {
    if (chief->stage == Stage::failed) {
      return &*chief->error;
    }
  }
  return nullptr;
}

const RunError* RunProgress::uncaught() const {
  for (const ChiefProgress* chief : current()) {
    if (is_at_work(*chief) && chief->uncaught) {
      return &*chief->uncaught;
    }
  }
  return nullptr;
}

std::optional<std::filesystem::path> RunProgress::restoring() const {
  for (const ChiefProgress* chief : current()) {
    if (chief->stage == Stage::restoring) {
      return chief->restoring;
    }
  }
  return std::nullopt;
}

bool RunProgress::cut_short() const {
  const auto chiefs = current();
  return std::any_of(chiefs.begin(), chiefs.end(), [](const ChiefProgress* chief) {
    return chief->stage == Stage::restoring || chief->stage == Stage::saved || chief->leaving;
  });
}

bool RunProgress::leaves_work() const { return unfinished() || cut_short() || error() != nullptr; }

std::optional<std::filesystem::path> RunProgress::unfinished() const {
  for (const ChiefProgress* chief : current()) {
    if (chief->stage == Stage::running) {
      return chief->directory;
    }
  }
  return std::nullopt;
}

bool RunProgress::progressed() const {
  return std::any_of(chiefs_.begin(), chiefs_.end(), [](const auto& entry) {
    const ChiefProgress& chief = entry.second;
    const bool further = chief.newest_step && chief.restored_step && *chief.newest_step > *chief.restored_step;
    return chief.newest && (!chief.restored || *chief.newest != *chief.restored || further);
  });
}

int RunProgress::restart_code() const {
  for (const auto& [record, chief] : chiefs_) {
    if (chief.restart_code != 0) {
      return chief.restart_code;
    }
  }
  return termination::kRestartCode;
}

std::vector<std::filesystem::path> RunProgress::directories() const {
  std::vector<std::filesystem::path> found;
  for (const auto& [record, chief] : chiefs_) {
    if (!chief.directory.empty() && std::find(found.begin(), found.end(), chief.directory) == found.end()) {
      found.push_back(chief.directory);
    }
  }
  return found;
}

namespace {

/// Codes of errors that lie in the program, its settings or its directory, not in the run.
bool is_hopeless(const std::string& error_code) {
  static const std::set<std::string> kCodes{"config", "usage", "mismatch", "corrupt"};
  return kCodes.contains(error_code);
}

/// That of the ranks; or, of a program that ended badly, the last that it met.
const RunError* error_in(const RunProgress& progress, int launcher_code) {
  const RunError* const error = progress.error();
  return error == nullptr && launcher_code != 0 ? progress.uncaught() : error;
}

std::string failure_text(const RunProgress& progress, int launcher_code) {
  if (const RunError* error = error_in(progress, launcher_code)) {
    return error->message;
  }
  std::string text = fmt::format("the launcher ended with {}", code_text(launcher_code));
  if (progress.chiefs().empty()) {
    return text + ", and no rank has opened a checkpoint directory";
  }
  if (const auto file = progress.restoring()) {
    return text + ", while the ranks were reading " + file->filename().string();
  }
  if (const auto directory = progress.unfinished(); directory && launcher_code == 0) {
    return text + fmt::format(
                      ", but the run in {} did not come to its end: its handler was never closed. A script returns "
                      "the code of its last command (set -o pipefail helps), and a program has to close its "
                      "handler before it ends",
                      directory->string());
  }
  return text + ", and the run did not say that it saved or finished";
}

/// What is known of a program that ended with 0.
std::string end_text(const RunProgress& progress) {
  const auto& chiefs = progress.chiefs();
  if (chiefs.empty()) {
    return "the program ended with 0; it opened no checkpoint directory, so there is no more to go by";
  }
  const bool has_handler = std::any_of(chiefs.begin(), chiefs.end(), [](const auto& entry) {
    return entry.second.stage == ChiefProgress::Stage::finished;
  });
  return has_handler ? "the program came to its end"
                     : "the program ended with 0; it made no handler, so there is no more to go by";
}

}  // namespace

std::string code_text(int shell_code) {
  constexpr int kSignalled = 128;
  constexpr int kLastSignal = 64;
  if (shell_code > kSignalled && shell_code <= kSignalled + kLastSignal) {
    return fmt::format("signal {} ({})", termination::signal_name(shell_code - kSignalled), shell_code);
  }
  return fmt::format("exit code {}", shell_code);
}

Verdict judge(const RunProgress& progress, int launcher_code) {
  Verdict verdict;
  verdict.progressed = progress.progressed();
  if (const SavedExit* saved = progress.saved()) {
    verdict.end = Verdict::End::saved;
    verdict.exit_code = saved->exit_code;
    verdict.reason = fmt::format("the state is in {}", saved->checkpoint.string());
    return verdict;
  }
  if (const auto step = progress.already_finished(); step && progress.error() == nullptr) {
    verdict.end = Verdict::End::finished;
    verdict.exit_code = 0;
    verdict.reason = fmt::format("it is already finished, at step {}: there was nothing to do", *step);
    return verdict;
  }
  if (launcher_code == 0 && progress.error() == nullptr && !progress.cut_short() && !progress.unfinished()) {
    verdict.end = Verdict::End::finished;
    verdict.exit_code = 0;
    verdict.reason = end_text(progress);
    return verdict;
  }
  const bool misleading = launcher_code == 0 || launcher_code == progress.restart_code();
  verdict.exit_code = misleading ? 1 : launcher_code;
  verdict.reason = failure_text(progress, launcher_code);
  if (const RunError* error = error_in(progress, launcher_code)) {
    verdict.hopeless = is_hopeless(error->code);
  } else {
    verdict.died_restoring = progress.restoring();
  }
  return verdict;
}

namespace {

/// The value of a member as text, whatever its type; "?" if it is missing.
std::string show(const Json& event, const char* key) {
  const auto member = event.find(key);
  if (member == event.end()) {
    return "?";
  }
  return member->is_string() ? member->get<std::string>() : member->dump();
}

std::string seconds(const Json& event, const char* key) {
  const auto member = event.find(key);
  return member != event.end() && member->is_number()
             ? core::seconds_text(std::chrono::duration<double>(member->get<double>()))
             : "? s";
}

using Wording = std::function<std::string(const Json&)>;

const std::map<std::string, Wording>& words() {
  static const std::map<std::string, Wording> table{
      {"restore",
       [](const Json& e) {
         const std::string file = show(e, "file");
         return fmt::format("restored {} (step {}) in {}", file.ends_with(".part") ? "a near copy" : file,
                            show(e, "run_calls"), seconds(e, "seconds"));
       }},
      {"drained",
       [](const Json& e) {
         return fmt::format("made checkpoint {} of a near copy in {}", show(e, "number"), seconds(e, "seconds"));
       }},
      {"fallback",
       [](const Json& e) {
         return fmt::format("WORK IS LOST: {} is damaged, the run goes on from {} (step {}){}", show(e, "instead_of"),
                            show(e, "file"), show(e, "run_calls"),
                            e.contains("steps_lost") ? ", " + show(e, "steps_lost") + " steps before" : "");
       }},
      {"restore_failed",
       [](const Json& e) { return fmt::format("cannot restore {}: {}", show(e, "file"), show(e, "message")); }},
      {"ready", [](const Json& e) { return fmt::format("the ranks are ready, at step {}", show(e, "run_calls")); }},
      {"agreement",
       [](const Json& e) {
         return fmt::format("the notice arrived: all ranks agreed on step {}", show(e, "run_calls"));
       }},
      {"save_finished",
       [](const Json& e) {
         return fmt::format("saved {} (step {}) in {}", show(e, "file"), show(e, "run_calls"), seconds(e, "seconds"));
       }},
      {"save_failed",
       [](const Json& e) {
         return fmt::format("checkpoint {} was NOT saved: {}", show(e, "number"), show(e, "message"));
       }},
      {"train_on",
       [](const Json& e) {
         return fmt::format("going on, {} are left: another save before the end", seconds(e, "time_left_s"));
       }},
      {"exit",
       [](const Json& e) {
         return fmt::format("the ranks leave with code {}, {} after the notice", show(e, "exit_code"),
                            seconds(e, "seconds_from_notice"));
       }},
      {"went_on", [](const Json&) { return std::string("the program goes on after the notice"); }},
      {"error", [](const Json& e) { return fmt::format("error: {}", show(e, "message")); }},
      {"already_finished",
       [](const Json& e) { return fmt::format("the run is already finished, at step {}", show(e, "run_calls")); }},
      {"finished", [](const Json& e) { return fmt::format("the steps are done: {}", show(e, "run_calls")); }},
  };
  return table;
}

}  // namespace

std::optional<SupervisorEvent> describe(const Json& recorded) {
  const std::string name = show(recorded, "event");
  const auto entry = words().find(name);
  if (entry == words().end()) {
    return std::nullopt;
  }
  Json fields = recorded;
  fields.erase("event");
  return SupervisorEvent{name, entry->second(recorded), std::move(fields)};
}

}  // namespace reprieve::supervisor
