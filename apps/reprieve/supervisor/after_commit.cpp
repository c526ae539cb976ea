// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/after_commit.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/log.hpp"

namespace reprieve::supervisor {

namespace {

constexpr int kAttemptsForOne = 3;
constexpr std::chrono::seconds kPauseBeforeNext{5};

/// Its output may be long (progress bars), and what is read of it must fit into a pipe.
constexpr const char* kScript =
    "exec 2>&1; { eval \"$COMMAND\"; } </dev/null | tail -c 1000; exit \"${PIPESTATUS[0]}\"";

}  // namespace

std::unique_ptr<Command> start_in_shell(const std::string& command, const std::filesystem::path& directory,
                                        const std::filesystem::path& file) {
  return std::make_unique<Command>(
      std::vector<std::string>{"bash", "-c", kScript},
      EnvironmentChanges{{"COMMAND", command}, {"DIRECTORY", directory.string()}, {"FILE", file.string()}});
}

void AfterCommit::add(const std::filesystem::path& file) {
  waiting_ = file;
  next_start_ = Clock::now();
  failures_ = 0;
}

void AfterCommit::stop() {
  if (command_) {
    command_->kill_all();
  }
}

void AfterCommit::start() {
  file_ = *std::exchange(waiting_, std::nullopt);
  started_ = Clock::now();
  killed_ = false;
  command_ = start_in_shell(command_line_, file_.parent_path(), file_);
}

SupervisorEvent AfterCommit::end(int code) {
  const std::chrono::duration<double> taken = Clock::now() - started_;
  const std::string name = file_.filename().string();
  const nlohmann::json fields{{"file", file_.string()}, {"code", code}, {"seconds", taken.count()}};
  if (code == 0) {
    return {"after_commit",
            fmt::format("{}: the command of --after-commit took {}", name, core::seconds_text(taken.count())), fields};
  }
  ++failures_;
  const bool again = !waiting_ && failures_ < kAttemptsForOne;
  if (again) {
    waiting_ = file_;
    next_start_ = Clock::now() + kPauseBeforeNext;
  }
  return {"after_commit_failed",
          fmt::format("{}: the command of --after-commit {}{}: {}", name,
                      killed_ ? "took too long" : fmt::format("ended with code {}", code),
                      again ? ", and is tried again" : "", in_one_line(command_->output())),
          fields};
}

std::optional<SupervisorEvent> AfterCommit::tick() {
  std::optional<SupervisorEvent> event;
  if (command_) {
    if (const auto code = command_->code()) {
      event = end(*code);
      command_.reset();
    } else if (!killed_ && Clock::now() >= started_ + limit_) {
      command_->kill_all();
      killed_ = true;
    }
  }
  if (!command_ && waiting_ && Clock::now() >= next_start_) {
    start();
  }
  return event;
}

}  // namespace reprieve::supervisor
