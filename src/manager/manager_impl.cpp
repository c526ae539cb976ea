// SPDX-License-Identifier: BSD-3-Clause
#include "manager/manager_impl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "cluster/lost_ranks.hpp"
#include "core/failpoint.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/local_copies.hpp"
#include "manager/restore_fallback.hpp"
#include "manager/save.hpp"
#include "reprieve/error.hpp"
#include "reprieve/version.hpp"

namespace reprieve {

namespace {

constexpr const char* kListing = "listing the checkpoints";

}  // namespace

CheckpointManager::CheckpointManager(MPI_Comm comm, Checkpoint& checkpoint, std::filesystem::path directory,
                                     ManagerOptions options)
    : impl_(Impl::open(comm, checkpoint, directory, std::move(options))) {}

/// A forked child has neither the threads nor the MPI that an orderly end needs, and the lock is not its own.
CheckpointManager::~CheckpointManager() {
  if (impl_ && !impl_->owner.is_here()) {
    static_cast<void>(impl_.release());
  }
}
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept = default;

SaveReport CheckpointManager::save(std::uint64_t number, const SaveReason& reason) {
  SaveRequest request;
  request.number = number;
  request.reason = reason;
  return save(request);
}

SaveReport CheckpointManager::save() { return save(SaveRequest{}); }

SaveReport CheckpointManager::save(const SaveRequest& request) { return impl_->save(request); }

void CheckpointManager::save_in_background(const SaveRequest& request) { impl_->save_in_background(request); }

bool CheckpointManager::background_save_pending() const noexcept { return impl_->background->pending(); }

bool CheckpointManager::background_save_written() const noexcept {
  return impl_->background->written() == impl_->background->begun();
}

std::optional<SaveReport> CheckpointManager::finish_background_save() { return impl_->background->finish(); }

bool CheckpointManager::local_copy() {
  if (impl_->gives_numbers && !impl_->handler) {
    throw UsageError(
        "the saves of this manager have numbers of the program: local_copy needs one too, or what is restored from the "
        "copy would have a number that says nothing");
  }
  return impl_->local_copy_alone({});
}

bool CheckpointManager::local_copy(std::uint64_t number) { return impl_->local_copy_alone(number); }

std::optional<CheckpointInfo> CheckpointManager::restore_or_initialize(const std::function<void()>& initialize) {
  impl_->background->wait();
  return impl_->restore_or_initialize(initialize);
}

CheckpointInfo CheckpointManager::restore(const std::filesystem::path& file) {
  impl_->background->wait();
  return impl_->restore(file);
}

std::optional<CheckpointInfo> CheckpointManager::latest() const { return impl_->latest(); }

std::vector<CheckpointInfo> CheckpointManager::checkpoints() const { return impl_->checkpoints(); }

const std::filesystem::path& CheckpointManager::directory() const noexcept { return impl_->directory.path(); }

const ManagerOptions& CheckpointManager::options() const noexcept { return impl_->options; }

namespace {

namespace fs = std::filesystem;

/// The user's function. Its error is one of all ranks.
void run_initialize(cluster::Communicator& comm, const std::function<void()>& initialize) {
  comm.agree(core::capture([&] {
               try {
                 initialize();
               } catch (const std::exception& error) {
                 throw ClusterError(fmt::format("the initialize function failed: {}", error.what()));
               } catch (...) {
                 throw ClusterError("the initialize function threw something that is not a std::exception");
               }
             }),
             "the initialize function");
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------------
// Begin and end.

/// The communicator is there before, and after, all that one rank could fail in.
std::unique_ptr<CheckpointManager::Impl> CheckpointManager::Impl::open(MPI_Comm parent, Checkpoint& state,
                                                                       const fs::path& path,
                                                                       ManagerOptions&& manager_options) {
  cluster::end_job_at_uncaught_errors();
  const auto ranks = cluster::Communicator::make(parent, manager::opening_timeout(manager_options));
  const auto make = [&] { return std::make_unique<Impl>(ranks, state, path, std::move(manager_options)); };
  return ranks->together(make, "opening the checkpoint directory");
}

CheckpointManager::Impl::Impl(const std::shared_ptr<cluster::Communicator>& ranks, Checkpoint& state,
                              const fs::path& path, ManagerOptions&& manager_options)
    : own_comm(ranks),
      comm(*ranks),
      checkpoint(state),
      environment(manager::agree_on_environment(comm, path, manager_options)),
      options(manager::in_environment(std::move(manager_options), environment)),
      drill(manager::agree_on_drill(comm)),
      directory(manager::agree_on_arguments(comm, manager::in_environment(path, environment), options, drill),
                options.prefix, options.durable),
      background(std::make_unique<manager::BackgroundSave>(*this)),
      exceptions_at_start_(std::uncaught_exceptions()),
      finalize_hook_([this] { at_finalize(); }) {
  core::log::set_rank(comm.rank());
  comm.set_timeout(manager::opening_timeout(options));
  comm.on_rank_0([this] { open_directory(); }, "opening the checkpoint directory");
  manager::check_directory_is_shared(comm, directory, lock);
  comm.set_timeout(options.io_timeout);
}

void CheckpointManager::Impl::open_directory() {
  run_record = core::open_run_record(comm.host());
  try {
    lock_directory();
  } catch (const Error& error) {
    run_record.write(events::OpenFailed{directory.path().string(), to_string(error.code()), error.what()});
    throw;
  }
}

void CheckpointManager::Impl::lock_directory() {
  std::error_code ignored;
  const bool in_new_directory = drill && !fs::exists(directory.path().parent_path(), ignored);
  directory.make(drill ? 2 : 1);
  manager::check_who_may_write(directory.opened(), directory.path());
  if (manager::is_open_in_this_process(directory.path() / manager::kLockName)) {
    throw UsageError(fmt::format(
        "this program has a checkpoint manager (or a handler) on the directory {} already: close that one "
        "first, or give each of them a directory of its own{}",
        directory.path().string(), environment.contains("directory") ? " (REPRIEVE_DIRECTORY is set)" : ""));
  }
  const auto self = manager::LockHolder::self(comm.host(), comm.size());
  lock.emplace(directory.path() / manager::kLockName, self, options.lock_timeout);
  if (!lock->is_in(directory.opened())) {
    throw StorageError(ErrorCode::io, fmt::format("the checkpoint directory {} was replaced while it was opened",
                                                  directory.path().string()));
  }
  core::failpoint("open.locked");
  manager::complete_commits(directory.opened(), options.durable);
  directory.remove_left_overs();
  core::failpoint("open.tidied");
  identity.emplace(directory.opened(), options.prefix, options.durable);
  if (!options.recycle && !options.reserve) {
    directory.remove_recycled();
  }
  if (options.event_log) {
    event_log = core::EventLog(directory.path() / manager::kEventLogName);
  }
  events::Start event{.host = self.host,
                      .pid = self.pid,
                      .world_size = self.world_size,
                      .directory = directory.path().string(),
                      .run = identity->run(),
                      .library_version = REPRIEVE_VERSION};
  if (!environment.empty()) {
    event.environment = environment;
  }
  if (!options.local_directory.empty()) {
    event.local_directory = options.local_directory;
  }
  if (in_new_directory) {
    event.in_new_directory = true;  // the drill removes it again
  }
  record(event);
}

/// Node-local copies are for the next start after a crash: a run that comes to an orderly end leaves none. A handler
/// knows whether it is one: what a program catches, or what a language reports by a code, is no exception here.
CheckpointManager::Impl::~Impl() {
  background->end();
  if (std::uncaught_exceptions() == exceptions_at_start_ && !comm.broken() && !local_copies_stay) {
    give_back_local_copies();
  }
  remove_recycled();
}

void CheckpointManager::Impl::at_finalize() noexcept {
  if (owner.is_here()) {
    background->end();
    if (local) {
      local->leave_mpi();
    }
    comm.leave_mpi();
  }
}

void CheckpointManager::Impl::remove_recycled() noexcept {
  if (!lock) {
    return;
  }
  try {
    lock->check_held();  // else the recycled file is another run's by now
    directory.release_reserve();
    if (identity) {
      identity->close();
    }
  } catch (const std::exception& error) {
    core::log::debug("the recycled file stays: {}", error.what());
  }
}

void CheckpointManager::Impl::mark_finished(std::uint64_t run_calls) {
  if (!comm.is_rank_0()) {
    return;
  }
  core::log::or_warn("the directory does not remember that the run is finished", [&] {
    lock->check_held();
    identity->set_finished(manager::mark_of_end(directory, *identity, run_calls));
  });
}

std::optional<std::uint64_t> CheckpointManager::Impl::finished_at() {
  const char* what = "looking whether the run is finished";
  const auto read_mark = [&] {
    const auto mark = comm.is_rank_0() ? identity->finished() : std::nullopt;
    // Since then something was saved, or somebody removed the newest to go back: then it is not finished.
    const bool holds = mark && manager::mark_of_end(directory, *identity, mark->run_calls) == *mark;
    return comm.max(holds ? static_cast<std::int64_t>(mark->run_calls) : -1, what);
  };
  const std::int64_t finished = comm.together(read_mark, what);
  return finished < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(finished));
}

void CheckpointManager::Impl::record(const core::Event& event) {
  if (comm.is_rank_0()) {
    event_log.write(event);
    run_record.write(event);
  }
}

const manager::Constants& CheckpointManager::Impl::constants() {
  const std::size_t registered = checkpoint.registry().constants.size();
  if (!constants_ || std::exchange(constants_registered_, registered) != registered) {
    constants_registered_ = registered;
    constants_ =
        manager::find_constants(checkpoint.registry(), options.array_task_is_constant, core::environment_variable);
  }
  return *constants_;
}

void CheckpointManager::Impl::check_constants(const std::filesystem::path& file, const manager::Constants& stored) {
  comm.on_rank_0([&] { manager::compare_constants(file, stored, constants()); },
                 "comparing what the checkpoint is about");
}

// ---------------------------------------------------------------------------------------------------------------------------
// Saves.

void CheckpointManager::Impl::get_ready_to_save(const char* call, const SaveRequest& request) {
  check_not_in_save_fn(call);
  comm.together([this] { check_state_is_whole(); }, "saving");
  background->wait();
  // Node-local copies must be of the same kind.
  gives_numbers = gives_numbers || request.number.has_value();
  uses_save_fn = uses_save_fn || request.save_fn != nullptr;
}

void CheckpointManager::Impl::save_in_background(const SaveRequest& request) {
  if (!detail::kWriters.at(static_cast<std::size_t>(options.writer)).in_background) {
    throw UsageError("this writer does not save in the background");
  }
  get_ready_to_save("save_in_background", request);
  background->begin(request);
}

manager::Commit CheckpointManager::Impl::newest_committed() {
  if (!newest_committed_) {
    newest_committed_.emplace();
    for (const manager::OrderEntry& entry : directory.in_order(identity->directory_id())) {
      if (entry.origin == manager::Origin::own) {
        newest_committed_ = {entry.run, entry.save, entry.number};
      }
    }
  }
  return *newest_committed_;
}

void CheckpointManager::Impl::note_committed(const storage::FileMetadata& metadata) {
  newest_committed_ = {metadata.identity->run, metadata.identity->save, metadata.number};
  identity->note_commit(*newest_committed_);
  last_commit = std::chrono::steady_clock::now();
}

void CheckpointManager::Impl::report_failure(const std::optional<std::uint64_t>& number, const Error& error) noexcept {
  core::log::or_warn(manager::kNotRecorded, [&] {
    record(events::SaveFailed{to_string(error.code()), error.what(), error.origin_rank(), number});
    if (comm.is_rank_0()) {
      core::log::error("{} was not saved: {}", number ? fmt::format("checkpoint {}", *number) : "a checkpoint",
                       error.what());
    }
  });
}

void CheckpointManager::Impl::check_not_in_save_fn(const char* call) const {
  if (in_save_fn) {
    throw UsageError(fmt::format(
        "{} was called in the save function, which is a part of a save of the same manager already: let the "
        "function write its files to context.write_directory, or set TerminationConfig::save_fn_mode "
        "(termination.save_fn_mode) to `instead` if it is to make the whole checkpoint",
        call));
  }
}

std::uint64_t CheckpointManager::Impl::choose_number(const SaveRequest& request) {
  if (request.number) {
    return *request.number;
  }
  const auto next = handler ? handler->number() : manager::HandlerLink::NextNumber{.number = 1};
  return directory.free_number(next.number, next.may_replace);
}

// ---------------------------------------------------------------------------------------------------------------------------
// Restores, and what there is to restore.

std::optional<CheckpointInfo> CheckpointManager::Impl::restore_or_initialize(const std::function<void()>& initialize) {
  const auto restore = [&] {
    std::optional<CheckpointInfo> restored = restore_newest(initialize);
    if (options.reserve) {
      manager::reserve_space(comm, checkpoint.registry(), directory, options);
    }
    if (restored) {
      uses_save_fn = uses_save_fn || restored->files_directory.has_value();
      lay_out_ahead();
    }
    return restored;
  };
  return comm.together(restore, "restoring");
}

std::optional<CheckpointInfo> CheckpointManager::Impl::restore_newest(const std::function<void()>& initialize) {
  agree_on_half_restored();
  bool has_local_copies = !options.local_directory.empty();
  const auto check_files = [&] {
    directory.check_checkpoints_are_files();
    has_local_copies = has_local_copies || directory.opened().contains(manager::kFlushedName);
  };
  comm.on_rank_0(check_files, "listing the checkpoints");
  has_local_copies = !drill && comm.max(has_local_copies ? 1 : 0, "listing the checkpoints") != 0;
  manager::RestoreFallback walk(*this);
  try {
    if (has_local_copies) {
      if (auto restored = manager::restore_local_copy(*this, walk)) {
        return restored;
      }
    }
    // Rank 0's view counts: on a network file system the other ranks may see an older one.
    if (auto restored = walk.newest(candidates())) {
      return restored;
    }
  } catch (const Error& error) {
    walk.report_half_restored(error);
    throw;
  }
  comm.on_rank_0([this] { directory.check_nothing_is_quarantined(); }, "listing the checkpoints");
  check_state_is_whole();
  if (initialize) {
    run_initialize(comm, initialize);
  } else if (cluster::life().leave) {  // a new launch has no values of lost steps, and loses nothing more
    cluster::life().leave("ranks have died before the first checkpoint, so the state may hold values of lost steps");
  }
  return std::nullopt;
}

/// The first save after a restart is often the last before the end of the job. The plan of a file of thousands of
/// variables takes a while, and is made now. Not where nothing was restored: the program's functions may not know its
/// state yet.
void CheckpointManager::Impl::lay_out_ahead() {
  constexpr std::size_t least_variables = 256;  // with fewer it takes no time
  const bool is_wanted = checkpoint.registry().variables.size() >= least_variables;
  if (comm.max(is_wanted ? 0 : 1, "laying out the first file") != 0) {
    return;
  }
  try {
    storage::FileMetadata metadata;
    comm.on_rank_0([&] { metadata.constants = constants(); }, "laying out the first file");
    storage::CheckpointWriter(comm, directory.file(0),
                              {options.writer, options.durable, options.io, {options.compress}, false}, layout)
        .plan_ahead(checkpoint.registry(), metadata);
  } catch (const UnresponsiveError&) {
    throw;
  } catch (const MpiError&) {
    throw;
  } catch (const Error& error) {  // on all ranks alike; the save will report it
    core::log::debug("no layout is made ahead: {}", error.what());
  }
}

void CheckpointManager::Impl::retire(std::uint64_t newest, manager::CheckpointDirectory::Retirement retirement) {
  const manager::RetentionPolicy policy{options.max_to_keep, options.keep_every};
  may_have_left_over = !retirement.remove;
  for (const std::uint64_t number : directory.retire(policy, newest, identity->directory_id(), retirement)) {
    record(events::Retired{number});
  }
}

std::vector<std::uint64_t> CheckpointManager::Impl::candidates() {
  return comm.from_rank_0([&] { return manager::find_candidates(directory, identity->directory_id()); }, kListing);
}

CheckpointInfo CheckpointManager::Impl::restore(const fs::path& file) {
  const auto restore = [&] {
    agree_on_half_restored();
    CheckpointInfo info = manager::RestoreFallback(*this).one(file);
    if (handler) {
      handler->restored(info);
    }
    return info;
  };
  return comm.together(restore, "restoring");
}

/// Where memory runs out on one rank, that rank alone knows it.
void CheckpointManager::Impl::agree_on_half_restored() {
  bool& is_so = checkpoint.registry().half_restored.is_so;
  is_so = comm.max(is_so ? 1 : 0, "restoring") != 0;
}

void CheckpointManager::Impl::check_state_is_whole() const {
  if (checkpoint.registry().half_restored.is_so) {
    throw UsageError(
        "a restore failed when it had overwritten a part of the variables: what the program has in memory is not one "
        "state, and is neither saved nor gone on with; start the program again");
  }
}

std::optional<CheckpointInfo> CheckpointManager::Impl::latest() {
  const char* what = "looking for the latest checkpoint";
  const auto find = [&]() -> std::optional<CheckpointInfo> {
    std::vector<manager::OrderEntry> entries = directory.in_order(identity->directory_id());
    manager::drop_foreign(entries);
    std::reverse(entries.begin(), entries.end());  // newest first
    for (const manager::OrderEntry& entry : entries) {
      if (auto info = directory.info(entry.number)) {
        return info;
      }
    }
    return std::nullopt;
  };
  return comm.together([&] { return comm.from_rank_0(find, what); }, what);
}

std::vector<CheckpointInfo> CheckpointManager::Impl::checkpoints() {
  const auto list = [&] {
    std::vector<CheckpointInfo> found;
    for (const manager::OrderEntry& entry : directory.in_order(identity->directory_id())) {
      if (const auto info = directory.info(entry.number)) {
        found.push_back(*info);
      }
    }
    return found;
  };
  return comm.together([&] { return comm.from_rank_0(list, kListing); }, kListing);
}

// What a manager does about node-local copies.

bool CheckpointManager::Impl::local_copy(const SaveRequest& request) {
  check_not_in_save_fn("local_copy");
  if (options.local_directory.empty()) {
    throw UsageError(
        "local_copy needs ManagerOptions::local_directory (checkpoints.local_directory), such as /dev/shm");
  }
  // A handler knows whether its saves have one. Alone, the manager goes by those that it has seen.
  if (request.save_fn || (uses_save_fn && !handler)) {
    throw UsageError("a node-local copy holds the registered state alone: it cannot hold what a save function writes");
  }
  comm.together([this] { check_state_is_whole(); }, "taking a node-local copy");
  if (local && local->has_lost_files()) {
    if (comm.is_rank_0()) {
      core::log::warning(
          "the files of the node-local copies in {} were removed while this job runs (by RemoveIPC, an epilog, a "
          "cleaner?): they are made again",
          options.local_directory);
    }
    local->wait();
    local.reset();
  }
  if (!local) {
    local = manager::LocalCopies::make(*this);
  }
  return local && local->take(request);
}

bool CheckpointManager::Impl::local_copy_alone(std::optional<std::uint64_t> number) {
  if (local && local->is_under_way()) {
    local->wait();
  }
  SaveRequest request;
  request.number = number;
  return local_copy(request);
}

void CheckpointManager::Impl::remove_local_left_overs() noexcept {
  if (!local && local_owner && manager::is_first_of_host(comm)) {
    core::log::or_warn(manager::kNotRecorded,
                       [this] { local_owner->node_directory(options).remove_left_overs(local_owner->launch); });
  }
}

void CheckpointManager::Impl::give_back_local_copies() noexcept {
  if (local) {
    local->give_back();
    local.reset();
  }
}

}  // namespace reprieve
