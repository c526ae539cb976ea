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

using Stage = ChiefProgress::Stage;

/// A program that goes back to a checkpoint in the middle of its work watches its signals as before.
bool is_at_work(const ChiefProgress& chief) { return chief.stage == Stage::running; }

/// What an event changes.
struct Reaction {
  ChiefProgress& chief;
  const std::string& time;

  void operator()(const auto&) const {}
  void operator()(const events::Start& event) const {
    ChiefProgress next;
    next.newest = chief.newest;
    next.started = time;
    next.directory = event.directory;
    next.start = event;
    chief = std::move(next);
  }
  void operator()(const events::HandlerBegun&) const {
    chief.has_handler = true;
    chief.stage = Stage::starting;
  }
  void operator()(const events::RestoreStarted& event) const {
    if (!is_at_work(chief)) {
      chief.stage = Stage::restoring;
      chief.restoring = chief.directory / event.file;
      chief.error.reset();
    }
  }
  void operator()(const events::Restored& event) const {
    if (!is_at_work(chief)) {
      chief.stage = chief.has_handler ? Stage::starting : Stage::opened;
    }
    chief.uncaught.reset();
    chief.restored = event;
  }
  void operator()(const events::Ready& event) const {
    chief.has_handler = true;
    chief.stage = Stage::running;
    chief.ready = event;
  }
  void operator()(const events::SaveFinished& event) const {
    chief.uncaught.reset();
    chief.newest = event;
  }
  void operator()(const events::Exit& event) const {
    chief.stage = Stage::saved;
    chief.leaving = false;
    chief.saved = event;
  }
  void operator()(const events::Notice&) const { chief.noticed = chief.leaving = true; }
  void operator()(const events::WentOn&) const {
    chief.stage = Stage::running;
    chief.leaving = false;
  }
  void operator()(const events::Finished&) const {
    chief.stage = Stage::finished;
    chief.leaving = false;
  }
  void operator()(const events::Failed& event) const { fail(event); }
  /// The program may try again.
  void operator()(const events::OpenFailed& event) const {
    chief.directory = event.directory;
    fail(failure_of(event));
  }
  /// One at work may catch the error.
  void operator()(const events::RestoreFailed& event) const {
    if (is_at_work(chief)) {
      chief.uncaught = failure_of(event);
    } else {
      fail(failure_of(event));
    }
  }
  static events::Failed failure_of(const auto& event) { return {.error = event.error, .message = event.message}; }
  void fail(const events::Failed& error) const {
    chief.stage = Stage::failed;
    chief.error = error;
  }
};

bool is_starting(const ChiefProgress& chief) {
  return chief.stage == Stage::starting || chief.stage == Stage::restoring;
}

/// A manager without a handler neither gets notices nor says how it ended.
bool counts(const ChiefProgress& chief) { return chief.stage != Stage::opened; }

bool has_ended(const ChiefProgress& chief) {
  return chief.stage == Stage::saved || chief.stage == Stage::failed || chief.stage == Stage::finished;
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
  if (progress.chiefs().empty()) {
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
  const auto& chiefs = progress.chiefs();
  if (chiefs.empty()) {
    return "the program ended with 0; it opened no checkpoint directory, so there is no more to go by";
  }
  const bool has_handler = std::ranges::any_of(
      chiefs, [](const ChiefProgress& chief) { return chief.stage == Stage::finished; }, core::kMapped);
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

void ChiefProgress::take(const core::LoggedEvent& logged) { std::visit(Reaction{*this, logged.time}, logged.event); }

std::optional<std::uint64_t> ChiefProgress::number() const {
  return newest ? std::optional(newest->number) : restored ? std::optional(restored->number) : std::nullopt;
}

bool RunProgress::ready() const { return has_handler() && std::ranges::none_of(chiefs_, is_starting, core::kMapped); }

bool RunProgress::has_handler() const { return std::ranges::any_of(chiefs_, counts, core::kMapped); }

bool RunProgress::notice_arrived() const {
  return has_handler() &&
         std::ranges::all_of(
             chiefs_, [](const ChiefProgress& chief) { return chief.noticed || has_ended(chief) || !counts(chief); },
             core::kMapped);
}

const ChiefProgress* RunProgress::first(bool (*is_meant)(const ChiefProgress&)) const {
  const auto chiefs = current();
  const auto found = std::ranges::find_if(chiefs, [&](const ChiefProgress* chief) { return is_meant(*chief); });
  return found == chiefs.end() ? nullptr : *found;
}

std::vector<const ChiefProgress*> RunProgress::current() const {
  std::vector<const ChiefProgress*> found;
  for (const auto& [record, chief] : chiefs_) {
    const bool superseded = std::ranges::any_of(
        chiefs_,
        [one = &chief](const ChiefProgress& other) {
          return other.directory == one->directory && other.started > one->started;
        },
        core::kMapped);
    if (!superseded) {
      found.push_back(&chief);
    }
  }
  // What a manager without a handler could not do does not count where a handler came to its end in spite of it.
  const auto came_to_end = [](const ChiefProgress* chief) {
    return chief->has_handler && (chief->stage == Stage::saved || chief->stage == Stage::finished);
  };
  if (std::ranges::any_of(found, came_to_end)) {
    std::erase_if(found,
                  [](const ChiefProgress* chief) { return chief->stage == Stage::failed && !chief->has_handler; });
  }
  return found;
}

const events::Exit* RunProgress::saved() const {
  const events::Exit* saved = nullptr;
  for (const ChiefProgress* chief : current()) {
    if (chief->stage == Stage::saved) {
      saved = &*chief->saved;
    } else if (chief->stage != Stage::finished && counts(*chief)) {
      return nullptr;
    }
  }
  return saved;
}

const events::Failed* RunProgress::error() const {
  const ChiefProgress* chief = first([](const auto& each) { return each.stage == Stage::failed; });
  return chief == nullptr ? nullptr : &*chief->error;
}

const events::Failed* RunProgress::uncaught() const {
  const ChiefProgress* chief = first([](const auto& each) { return is_at_work(each) && each.uncaught; });
  return chief == nullptr ? nullptr : &*chief->uncaught;
}

std::optional<std::filesystem::path> RunProgress::restoring() const {
  const ChiefProgress* chief = first([](const auto& each) { return each.stage == Stage::restoring; });
  return chief == nullptr ? std::nullopt : std::optional(chief->restoring);
}

bool RunProgress::cut_short() const {
  return first([](const auto& each) {
           return each.stage == Stage::restoring || each.stage == Stage::saved || each.leaving;
         }) != nullptr;
}

std::optional<std::filesystem::path> RunProgress::unfinished() const {
  const ChiefProgress* chief = first(is_at_work);
  return chief == nullptr ? std::nullopt : std::optional(chief->directory);
}

bool RunProgress::progressed() const {
  const auto has_progressed = [](const ChiefProgress& chief) {
    if (!chief.newest || !chief.restored) {
      return chief.newest.has_value();
    }
    const events::Step saved = chief.newest->run_calls;
    const events::Step restored = chief.restored->run_calls;
    return chief.newest->number != chief.restored->number || (saved && restored && *saved > *restored);
  };
  return std::ranges::any_of(chiefs_, has_progressed, core::kMapped);
}

int RunProgress::restart_code() const {
  for (const auto& [record, chief] : chiefs_) {
    if (chief.ready.restart_code != 0) {
      return chief.ready.restart_code;
    }
  }
  return restart_code_here();
}

std::vector<std::filesystem::path> RunProgress::directories() const {
  std::vector<std::filesystem::path> found;
  for (const auto& [record, chief] : chiefs_) {
    if (!chief.directory.empty() && std::ranges::find(found, chief.directory) == found.end()) {
      found.push_back(chief.directory);
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

Verdict judge(const RunProgress& progress, int launcher_code) {
  Verdict verdict;
  verdict.progressed = progress.progressed();
  const auto end = [&](Verdict::End how, int exit_code, std::string reason) {
    verdict.end = how;
    verdict.exit_code = exit_code;
    verdict.reason = std::move(reason);
    return verdict;
  };
  if (const events::Exit* saved = progress.saved()) {
    return end(Verdict::End::saved, saved->exit_code, "the state is in " + saved->checkpoint);
  }
  if (launcher_code == 0 && progress.error() == nullptr && !progress.cut_short() && !progress.unfinished()) {
    return end(Verdict::End::finished, 0, end_text(progress));
  }
  const bool misleading = launcher_code == 0 || launcher_code == progress.restart_code();
  verdict.exit_code = misleading ? 1 : launcher_code;
  verdict.reason = failure_text(progress, launcher_code);
  if (const events::Failed* error = error_in(progress, launcher_code)) {
    verdict.hopeless = kHopeless.contains(error->error);
  } else {
    verdict.died_restoring = progress.restoring();
  }
  return verdict;
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

RestartDecision RestartPolicy::decide(const Verdict& verdict, bool begins_elsewhere) {
  RestartDecision decision;
  if (verdict.end == Verdict::End::finished) {
    return decision;
  }
  fruitless_ = verdict.progressed ? 0 : fruitless_ + 1;
  decision.pause = pause_after(verdict);
  if (begins_elsewhere) {
    fruitless_ = 0;
  }
  decision.reason = why_not(verdict);
  decision.restart = decision.reason.empty() && used_ < limits_.restarts;
  used_ += decision.restart ? 1 : 0;
  return decision;
}

std::optional<std::filesystem::path> RestartPolicy::suspect(const Verdict& verdict) {
  if (verdict.died_restoring && ++deaths_[*verdict.died_restoring] > kDeathsAllowed) {
    return verdict.died_restoring;
  }
  return std::nullopt;
}

std::string RestartPolicy::why_not(const Verdict& verdict) const {
  if (limits_.restarts == 0) {
    return "";
  }
  if (verdict.hopeless) {
    return "giving up: another start would meet the same error";
  }
  if (fruitless_ >= limits_.fruitless_runs) {
    return verdict.end == Verdict::End::saved
               ? fmt::format("giving up, no progress: {} runs in a row ended at the step where they began", fruitless_)
               : fmt::format("giving up, crash loop: {} runs in a row ended without a new checkpoint", fruitless_);
  }
  if (used_ >= limits_.restarts) {
    return fmt::format("giving up: all {} restarts are used", limits_.restarts);
  }
  return "";
}

std::chrono::milliseconds RestartPolicy::pause_after(const Verdict& verdict) const {
  if (verdict.end == Verdict::End::saved) {
    return std::chrono::milliseconds(0);
  }
  const int doublings = std::clamp(fruitless_ - 1, 0, kMaxDoublings);
  return std::min(limits_.first_pause * (std::int64_t{1} << doublings), limits_.longest_pause);
}

bool NoticePlan::send_is_due(const RunProgress& progress, Clock::time_point now) {
  if (!requested_ || progress.notice_arrived()) {
    return false;
  }
  const bool says_nothing = progress.chiefs().empty() && now - *requested_ >= patience_;
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
