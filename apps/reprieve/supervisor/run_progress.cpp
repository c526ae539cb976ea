// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/run_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/log.hpp"
#include "core/values.hpp"
#include "reprieve/error.hpp"
#include "termination/platform.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::supervisor {

namespace {

using Stage = ManagerProgress::Stage;

/// A program that goes back to a checkpoint in the middle of its work watches its signals as before.
bool is_at_work(const ManagerProgress& manager) { return manager.stage == Stage::running; }

/// What an event changes.
struct Reaction {
  ManagerProgress& manager;
  const std::string& time;

  void operator()(const auto&) const {}
  void operator()(const events::Start& event) const {
    ManagerProgress next;
    next.newest = manager.newest;
    next.started = time;
    next.directory = event.directory;
    next.start = event;
    manager = std::move(next);
  }
  void operator()(const events::HandlerBegun&) const {
    manager.has_handler = true;
    manager.stage = Stage::starting;
  }
  void operator()(const events::RestoreStarted& event) const {
    if (!is_at_work(manager)) {
      manager.stage = Stage::restoring;
      manager.restoring = manager.directory / event.file;
      manager.error.reset();
    }
  }
  void operator()(const events::Restored& event) const {
    if (!is_at_work(manager)) {
      manager.stage = manager.has_handler ? Stage::starting : Stage::opened;
    }
    manager.uncaught.reset();
    manager.restored = event;
  }
  void operator()(const events::Ready& event) const {
    manager.has_handler = true;
    manager.stage = Stage::running;
    manager.ready = event;
  }
  void operator()(const events::SaveFinished& event) const {
    manager.uncaught.reset();
    manager.newest = event;
  }
  void operator()(const events::Exit& event) const {
    manager.stage = Stage::saved;
    manager.leaving = false;
    manager.saved = event;
  }
  void operator()(const events::Notice&) const { manager.noticed = manager.leaving = true; }
  void operator()(const events::WentOn&) const {
    manager.stage = Stage::running;
    manager.leaving = false;
  }
  void operator()(const events::Finished&) const {
    manager.stage = Stage::finished;
    manager.leaving = false;
  }
  void operator()(const events::Failed& event) const { fail(event); }
  /// The program may try again.
  void operator()(const events::OpenFailed& event) const {
    manager.directory = event.directory;
    fail(failure_of(event));
  }
  /// One at work may catch the error.
  void operator()(const events::RestoreFailed& event) const {
    if (is_at_work(manager)) {
      manager.uncaught = failure_of(event);
    } else {
      fail(failure_of(event));
    }
  }
  static events::Failed failure_of(const auto& event) { return {.error = event.error, .message = event.message}; }
  void fail(const events::Failed& error) const {
    manager.stage = Stage::failed;
    manager.error = error;
  }
};

bool is_starting(const ManagerProgress& manager) {
  return manager.stage == Stage::starting || manager.stage == Stage::restoring;
}

/// A manager without a handler neither gets notices nor says how it ended.
bool counts(const ManagerProgress& manager) { return manager.stage != Stage::opened; }

bool has_ended(const ManagerProgress& manager) {
  return manager.stage == Stage::saved || manager.stage == Stage::failed || manager.stage == Stage::finished;
}

/// Codes of errors that lie in the program, its settings or its directory, not in the run.
const std::set<std::string> kHopeless{"config", "usage", "mismatch", "corrupt"};

/// That of the ranks; or, of a program that ended badly, the last that it met.
const events::Failed* error_in(const RunProgress& progress, int launcher_code) {
  const events::Failed* const error = progress.error();
  return error == nullptr && launcher_code != 0 ? progress.uncaught() : error;
}

std::string failure_text(const RunProgress& progress, int launcher_code) {
  if (const events::Failed* error = error_in(progress, launcher_code)) {
    return error->message;
  }
  std::string text = fmt::format("the launcher ended with {}", code_text(launcher_code));
  if (progress.managers().empty()) {
    return text + ", and no rank has opened a checkpoint directory";
  }
  if (const auto file = progress.restoring()) {
    return text + ", while the ranks were reading " + file->filename().string();
  }
  const auto directory = progress.unfinished();
  if (directory && launcher_code == 0) {
    return text + fmt::format(
                      ", but the run in {} did not come to its end: its handler was never closed. A script returns "
                      "the code of its last command (set -o pipefail helps), and a program has to close its "
                      "handler before it ends",
                      directory->string());
  }
  return text + (directory || progress.cut_short() ? ", and the run did not say that it saved or finished"
                                                   : ": all steps are done, but the program did not come to its end");
}

/// What is known of a program that ended with 0.
std::string end_text(const RunProgress& progress) {
  const auto& managers = progress.managers();
  if (managers.empty()) {
    return "the program ended with 0; it opened no checkpoint directory, so there is no more to go by";
  }
  const bool has_handler = std::ranges::any_of(
      managers, [](const ManagerProgress& manager) { return manager.stage == Stage::finished; }, core::kMapped);
  return has_handler ? "the program came to its end"
                     : "the program ended with 0; it made no handler, so there is no more to go by";
}

std::string step_text(events::Step step) { return step ? std::to_string(*step) : "?"; }

/// Empty for those that only tools care about.
struct EventWords {
  std::string operator()(const auto&) const { return ""; }
  std::string operator()(const events::Restored& e) const {
    return fmt::format("restored {} (step {}) in {}", e.file.ends_with(".part") ? "a node-local copy" : e.file,
                       step_text(e.run_calls), core::seconds_text(e.seconds));
  }
  std::string operator()(const events::Drained& e) const {
    return fmt::format("made checkpoint {} of a node-local copy in {}", e.number, core::seconds_text(e.seconds));
  }
  std::string operator()(const events::Fallback& e) const {
    return fmt::format("WORK IS LOST: {} is corrupt, the run resumes from {} (step {}){}", e.instead_of, e.file,
                       step_text(e.run_calls),
                       e.steps_lost ? ", " + core::count_text(*e.steps_lost, "step") + " before" : "");
  }
  std::string operator()(const events::RestoreFailed& e) const {
    return fmt::format("cannot restore {}: {}", e.file, e.message);
  }
  std::string operator()(const events::Ready& e) const {
    return fmt::format("the ranks are ready, at step {}", step_text(e.run_calls));
  }
  std::string operator()(const events::Agreement& e) const {
    return fmt::format("the notice arrived: all ranks agreed on step {}", step_text(e.run_calls));
  }
  std::string operator()(const events::SaveFinished& e) const {
    return fmt::format("saved {} (step {}) in {}", e.file, step_text(e.run_calls), core::seconds_text(e.seconds));
  }
  std::string operator()(const events::SaveFailed& e) const {
    return fmt::format("checkpoint {} was NOT saved: {}", step_text(e.number), e.message);
  }
  std::string operator()(const events::SavePutOff& e) const {
    return fmt::format("the run continues without that save ({} failed in a row)", e.failures);
  }
  std::string operator()(const events::TrainOn& e) const {
    return fmt::format("continuing, {} are left: another save before the end", core::seconds_text(e.time_left_s));
  }
  std::string operator()(const events::Exit& e) const {
    return fmt::format("the ranks leave with code {}, {} after the notice", e.exit_code,
                       core::seconds_text(e.seconds_from_notice));
  }
  std::string operator()(const events::WentOn&) const { return "the program continues after the notice"; }
  std::string operator()(const events::Failed& e) const { return "error: " + e.message; }
  std::string operator()(const events::AlreadyFinished& e) const {
    return "the run is already finished, at step " + step_text(e.run_calls);
  }
  std::string operator()(const events::Finished& e) const { return "the steps are done: " + step_text(e.run_calls); }
  std::string operator()(const events::AfterCommitStarted& e) const {
    return e.file + ": the command of --after-commit begins";
  }
  std::string operator()(const events::AfterCommit& e) const {
    return fmt::format("{}: the command of --after-commit took {}", e.file, core::seconds_text(e.seconds));
  }
  std::string operator()(const events::AfterCommitFailed& e) const {
    return fmt::format("{}: the command of --after-commit ended with code {} ({} of {} tries): {}", e.file, e.code,
                       e.attempt, e.attempts, e.message);
  }
  std::string operator()(const events::AfterCommitRetired& e) const {
    return e.file + ": it was removed before the command of --after-commit ended";
  }
};

/// So often may a run die while it reads a checkpoint, before the checkpoint is suspected to be the cause.
constexpr int kDeathsAllowed = 1;
constexpr int kMaxDoublings = 20;
/// The pause after the first notice; it doubles up to the longest.
constexpr std::chrono::seconds kFirstPause{1};
constexpr int kMaxPauseDoublings = 4;

/// Where no rank has reported its own: what the batch system takes as "start me again".
int restart_code_here() {
  try {
    const auto found = termination::platform_in_environment(termination::environment_variable);
    return found ? termination::traits_of(found->platform).restart_code : termination::kRestartCode;
  } catch (const ConfigError&) {
    return termination::kRestartCode;  // the ranks report it
  }
}

}  // namespace

void ManagerProgress::take(const core::LoggedEvent& logged) { std::visit(Reaction{*this, logged.time}, logged.event); }

std::optional<std::uint64_t> ManagerProgress::number() const {
  return newest ? std::optional(newest->number) : restored ? std::optional(restored->number) : std::nullopt;
}

bool RunProgress::ready() const { return has_handler() && std::ranges::none_of(managers_, is_starting, core::kMapped); }

bool RunProgress::has_handler() const { return std::ranges::any_of(managers_, counts, core::kMapped); }

bool RunProgress::notice_arrived() const {
  return has_handler() &&
         std::ranges::all_of(
             managers_,
             [](const ManagerProgress& manager) { return manager.noticed || has_ended(manager) || !counts(manager); },
             core::kMapped);
}

const ManagerProgress* RunProgress::first(bool (*is_meant)(const ManagerProgress&)) const {
  const auto managers = current();
  const auto found = std::ranges::find_if(managers, [&](const ManagerProgress* manager) { return is_meant(*manager); });
  return found == managers.end() ? nullptr : *found;
}

std::vector<const ManagerProgress*> RunProgress::current() const {
  std::vector<const ManagerProgress*> found;
  for (const auto& [record, manager] : managers_) {
    const bool superseded = std::ranges::any_of(
        managers_,
        [one = &manager](const ManagerProgress& other) {
          return other.directory == one->directory && other.started > one->started;
        },
        core::kMapped);
    if (!superseded) {
      found.push_back(&manager);
    }
  }
  // What a manager without a handler could not do does not count where a handler came to its end in spite of it.
  const auto came_to_end = [](const ManagerProgress* manager) {
    return manager->has_handler && (manager->stage == Stage::saved || manager->stage == Stage::finished);
  };
  if (std::ranges::any_of(found, came_to_end)) {
    std::erase_if(
        found, [](const ManagerProgress* manager) { return manager->stage == Stage::failed && !manager->has_handler; });
  }
  return found;
}

const events::Exit* RunProgress::saved() const {
  const events::Exit* saved = nullptr;
  for (const ManagerProgress* manager : current()) {
    if (manager->stage == Stage::saved) {
      saved = &*manager->saved;
    } else if (manager->stage != Stage::finished && counts(*manager)) {
      return nullptr;
    }
  }
  return saved;
}

const events::Failed* RunProgress::error() const {
  const ManagerProgress* manager = first([](const auto& each) { return each.stage == Stage::failed; });
  return manager == nullptr ? nullptr : &*manager->error;
}

const events::Failed* RunProgress::uncaught() const {
  const ManagerProgress* manager = first([](const auto& each) { return is_at_work(each) && each.uncaught; });
  return manager == nullptr ? nullptr : &*manager->uncaught;
}

std::optional<std::filesystem::path> RunProgress::restoring() const {
  const ManagerProgress* manager = first([](const auto& each) { return each.stage == Stage::restoring; });
  return manager == nullptr ? std::nullopt : std::optional(manager->restoring);
}

bool RunProgress::cut_short() const {
  return first([](const auto& each) {
           return each.stage == Stage::restoring || each.stage == Stage::saved || each.leaving;
         }) != nullptr;
}

std::optional<std::filesystem::path> RunProgress::unfinished() const {
  const ManagerProgress* manager = first(is_at_work);
  return manager == nullptr ? std::nullopt : std::optional(manager->directory);
}

bool RunProgress::progressed() const {
  const auto has_progressed = [](const ManagerProgress& manager) {
    if (!manager.newest || !manager.restored) {
      return manager.newest.has_value();
    }
    const events::Step saved = manager.newest->run_calls;
    const events::Step restored = manager.restored->run_calls;
    return manager.newest->number != manager.restored->number || (saved && restored && *saved > *restored);
  };
  return std::ranges::any_of(managers_, has_progressed, core::kMapped);
}

int RunProgress::restart_code() const {
  for (const auto& [record, manager] : managers_) {
    if (manager.ready.restart_code != 0) {
      return manager.ready.restart_code;
    }
  }
  return restart_code_here();
}

std::vector<std::filesystem::path> RunProgress::directories() const {
  std::vector<std::filesystem::path> found;
  for (const auto& [record, manager] : managers_) {
    if (!manager.directory.empty() && std::ranges::find(found, manager.directory) == found.end()) {
      found.push_back(manager.directory);
    }
  }
  return found;
}

std::string code_text(int shell_code) {
  constexpr int kSignalled = 128;
  constexpr int kLastSignal = 64;
  if (shell_code > kSignalled && shell_code <= kSignalled + kLastSignal) {
    return fmt::format("signal {} ({})", termination::signal_name(shell_code - kSignalled), shell_code);
  }
  return fmt::format("exit code {}", shell_code);
}

LaunchResult judge(const RunProgress& progress, int launcher_code) {
  LaunchResult launch_result;
  launch_result.progressed = progress.progressed();
  const auto end = [&](LaunchResult::End how, int exit_code, std::string reason) {
    launch_result.end = how;
    launch_result.exit_code = exit_code;
    launch_result.reason = std::move(reason);
    return launch_result;
  };
  if (const events::Exit* saved = progress.saved()) {
    return end(LaunchResult::End::saved, saved->exit_code, "the state is in " + saved->checkpoint);
  }
  if (launcher_code == 0 && progress.error() == nullptr && !progress.cut_short() && !progress.unfinished()) {
    return end(LaunchResult::End::finished, 0, end_text(progress));
  }
  const bool misleading = launcher_code == 0 || launcher_code == progress.restart_code();
  launch_result.exit_code = misleading ? 1 : launcher_code;
  launch_result.reason = failure_text(progress, launcher_code);
  if (const events::Failed* error = error_in(progress, launcher_code)) {
    launch_result.hopeless = kHopeless.contains(error->error);
  } else {
    launch_result.died_restoring = progress.restoring();
  }
  return launch_result;
}

std::optional<SupervisorEvent> describe(const core::LoggedEvent& recorded) {
  std::string text = std::visit(EventWords(), recorded.event);
  if (text.empty()) {
    return std::nullopt;
  }
  nlohmann::json fields = core::to_json(recorded);
  std::string name = fields["event"];
  fields.erase("event");
  return SupervisorEvent{std::move(name), std::move(text), std::move(fields)};
}

RestartDecision RestartPolicy::decide(const LaunchResult& launch_result, bool begins_elsewhere) {
  RestartDecision decision;
  if (launch_result.end == LaunchResult::End::finished) {
    return decision;
  }
  fruitless_ = launch_result.progressed ? 0 : fruitless_ + 1;
  decision.pause = pause_after(launch_result);
  if (begins_elsewhere) {
    fruitless_ = 0;
  }
  decision.reason = why_not(launch_result);
  decision.restart = decision.reason.empty() && used_ < limits_.restarts;
  used_ += decision.restart ? 1 : 0;
  return decision;
}

std::optional<std::filesystem::path> RestartPolicy::file_to_verify(const LaunchResult& launch_result) {
  if (launch_result.died_restoring && ++deaths_[*launch_result.died_restoring] > kDeathsAllowed) {
    return launch_result.died_restoring;
  }
  return std::nullopt;
}

std::string RestartPolicy::why_not(const LaunchResult& launch_result) const {
  if (limits_.restarts == 0) {
    return "";
  }
  if (launch_result.hopeless) {
    return "giving up: another start would meet the same error";
  }
  if (fruitless_ >= limits_.fruitless_runs) {
    return launch_result.end == LaunchResult::End::saved
               ? fmt::format("giving up, no progress: {} runs in a row ended at the step where they began", fruitless_)
               : fmt::format("giving up, crash loop: {} runs in a row ended without a new checkpoint", fruitless_);
  }
  if (used_ >= limits_.restarts) {
    return fmt::format("giving up: all {} restarts are used", limits_.restarts);
  }
  return "";
}

std::chrono::milliseconds RestartPolicy::pause_after(const LaunchResult& launch_result) const {
  if (launch_result.end == LaunchResult::End::saved) {
    return std::chrono::milliseconds(0);
  }
  const int doublings = std::clamp(fruitless_ - 1, 0, kMaxDoublings);
  return std::min(limits_.first_pause * (std::int64_t{1} << doublings), limits_.longest_pause);
}

bool NoticePlan::send_is_due(const RunProgress& progress, Clock::time_point now) {
  if (!requested_ || progress.notice_arrived()) {
    return false;
  }
  const bool says_nothing = progress.managers().empty() && now - *requested_ >= patience_;
  if (!progress.ready() && !says_nothing) {
    return false;
  }
  if (sent_ > 0 && now - last_sent_ < kFirstPause * (1 << std::min(sent_ - 1, kMaxPauseDoublings))) {
    return false;
  }
  ++sent_;
  last_sent_ = now;
  return true;
}

}  // namespace reprieve::supervisor
