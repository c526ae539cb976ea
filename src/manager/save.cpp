// SPDX-License-Identifier: BSD-3-Clause
// Saving a checkpoint. The commit protocol:
//
// 1. Rank 0, which holds the lock of the directory, makes `<dir>/.chieftemp/` again, and chooses the time of
//    the save; all ranks check that they are asked for the same checkpoint.
// 2. The user's save function runs on every rank with a directory to write to: rank 0's is staged as
//    `.chieftemp/<prefix>-<number>.<time>.files`, and made durable if there is anything in it; those of the others are
//    scratch.
// 3. All ranks write the state into `.chieftemp/<prefix>-<number>.<time>.h5`, checksummed, complete and durable
//    (src/storage). That is a new file, or, if there is one, the recycled file: see below.
// 4. Rank 0 makes sure that it still holds the lock, renames the file to `<prefix>-<number>.h5`, and fsyncs the
//    directory. This rename is the commit.
// 5. Rank 0 renames the staged files directory to `<prefix>-<number>.files`. If it dies between 4 and 5, the
//    next run does this at its start: number and time in the name show whether the committed checkpoint is the one they
//    belong to. So a checkpoint that replaces another one of its number never has the files of the other.
// 6. Only then does rank 0 remove old checkpoints by the retention policy, and never the one just committed.
//    A thread frees their space. The save of a preemption removes none, since the process will end: the next save
//    does, when it begins. After that rank 0 calls the program's `after_commit`.
//
// The recycled file. Writing over the blocks that a file already owns is faster than writing a new one, and cannot run
// out of space. So in step 6 one of the retired files is kept:
//
// a. It is renamed to `.reprieve.recycled`, and the directory is fsynced: it no longer has a checkpoint's name,
//    also after a power cut, and nothing reads it.
// b. If it has another hard link, or another process on this node has it open, it is deleted after all.
// c. Its commit record is overwritten with zeros, and the file is fsynced: from here on no reader takes it for a
//    checkpoint, by whatever name.
//
// A thread does this from the fsync of a on, while the program continues.
//
// In step 3 it is renamed into `.chieftemp/`, b and c are done again (for the recycled file of a dead run, which may
// have died between them), and it gets the new length. Whatever dies while it is rewritten: it lies in the staging
// directory without a commit record, and the next start deletes it. The new commit record is written after the new
// data, and counts only after the rename of step 4, which comes after every rank's fsync. What the file is known to
// hold already is not written again (storage/write/write_item.cpp). Nothing old can show through: structure and tables
// are written as a whole, all blocks have checksums of the new state, and a state with elements that no rank holds
// (which must read as zero) gets a new file. After a failed save a rewritten file is deleted, never used again: a rank
// that hangs may still write to it.
//
// After each step all ranks agree on errors. On an error the temporary files are removed, everything older is kept, and
// every rank throws the same. Ranks of a killed run that live on cannot do harm: only rank 0 commits, and it holds the
// lock until its own death; the others at most continue writing into a staged file that is no longer there, or fail to
// open it, since the time in its name is that of their own save.

#include "manager/save.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <tuple>
#include <utility>

#include "core/directory.hpp"
#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "core/threads.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/local_copies.hpp"
#include "manager/node_directory.hpp"
#include "reprieve/error.hpp"
#include "storage/write/data_stream.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kFailed = "the save function failed: ";

/// The user's function, its errors marked as such.
void call_save_fn(const SaveFn& save_fn, const SaveFnContext& context) {
  try {
    save_fn(context);
  } catch (const StorageError& error) {
    throw StorageError(error.code(), kFailed + std::string(error.what()));
  } catch (const std::exception& error) {
    throw ClusterError(kFailed + std::string(error.what()));
  } catch (...) {
    throw ClusterError(kFailed + std::string("it threw something that is not a std::exception"));
  }
}

/// While it lives, the user's save function is running.
class InSaveFn {
 public:
  explicit InSaveFn(bool& flag) : flag_(flag) { flag_ = true; }
  ~InSaveFn() { flag_ = false; }
  InSaveFn(const InSaveFn&) = delete;
  InSaveFn& operator=(const InSaveFn&) = delete;

 private:
  bool& flag_;
};

}  // namespace

std::int64_t wall_clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// From the call to the commit and the clean-up. Nothing is left behind, however it ends. Members are collective unless
/// they say otherwise, and throw the same on every rank.
class [[gnu::visibility("hidden")]] Save {
 public:
  Save(CheckpointManager::Impl & manager, CheckpointManager::SaveRequest request, bool in_background)
      : manager_(manager),
        request_(std::move(request)),
        in_background_(in_background),
        what_(request_.number ? fmt::format("save {}", *request_.number) : "save") {
    if (!request_.run_calls && manager_.handler) {
      request_.run_calls = manager_.handler->run_calls();
    }
  }

  ~Save() {
    core::log::or_warn("temporary files of a save are left behind", [this] {  // no text is made: memory may be out
      scratch_.reset();
      if (began_) {
        manager_.lock->check_held();  // else the staging directory is another run's by now
        manager_.directory.recover();
      }
    });
  }

  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  /// Steps 1 and 2, and the layout of the file.
  void prepare() {
    begin();
    run_save_fn();
    lay_out();
  }

  /// Step 3, before it returns.
  void write() { writer_->write_together(); }

  /// Copies the state and lets a thread do step 3, unless a rank has no room for a copy: then nothing has happened.
  /// @param copy  the memory for it, which the thread shares
  bool write_in_background(const std::shared_ptr<storage::StateCopy>& copy) {
    cluster::Communicator& comm = manager_.comm;
    const std::uint64_t bytes = writer_->own_bytes();
    const std::uint64_t kept = std::min<std::uint64_t>(bytes, copy->capacity());
    if (!manager::copies_fit(comm, bytes - kept, step("copying the state"))) {
      return false;
    }
    bool has_room = true;
    try {
      writer_->copy_state(*copy);
      core::failpoint("save.copied");
    } catch (const std::bad_alloc&) {
      has_room = false;
    }
    if (comm.max(has_room ? 0 : 1, step("copying the state")) != 0) {
      return false;
    }
    comm.agree(core::capture([&] { task_.emplace([writer = writer_, copy] { writer->write_alone(); }); }),
               step("starting a thread"));
    blocked_ = Clock::now() - start_;
    return true;
  }

  /// Whether this rank's part is written, or has failed; before that the copy is in use. Not collective. Cost: one
  /// load.
  [[nodiscard]] bool written() const noexcept { return !task_ || task_->done(); }

  /// Waits until all ranks have written, then steps 4 to 6.
  SaveReport finish() {
    const auto resumed = task_ ? Clock::now() : start_;
    if (task_) {
      await_written();
    }
    writer_->complete();
    core::failpoint("save.durable");
    commit();
    core::failpoint("commit.done");
    if (manager_.local) {
      manager_.local->forget_older_than(save_);
    }
    const auto ended = Clock::now();
    SaveReport done = report(task_ ? blocked_ + task_->duration() + (ended - resumed) : ended - start_);
    record_finished(done);
    if (manager_.comm.is_rank_0()) {
      retire();
      call_after_commit(done.path);
    }
    return done;
  }

  [[nodiscard]] const CheckpointManager::SaveRequest& request() const noexcept { return request_; }

 private:
  using Clock = std::chrono::steady_clock;

  void begin() {
    cluster::Communicator& comm = manager_.comm;
    bool rank_0_was_asked = false;
    std::tie(staged_.number, staged_.time_us, save_, rank_0_was_asked) = comm.from_rank_0(
        [&] {
          manager_.lock->check_held();
          const std::uint64_t number = manager_.choose_number(request_);
          manager_.directory.prepare_staging(number);
          began_ = true;
          retire_left_over();
          metadata_.identity = manager_.identity->next_save();
          metadata_.constants = manager_.constants();
          core::failpoint("save.staged");
          return std::tuple(number, wall_clock_us(), metadata_.identity->save, request_.number.has_value());
        },
        step("preparing"));
    comm.agree(core::capture([&] {
                 if (request_.number.has_value() != rank_0_was_asked ||
                     request_.number.value_or(staged_.number) != staged_.number) {
                   throw UsageError(fmt::format(
                       "rank {} saves {} while rank 0 is saving {}", comm.rank(),
                       request_.number ? fmt::format("checkpoint {}", *request_.number) : "the next checkpoint",
                       rank_0_was_asked ? fmt::format("checkpoint {}", staged_.number) : "the next checkpoint"));
                 }
               }),
               step("preparing"));
    request_.number = staged_.number;
    manager_.last_number = staged_.number;
    what_ = fmt::format("save {}", staged_.number);
    manager_.record(events::SaveStarted{staged_.number, request_.reason, request_.run_calls});
  }

  void run_save_fn() {
    cluster::Communicator& comm = manager_.comm;
    bool files_written = false;
    comm.agree(
        core::capture([&] {
          if (!request_.save_fn) {
            return;
          }
          make_write_directory();
          const InSaveFn inside(manager_.in_save_fn);
          call_save_fn(request_.save_fn, {write_directory(), staged_.number, comm.is_rank_0(), request_.save_fn_args});
          files_written = comm.is_rank_0() && manager_.directory.keep_staged_files(staged_);
        }),
        step("the save function"));
    core::failpoint("save.files_written");
    has_files_ = comm.max(files_written ? 1 : 0, step("the save function")) != 0;
  }

  void lay_out() {
    storage::FileMetadata& metadata = metadata_;
    metadata.number = staged_.number;
    metadata.run_calls = request_.run_calls;
    metadata.world_size = manager_.comm.size();
    metadata.time_us = staged_.time_us;
    metadata.reason = request_.reason;
    metadata.has_files = has_files_;
    const ManagerOptions& options = manager_.options;
    std::optional<std::uint64_t> left_by;  // the save that has left it
    manager_.comm.on_rank_0(
        [&] {
          if (options.recycle || options.reserve) {
            left_by = manager_.directory.take_recycled(staged_);
          }
        },
        step("taking the recycled file"));
    writer_ = std::make_shared<storage::CheckpointWriter>(
        manager_.comm, manager_.directory.staged_file(staged_),
        storage::WriteOptions{options.writer,
                              options.durable,
                              options.io,
                              {options.compress},
                              left_by.has_value(),
                              left_by.value_or(0),
                              save_,
                              in_background_,
                              !std::exchange(manager_.has_compared_replicated, true)},
        manager_.layout);
    writer_->plan(manager_.checkpoint.registry(), metadata);
    core::failpoint("save.laid_out");
  }

  void await_written() {
    const auto limit = manager_.options.io_timeout;
    manager_.comm.agree(core::capture([&] {
                          if (!task_->wait_for(limit)) {
                            throw StorageError(
                                ErrorCode::io,
                                fmt::format("{} is not written after {} s: the file system does not answer",
                                            manager_.directory.staged_file(staged_).string(),
                                            std::chrono::duration_cast<std::chrono::seconds>(limit).count()));
                          }
                          if (const core::Outcome outcome = task_->outcome()) {
                            core::throw_failure(*outcome);
                          }
                        }),
                        step("writing in the background"));
  }

  void commit() {
    manager_.comm.on_rank_0(
        [&] {
          manager_.lock->check_held();
          const auto& identity = *metadata_.identity;
          manager_.identity->begin_commit({identity.run, identity.save, metadata_.number}, metadata_.time_us);
          try {
            manager_.directory.commit(staged_, has_files_);
          } catch (const Error&) {
            manager_.identity->cancel_commit();
            throw;
          }
          manager_.directory.remember(staged_.number, metadata_);
          manager_.note_committed(metadata_);
          manager_.identity->clear_finished();
        },
        step("committing"));
  }

  /// What the save of a preemption has left, mostly that of the start before: its space is freed while this one is
  /// written. Removed by a save alone, never by the start of a program: that may only want to look.
  void retire_left_over() {
    if (!manager_.may_have_left_over || manager_.options.max_to_keep == 0 || manager_.drill) {
      return;
    }
    core::log::or_warn("tidying up before the save failed", [&] {
      const auto kept = manager_.directory.in_order(manager_.identity->directory_id());
      if (!kept.empty()) {
        manager_.retire(kept.back().number, {.recycle = manager_.options.recycle, .remove = true});
      }
    });
  }

  /// The checkpoint is committed: what goes wrong from here on is not an error of the save.
  void retire() {
    core::log::or_warn("tidying up after the save failed", [&] {
      core::failpoint("retire.begun");
      if (manager_.drill && manager_.drill->save_at && request_.run_calls >= manager_.drill->save_at) {
        return;  // the drill still needs that step
      }
      if (manager_.directory.opened().contains(kFlushedName)) {
        remove_flushed_parts(manager_.directory.opened(), manager_.options.prefix, *metadata_.identity);
      }
      // A program that must end at once does not wait for a file system to free space.
      const bool may_take_time = request_.reason.kind != SaveReason::Kind::preemption;
      manager_.retire(staged_.number, {.recycle = manager_.options.recycle, .remove = may_take_time});
      core::failpoint("retire.done");
      if (manager_.options.reserve) {
        manager_.directory.reserve(fs::file_size(manager_.directory.file(staged_.number)));
      }
    });
  }

  void call_after_commit(const fs::path& file) {
    if (!manager_.options.after_commit || manager_.drill) {
      return;
    }
    core::log::or_warn("the checkpoint is saved, but ManagerOptions::after_commit failed", [&] {
      try {
        manager_.options.after_commit(file);
      } catch (const std::exception&) {
        throw;
      } catch (...) {
        throw Error(ErrorCode::usage, "it threw something that is not a std::exception");
      }
    });
  }

  void record_finished(const SaveReport& report) {
    const std::string file = report.path.filename().string();
    manager_.record(events::SaveFinished{report.number, file, report.bytes, report.seconds, report.blocked_seconds,
                                         request_.reason, request_.run_calls});
    if (manager_.comm.is_rank_0()) {
      core::log::info("saved {}: {} bytes of state in {} ({})", file, report.bytes, core::seconds_text(report.seconds),
                      to_string(request_.reason.kind));
    }
  }

  /// @param mine  what the save took on this rank, without the time between the end of the thread and its commit
  [[nodiscard]] SaveReport report(Clock::duration mine) {
    const auto slowest = [this](Clock::duration duration) {
      const auto us = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
      return static_cast<double>(manager_.comm.max(us, step("committing"))) * 1e-6;
    };
    const double seconds = slowest(mine);
    const double blocked = task_ ? slowest(mine - task_->duration()) : seconds;
    return {manager_.directory.file(staged_.number), staged_.number, writer_->state_bytes(), seconds, blocked};
  }

  [[nodiscard]] std::string step(const char* name) const { return what_ + ": " + name; }

  [[nodiscard]] fs::path write_directory() const {
    return scratch_ ? scratch_->path() : manager_.directory.staged_files_directory(staged_);
  }

  void make_write_directory() {
    if (manager_.comm.is_rank_0()) {
      manager_.directory.make_staged_files(staged_);
    } else {
      scratch_.emplace(manager_.directory.path(), manager_.comm.rank());
    }
  }

  CheckpointManager::Impl& manager_;
  CheckpointManager::SaveRequest request_;
  bool in_background_;  ///< as far as there is memory for it
  std::string what_;
  Clock::time_point start_ = Clock::now();
  StagedName staged_{};
  bool began_ = false;                           ///< rank 0: the staging directory is there
  std::optional<core::WriteDirectory> scratch_;  ///< for the save function, on ranks other than rank 0
  bool has_files_ = false;
  std::uint64_t save_ = 0;  ///< counted over all runs of the directory
  storage::FileMetadata metadata_;
  /// Shared with the thread, which may outlive the save.
  std::shared_ptr<storage::CheckpointWriter> writer_;
  std::optional<core::BackgroundTask> task_;
  Clock::duration blocked_{};  ///< background: until the thread took over
};

std::uint64_t save_by_function(CheckpointManager::Impl& manager, const CheckpointManager::SaveRequest& request) {
  const std::uint64_t number =
      manager.comm.from_rank_0([&] { return manager.choose_number(request); }, "the save function");
  const std::string what = fmt::format("save {}: the save function", number);
  std::optional<core::WriteDirectory> scratch;
  manager.comm.agree(core::capture([&] {
                       if (!manager.comm.is_rank_0()) {
                         scratch.emplace(manager.directory.path(), manager.comm.rank());
                       }
                     }),
                     what);
  const core::Outcome outcome = core::capture([&] {
    call_save_fn(request.save_fn, {scratch ? scratch->path() : manager.directory.path(), number,
                                   manager.comm.is_rank_0(), request.save_fn_args});
  });
  scratch.reset();
  manager.comm.agree(outcome, what);
  return number;
}

BackgroundSave::BackgroundSave(CheckpointManager::Impl& manager) : manager_(manager) {}
BackgroundSave::~BackgroundSave() = default;

std::uint64_t BackgroundSave::written() const noexcept { return begun_ - (save_ && !save_->written() ? 1 : 0); }

/// Where its thread still writes, that keeps the copy.
void BackgroundSave::note_failure(const Save& save) noexcept {
  if (!save.written()) {
    copy_.reset();
  }
}

void BackgroundSave::begin(const CheckpointManager::SaveRequest& request) {
  std::unique_ptr<Save> save;
  try {
    // On all ranks, or on none.
    if (manager_.comm.together([&] { return start(save, request); }, "saving in the background")) {
      save_ = std::move(save);
      ++begun_;
    }
  } catch (const Error& error) {
    if (save) {
      note_failure(*save);
    }
    manager_.report_failure(request.number, error);
    throw;
  }
}

/// @param save  becomes the save that is under way, or that has failed
/// @return false if there was no room for a copy and the save is done
bool BackgroundSave::start(std::unique_ptr<Save>& save, const CheckpointManager::SaveRequest& request) {
  save = std::make_unique<Save>(manager_, request, true);
  save->prepare();
  if (!copy_) {
    copy_ = std::make_shared<storage::StateCopy>();
  }
  if (save->write_in_background(copy_)) {
    return true;
  }
  if (manager_.comm.is_rank_0()) {
    core::log::warning("a rank has no room for a copy of its state: checkpoint {} is not written in the background",
                       *save->request().number);
  }
  save->write();
  save->finish();
  return false;
}

std::optional<SaveReport> BackgroundSave::finish() {
  manager_.check_not_in_save_fn("a member");
  if (!save_) {
    return std::nullopt;
  }
  const auto save = std::exchange(save_, nullptr);
  try {
    return manager_.comm.together([&] { return save->finish(); }, "committing a save of the background");
  } catch (const Error& error) {
    note_failure(*save);
    manager_.report_failure(save->request().number, error);
    throw;
  }
}

void BackgroundSave::wait() {
  try {
    finish();
  } catch (const Error& error) {
    // A file that could not be written, or missing memory, has been reported. What comes now does not depend on it.
    if (dynamic_cast<const StorageError*>(&error) == nullptr && error.code() != ErrorCode::no_memory) {
      throw;
    }
  }
}

/// Without the other ranks it cannot be committed.
void BackgroundSave::end() noexcept {
  if (save_ && !manager_.comm.broken() && std::uncaught_exceptions() == 0) {
    try {
      finish();
    } catch (const std::exception& error) {
      core::log::error("the save in the background did not end: {}", error.what());
    }
  }
}

namespace {

/// One part in so many stays free.
constexpr std::uint64_t kFreePart = 16;

struct Shared {
  std::uint64_t needed = 0;
  std::uint64_t available = UINT64_MAX;

  void add(std::uint64_t bytes, std::uint64_t left) {
    needed += bytes;
    available = std::min(available, left);
  }
  [[nodiscard]] bool is_too_small() const { return needed > available - available / kFreePart; }
};

}  // namespace

std::string why_copies_do_not_fit(std::span<const CopyDemand> demands) {
  std::map<std::pair<std::string, std::string>, Shared> hosts_and_groups;  // host; its control group, or nothing
  for (const CopyDemand& demand : demands) {
    hosts_and_groups[{demand.host, ""}].add(demand.bytes, demand.available.of_node);
    if (!demand.available.group.empty()) {
      hosts_and_groups[{demand.host, demand.available.group}].add(demand.bytes, demand.available.of_group);
    }
  }
  for (const auto& [host_and_group, shared] : hosts_and_groups) {
    if (shared.is_too_small()) {
      return fmt::format("copies of the state need {} on {}{}, and {} are available", core::size_text(shared.needed),
                         host_and_group.first,
                         host_and_group.second.empty() ? "" : " in the control group " + host_and_group.second,
                         core::size_text(shared.available));
    }
  }
  return {};
}

bool copies_fit(cluster::Communicator& comm, std::uint64_t bytes, const std::string& what, bool logs_reason,
                const std::function<core::AvailableMemory()>& find_available) {
  if (comm.max(static_cast<std::int64_t>(bytes), what) == 0) {
    return true;  // all have memory from the last time
  }
  const auto demands = comm.gather_values(CopyDemand{comm.host(), bytes, find_available()}, what);
  std::string reason;
  comm.on_rank_0([&] { reason = why_copies_do_not_fit(demands); }, what);
  if (!reason.empty() && logs_reason) {
    core::log::warning("{}: {}", what, reason);
  }
  return comm.max(reason.empty() ? 0 : 1, what) == 0;
}

namespace {

/// This rank's share of a file, filled with zeros. Blocks that have been written once are faster to write again than
/// blocks that are only allocated.
void write_zeros(const core::FileAddress& recycled, std::uint64_t size, std::uint64_t rank, std::uint64_t ranks,
                 const ManagerOptions& options) {
  const storage::PosixFile file = storage::PosixFile::open_to_write(recycled);
  const std::uint64_t end = size / ranks * (rank + 1) + (rank + 1 == ranks ? size % ranks : 0);
  const storage::Bytes zeros(storage::kStreamBufferBytes);
  storage::DataStream stream(file, options.io, size / ranks);
  for (std::uint64_t offset = size / ranks * rank; offset < end; offset += zeros.size()) {
    stream.write(std::span(zeros).first(static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), end - offset))),
                 offset);
  }
  stream.finish();
  file.sync();
}

}  // namespace

void reserve_space(cluster::Communicator& comm, const Checkpoint::Registry& state, CheckpointDirectory& directory,
                   const ManagerOptions& options) {
  const std::string what = "reserving the space for a checkpoint";
  const std::uint64_t size =
      storage::most_checkpoint_bytes(comm, state, {.writer = options.writer, .compress = {options.compress}});
  try {
    comm.on_rank_0([&] { directory.reserve(size); }, what);
    comm.agree(core::capture([&] {
                 write_zeros(directory.recycled(), size, static_cast<std::uint64_t>(comm.rank()),
                             static_cast<std::uint64_t>(comm.size()), options);
               }),
               what);
  } catch (const StorageError&) {
    if (comm.is_rank_0()) {
      directory.release_reserve();
    }
    throw;
  }
}

}  // namespace reprieve::manager

namespace reprieve {

/// From the call to the commit.
SaveReport CheckpointManager::Impl::save(const SaveRequest& request) {
  get_ready_to_save("save", request);
  try {
    return comm.together(
        [&] {
          manager::Save save(*this, request, false);
          save.prepare();
          save.write();
          return save.finish();
        },
        "saving");
  } catch (const Error& error) {
    report_failure(request.number, error);
    throw;
  }
}

}  // namespace reprieve
