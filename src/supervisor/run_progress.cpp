// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/run_progress.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "termination/platform_traits.hpp"

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

}  // namespace reprieve::supervisor
