// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "termination/signal_flag.hpp"

namespace reprieve::supervisor {

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

}  // namespace reprieve::supervisor
