// SPDX-License-Identifier: BSD-3-Clause
// How one start of the program ended, and whether it may go on at all.

#include <signal.h>
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "supervisor/job_supervisor.hpp"
#include "supervisor/run_directory.hpp"
#include "supervisor/supervised_run.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;

/// The code of a shell for what SIGINT ended.
constexpr int kInterrupted = 130;

}  // namespace

/// The directory that the program uses in place of the one that was named. A drill makes its own inside of it.
std::optional<fs::path> JobSupervisor::foreign_directory() const {
  const auto opened = run_->progress().directories();
  if (!settings_.directory || opened.empty()) {
    return std::nullopt;
  }
  const auto same = [](const fs::path& a, const fs::path& b) {
    std::error_code ignored;
    return a.lexically_normal() == b.lexically_normal() || fs::equivalent(a, b, ignored);
  };
  const bool uses_it = std::any_of(opened.begin(), opened.end(), [&](const fs::path& path) {
    return same(path, *settings_.directory) ||
           (run_directory_->is_rehearsal() && same(path.parent_path(), *settings_.directory));
  });
  return uses_it ? std::nullopt : std::optional(opened.front());
}

/// It would go on from the state of another run, and save over it. Not gently: that would be a notice, and save as
/// well.
void JobSupervisor::check_directory() {
  if (!kill_at_ && run_->progress().ready() && foreign_directory()) {
    run_->kill_all();
  }
}

/// For a run whose code says that it went well, or says nothing, and whose record does not say it: it may have found no
/// room.
Verdict JobSupervisor::verdict_by_event_logs(const Verdict& by_record) const {
  const RunProgress logged = run_->progress_in_event_logs(settings_.directory);
  if (!logged.chiefs().empty()) {
    return judge(logged, *run_->code());
  }
  Verdict result = by_record;
  const bool has_room = has_room_ && run_directory_->has_room();
  if (!has_room && run_->progress().chiefs().empty() && *run_->code() == logged.restart_code()) {
    result.end = Verdict::End::saved;
    result.exit_code = *run_->code();
    result.reason = fmt::format("the launcher ended with {}, and there was no room for the record of the run",
                                code_text(result.exit_code));
  }
  return result;
}

/// For the verdict of the next start.
void JobSupervisor::note_what_is_left() {
  if (const RunProgress& progress = run_->progress(); !progress.chiefs().empty()) {
    work_is_left_ = progress.leaves_work();
  }
}

Verdict JobSupervisor::verdict() const {
  if (const auto directory = foreign_directory()) {
    Verdict result;
    result.hopeless = true;
    result.reason = fmt::format(
        "the program uses the checkpoint directory {}, but --directory names {}. Either "
        "REPRIEVE_DIRECTORY did not reach it, or its own settings go before: see to it that it "
        "uses that directory, or leave --directory out",
        directory->string(), settings_.directory->string());
    return result;
  }
  Verdict result = judge(run_->progress(), *run_->code());
  // A notice that is sent once more, since nothing is known of the run, can hit a launcher that is about to end.
  const bool died_of_notice = plan_.sent() > 1 && *run_->code() == 128 + SIGUSR1;
  const bool says_well = *run_->code() == 0 || *run_->code() == run_->progress().restart_code() || died_of_notice;
  if (says_well && result.end == Verdict::End::failed && run_->progress().error() == nullptr) {
    result = verdict_by_event_logs(result);
  }
  if (result.end == Verdict::End::finished && work_is_left_ && run_->progress().chiefs().empty() && has_room_ &&
      run_directory_->has_room()) {
    result.end = Verdict::End::failed;
    result.exit_code = 1;
    result.reason =
        "the command ended with 0, but no rank has opened a checkpoint directory, and the start before left work to "
        "do: a script returns the code of its last command (set -o pipefail helps)";
  }
  if (result.end != Verdict::End::failed) {
    return result;
  }
  if (kill_at_) {
    result.exit_code = kInterrupted;
    result.reason = "ended by hand";
  } else if (const auto report = run_->error_report(); report && run_->progress().error() == nullptr) {
    result.reason = *report;
  }
  return result;
}

}  // namespace reprieve::supervisor
