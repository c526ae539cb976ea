// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/supervised_run.hpp"

#include <fmt/format.h>
#include <signal.h>  // NOLINT: kill is POSIX, not in <csignal>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <random>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/events.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "reprieve/error.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;

fs::path outer_directory() {
  const auto named = core::environment_variable(core::kRunDirectoryVariable);
  std::error_code ignored;
  return named && fs::is_directory(*named, ignored) ? *named : "";
}

constexpr std::size_t kRandomDigits = 16;
/// A supervisor locks its directory just after it has made it.
constexpr std::chrono::seconds kTimeToLock{60};
/// Some thousand events.
constexpr std::size_t kRoom = std::size_t{1} << 18;

/// Directories have no locks across the nodes of NFS and Lustre, so that each host knows of its own supervisors only.
std::string name_prefix() { return fmt::format(".reprieve-run-{}-", core::host_name()); }

/// @param prefix  of this host's; that of `n1` begins as that of `n1-x` does
bool is_of_this_host(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) && name.size() == prefix.size() + kRandomDigits;
}

/// A directory of this user that no supervisor holds, locked as long as it is open; nothing if it is not one.
std::optional<core::Directory> locked(std::optional<core::Directory> directory) {
  const bool is_locked = directory && directory->status().st_uid == ::geteuid() &&
                         ::flock(directory->descriptor(), LOCK_EX | LOCK_NB) == 0;
  return is_locked ? std::move(directory) : std::nullopt;
}

/// The kernel gives the locks of killed supervisors back.
void remove_left_overs(const core::Directory& parent) {
  const std::string prefix = name_prefix();
  for (const core::DirectoryEntry& entry : parent.list()) {
    if (!is_of_this_host(entry.name, prefix) || entry.kind != core::EntryKind::directory) {
      continue;
    }
    const auto found = parent.status_of(entry.name);
    if (!found || found->st_uid != ::geteuid() || ::time(nullptr) - found->st_mtime <= kTimeToLock.count()) {
      continue;
    }
    if (const auto left = locked(parent.find_directory(entry.name))) {
      parent.remove_tree(entry.name);
      core::log::debug("removed {}, left by a supervisor that was killed", (parent.path() / entry.name).string());
    }
  }
}

[[noreturn]] void fail(const fs::path& path, const StorageError& error) {
  throw StorageError(error.code(), fmt::format("cannot make the directory {} for the record of the run: {}; choose a "
                                               "place with --run-dir",
                                               path.string(), error.what()));
}

/// A new directory with a name that nobody can foresee, for this user alone.
core::Directory make_directory(const core::Directory& parent) {
  const std::string prefix = name_prefix();
  std::random_device random;
  for (;;) {
    const std::string name = fmt::format("{}{:08x}{:08x}", prefix, random(), random());
    if (auto made = parent.make_directory_if_free(name, core::kOwnDirectory)) {
      return std::move(*made);
    }
    if (!parent.contains(name) && !parent.is_at_its_path()) {
      throw core::storage_error("make directory", parent.path() / name, ENOENT);
    }
  }
}

core::Directory open_parent(const fs::path& path) {
  try {
    return core::Directory::open(fs::absolute(path));
  } catch (const StorageError& error) {
    fail(path, error);
  }
}

/// False if the process has gone.
bool send(pid_t pid, int signal) {
  if (::kill(pid, signal) == 0) {
    return true;
  }
  if (errno != ESRCH) {
    core::log::warning("cannot send {} to process {}: {}", termination::signal_name(signal), pid,
                       std::generic_category().message(errno));
  }
  return false;
}

/// A regular file that nobody else has put there. Some file systems give everything in a directory to its owner.
bool is_own_file(const fs::path& file) {
  struct stat own = {};
  struct stat above = {};
  if (::lstat(file.c_str(), &own) != 0 || !S_ISREG(own.st_mode)) {
    return false;
  }
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  return own.st_uid == ::geteuid() || (::stat(file.parent_path().c_str(), &above) == 0 && own.st_uid == above.st_uid &&
                                       (above.st_mode & kOthersWrite) == 0);
}

bool is_in_path(const std::string& name, const std::string& path) {
  std::istringstream directories(path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (::access((fs::path(directory) / name).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

/// Commands with the names of the launchers that are in PATH. They stand before these, and become them, shielded: the
/// rest of a script is not. Gives the PATH with them in it; nothing where they cannot be made.
std::optional<std::string> shielded_launchers(const LaunchSettings& settings, const std::string& path) {
  const std::string wrappers = (settings.run_directory / "launchers").string();
  if (fmt::format("{}{}", settings.tool.string(), wrappers).find_first_of("\"\\$`:") != std::string::npos) {
    return std::nullopt;  // it would have to be quoted
  }
  try {
    const core::Directory directory =
        core::Directory::open(settings.run_directory).make_directory("launchers", core::kOwnDirectory);
    for (const std::string& name : launcher_commands()) {
      if (is_in_path(name, path)) {
        directory.write_text(name,
                             fmt::format("#!/bin/sh\nPATH=\"${{PATH%%\"{0}:\"*}}${{PATH#*\"{0}:\"}}\"\n"
                                         "exec \"{1}\" launch-agent {2} \"$@\"\n",
                                         wrappers, settings.tool.string(), name),
                             core::kOwnDirectory, false);
      }
    }
    return wrappers + ":" + path;
  } catch (const StorageError& error) {
    core::log::debug("{}", error.what());
    return std::nullopt;
  }
}

pid_t launch(const std::vector<std::string>& command, const LaunchSettings& settings) {
  SpawnOptions options{.arguments = command,
                       .environment = launch_environment(settings, core::environment_variable),
                       .shield = settings.shield,
                       .output = settings.output};
  if (options.shield == Shield::signals && !is_launcher(fs::path(command.front()).filename())) {
    options.shield = Shield::session;
    if (const auto path = shielded_launchers(settings, core::environment_variable("PATH").value_or(""))) {
      options.environment["PATH"] = *path;
    }
  }
  return spawn(options);
}

/// A scheduler signals all processes of a job: that of a script dies of it, the launcher below does not.
bool is_end_by_scheduler(int code) { return code == 128 + SIGTERM || code == 128 + SIGINT || code == 128 + SIGHUP; }

/// Such an event says nothing of the program.
bool is_of_supervisor(const core::Event& event) {
  return std::visit([](const auto& one) { return std::string_view(one.kName).starts_with("after_commit"); }, event);
}

}  // namespace

RunDirectory::RunDirectory(const fs::path& parent, const std::vector<std::string>& command)
    : outer_(outer_directory()),
      parent_(open_parent(!outer_.empty()                                    ? outer_
                          : !parent.empty()                                  ? parent
                          : spans_nodes(command, core::environment_variable) ? fs::current_path()
                                                                             : fs::temp_directory_path())) {
  try {
    if (outer_.empty()) {
      remove_left_overs(parent_);
    }
  } catch (const StorageError& error) {
    core::log::debug("{}", error.what());
  }
  try {
    own_.emplace(make_directory(parent_));
    if (::flock(own_->descriptor(), LOCK_EX | LOCK_NB) != 0) {
      core::log::debug("{} cannot be locked", own_->path().string());  // a file system without locks
      return;
    }
  } catch (const StorageError& error) {
    fail(parent_.path(), error);
  }
  try {
    own_->write_text(core::kLockedFile, core::host_name(), core::kOwnFile, false);
  } catch (const StorageError& error) {
    core::log::debug("{}", error.what());  // no room: the ranks do not see when this process dies
  }
}

RunDirectory::~RunDirectory() {
  if (!outer_.empty()) {
    return;
  }
  try {
    parent_.remove_tree(own_->path().filename().string());
  } catch (const std::exception& error) {
    core::log::warning("{}", error.what());
  }
}

bool RunDirectory::has_room() const {
  constexpr const char* name = "room";
  try {
    own_->write_text(name, std::string(kRoom, ' '), core::kOwnFile, false);
    own_->remove_file(name);
    return true;
  } catch (const StorageError&) {
    return false;
  }
}

bool RunDirectory::is_dry_run() const {
  std::error_code ignored;
  return !outer_.empty() && fs::exists(outer_ / core::kDrillOrdersName, ignored);
}

fs::path RunDirectory::make(int start) const {
  try {
    const core::Directory made = own_->make_directory(std::to_string(start), core::kOwnDirectory);
    if (is_dry_run()) {
      const std::string orders = core::Directory::open(outer_).read_text(core::kDrillOrdersName, kRoom);
      made.write_text(core::kDrillOrdersName, orders, core::kOwnFile, false);
    }
    return made.path();
  } catch (const StorageError& error) {
    fail(own_->path(), error);
  }
}

std::vector<RecordedEvent> RunRecordReader::read_new() {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  // A supervisor below this one has the records of its runs in directories of its own, further down.
  for (std::filesystem::recursive_directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == core::kRunRecordSuffix && is_own_file(entry->path())) {
      files.push_back(entry->path());
    }
  }
  std::ranges::sort(files);
  std::vector<RecordedEvent> events;
  for (const auto& file : files) {
    const std::string record = file.lexically_relative(directory_).string();
    try {
      for (core::LoggedEvent& logged : records_.try_emplace(record, file).first->second.next()) {
        events.push_back({record, std::move(logged)});
      }
    } catch (const StorageError& failure) {
      core::log::debug("{}", failure.what());  // another supervisor has removed it meanwhile
    }
  }
  return events;
}

SupervisedRun::SupervisedRun(const std::vector<std::string>& command, const LaunchSettings& settings)
    : run_directory_(settings.run_directory), reader_(run_directory_), pid_(launch(command, settings)) {}

void SupervisedRun::check_end() {
  const auto ended = code_ ? std::nullopt : code_of(pid_);
  if (!ended) {
    return;
  }
  const auto is_one = [](const ProcessInfo& process) { return is_launcher(process.program); };
  if (!is_end_by_scheduler(*ended) || std::ranges::none_of(descendants_of(::getpid()), is_one)) {
    code_ = ended;
  }
}

std::vector<RecordedEvent> SupervisedRun::read_record() {
  std::vector<RecordedEvent> events = reader_.read_new();
  for (const RecordedEvent& event : events) {
    progress_.take(event.record, event.logged);
  }
  return events;
}

/// The ranks 0 look into the directory of the run: no signal has to come through a launcher and a wrapper, which may
/// die of it.
bool SupervisedRun::post_notice(const std::string& why) const {
  const auto is_below = [](const auto& manager) { return manager.first.find('/') != std::string::npos; };
  if (!progress_.ready() || std::ranges::any_of(progress_.managers(), is_below)) {
    return false;  // nobody looks, or into the directory of another supervisor
  }
  try {
    const core::Directory directory = core::Directory::open(run_directory_);
    if (!directory.contains(core::kNoticeFile)) {
      directory.write_text(core::kNoticeFile, why, core::kOwnFile, false);
    }
    return true;
  } catch (const StorageError& error) {
    core::log::debug("{}", error.what());
    return false;
  }
}

bool SupervisedRun::notice_was_seen() const {
  std::error_code ignored;
  std::ptrdiff_t seen = 0;
  for (const auto& entry : fs::directory_iterator(run_directory_, ignored)) {
    seen += entry.path().filename().string().starts_with(core::kSeenPrefix) ? 1 : 0;
  }
  return seen >= std::ranges::count(progress_.managers(), ManagerProgress::Stage::running,
                                    [](const auto& manager) { return manager.second.stage; });
}

std::string SupervisedRun::send_notice(const std::string& why, int attempt) const {
  std::string sent_to;
  if (code_) {
    return sent_to;
  }
  if (post_notice(why) && (attempt == 1 || notice_was_seen())) {
    return "the ranks, by the directory of the run";
  }
  const std::vector<ProcessInfo> all = descendants_of(::getpid());
  for (const NoticeTarget& target : notice_targets(pid_, all, progress_, core::host_name())) {
    if (send(target.pid, target.signal)) {
      const auto process = std::ranges::find(all, target.pid, &ProcessInfo::pid);
      sent_to += fmt::format("{}{} to {} {}", sent_to.empty() ? "" : ", ", termination::signal_name(target.signal),
                             process == all.end() ? "process" : process->program, target.pid);
    }
  }
  return sent_to;
}

std::string SupervisedRun::kill_hung_launchers() {
  std::string killed;
  for (const ProcessInfo& process : launchers_.find(descendants_of(::getpid()), Clock::now())) {
    if (send(process.pid, SIGKILL)) {
      killed += fmt::format("{}{} {}", killed.empty() ? "" : ", ", process.program, process.pid);
    }
  }
  return killed;
}

void SupervisedRun::terminate() const {
  if (!code_) {
    send(pid_, SIGTERM);
  }
}

void SupervisedRun::kill_all(pid_t spared) const {
  for (const ProcessInfo& process : descendants_of(::getpid(), spared)) {
    send(process.pid, SIGKILL);
  }
}

std::optional<std::string> message_of_error_report(std::istream& report, double not_before_s) {
  const auto content = nlohmann::json::parse(report, nullptr, false);
  if (!content.is_object()) {
    return std::nullopt;
  }
  const auto time = content.find("time_s");
  const auto message = content.find("message");
  if (time == content.end() || !time->is_number() || time->get<double>() < not_before_s || message == content.end() ||
      !message->is_string()) {
    return std::nullopt;
  }
  return message->get<std::string>();
}

RunProgress SupervisedRun::progress_in_event_logs(const std::optional<std::filesystem::path>& directory) const {
  std::vector<std::filesystem::path> directories = progress_.directories();
  if (directory && std::ranges::find(directories, *directory) == directories.end()) {
    directories.push_back(*directory);
  }
  const std::string start = core::event_time(started_wall_clock_);
  RunProgress progress;
  for (const auto& each : directories) {
    const fs::path log = each / core::kEventLogName;
    for (const auto& logged :
         is_own_file(log) ? core::read_events(log, core::kLongestLog) : std::vector<core::LoggedEvent>()) {
      if (logged.time >= start && !is_of_supervisor(logged.event)) {
        progress.take(each.string(), logged);
      }
    }
  }
  return progress;
}

std::optional<std::string> SupervisedRun::error_report() const {
  const std::chrono::duration<double> start = started_wall_clock_.time_since_epoch();
  for (const auto& directory : progress_.directories()) {
    if (!is_own_file(directory / "error.json")) {
      continue;
    }
    std::ifstream file(directory / "error.json");
    if (auto message = message_of_error_report(file, start.count())) {
      return message;
    }
  }
  return std::nullopt;
}

}  // namespace reprieve::supervisor
