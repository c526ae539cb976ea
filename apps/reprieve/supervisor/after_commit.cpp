// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/after_commit.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/events.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "files.hpp"
#include "reprieve/error.hpp"

namespace reprieve::supervisor {

namespace {

constexpr int kAttemptsForOne = 3;
constexpr std::chrono::seconds kPauseBeforeNext{5};

/// Its output may be long (progress bars), and what is read of it must fit into a pipe.
constexpr const char* kScript =
    "exec 2>&1; { eval \"$COMMAND\"; } </dev/null | tail -c 1000; exit \"${PIPESTATUS[0]}\"";

/// Writes an event of @p file into the log of its directory; a program that wants no log gets none.
/// @return what there is to say
SupervisorEvent record(const std::filesystem::path& file, const core::Event& event) {
  const std::filesystem::path log = file.parent_path() / core::kEventLogName;
  if (std::error_code ignored; std::filesystem::is_regular_file(log, ignored)) {
    core::EventLog(log).write(event);
  }
  SupervisorEvent said = *describe({event, core::event_time(std::chrono::system_clock::now()), std::nullopt});
  said.fields["file"] = file.string();
  said.fields.erase("monotonic_s");
  return said;
}

bool has_readable_tables(const tool::CheckpointFile& file) {
  try {
    static_cast<void>(storage::read_metadata(file.path));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The newest checkpoint that is whole, as far as is seen without its data, unless the log says that it was copied.
std::optional<std::filesystem::path> find_uncopied(const std::filesystem::path& directory) {
  const auto files = tool::checkpoint_files(directory);
  const auto newest = std::find_if(files.rbegin(), files.rend(), has_readable_tables);
  if (newest == files.rend()) {
    return std::nullopt;
  }
  const auto status = tool::logged_status(directory);
  const tool::RemoteCopy* const copy = status ? status->copy_of(newest->path) : nullptr;
  return copy != nullptr && copy->state == tool::CopyState::copied ? std::nullopt : std::optional(newest->path);
}

}  // namespace

Command start_in_shell(const std::string& command, const std::filesystem::path& directory,
                       const std::filesystem::path& file) {
  return Command({"bash", "-c", kScript},
                 {{"COMMAND", command}, {"DIRECTORY", directory.string()}, {"FILE", file.string()}});
}

void AfterCommit::take(const core::Event& event, const ManagerProgress& manager) {
  if (const auto* const save = std::get_if<events::SaveFinished>(&event)) {
    add(manager.directory / save->file);
  } else if (std::holds_alternative<events::Restored>(event) && !manager.newest) {
    add_uncopied(manager.directory);
  }
}

void AfterCommit::add_uncopied(const std::filesystem::path& directory) {
  core::log::or_warn("a checkpoint that is not copied yet is not looked for", [&] {
    const auto file = find_uncopied(directory);
    const bool is_under_way = busy() && (waiting_ ? *waiting_ : current_).file == file;
    if (file && !is_under_way) {
      add(*file);
    }
  });
}

void AfterCommit::stop() {
  if (command_) {
    command_->kill_all();
  }
}

void AfterCommit::start() {
  current_ = *std::exchange(waiting_, std::nullopt);
  current_.start = Clock::now();
  killed_ = false;
  const std::string name = current_.file.filename().string();
  static_cast<void>(record(current_.file, events::AfterCommitStarted{name, core::host_name(), ::getpid(),
                                                                     current_.number, kAttemptsForOne}));
  command_ = start_in_shell(command_line_, current_.file.parent_path(), current_.file);
}

SupervisorEvent AfterCommit::end(int code) {
  const std::string name = current_.file.filename().string();
  const double seconds = std::chrono::duration<double>(Clock::now() - current_.start).count();
  if (code == 0) {
    return record(current_.file, events::AfterCommit{name, code, seconds, current_.number, kAttemptsForOne});
  }
  if (tool::is_gone(current_.file)) {
    return record(current_.file, events::AfterCommitRetired{name});
  }
  if (!waiting_ && current_.number < kAttemptsForOne) {
    waiting_ = Attempt{current_.file, current_.number + 1, Clock::now() + kPauseBeforeNext};
  }
  const std::string message = (killed_ ? "took too long: " : "") + in_one_line(command_->output());
  return record(current_.file,
                events::AfterCommitFailed{name, code, seconds, current_.number, kAttemptsForOne, message});
}

std::optional<SupervisorEvent> AfterCommit::tick() {
  std::optional<SupervisorEvent> event;
  if (command_) {
    if (const auto code = command_->code()) {
      event = end(*code);
      command_.reset();
    } else if (!killed_ && Clock::now() >= current_.start + limit_) {
      command_->kill_all();
      killed_ = true;
    }
  }
  if (!command_ && waiting_ && Clock::now() >= waiting_->start) {
    start();
  }
  return event;
}

}  // namespace reprieve::supervisor
