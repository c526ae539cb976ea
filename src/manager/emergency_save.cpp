// SPDX-License-Identifier: BSD-3-Clause
// The emergency save. The job is about to end, and no step boundary comes at which all ranks could save together: the
// step is longer than the grace period, or a rank hangs, or is gone. Then a thread of each rank that knows of the
// notice does this, without a word to any other rank:
//
// 1. It flushes the newest complete part of its rank into the checkpoint directory, as `reprieve drain` does. There
//    every node can read it, when this one is gone.
// 2. It waits about as long as that took, so that the others come to the same. Then one rank of each host flushes those
//    parts of the copy that lie on this host and were not flushed: of a rank that is stopped, or of another host that
//    this one is the partner of.
// 3. If parts of that copy are still missing, perhaps because a rank had not completed it, the older copy follows.
//
// There is no commit. The next start finds the parts, and makes a checkpoint file of them if all of them are there and
// newer than all checkpoints (local_finish.cpp). A save of all ranks that is done in time is newer, and ends all this.
//
// The program continues meanwhile, and may write over a part. What was read then is not kept: a part that is written
// again loses its commit record first.

#include "manager/emergency_save.hpp"

#include <sys/file.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/log.hpp"
#include "manager/checkpoint_directory.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPollWhileWaiting{50};
/// How long the others are given to flush theirs: at least this, and at most that.
constexpr Clock::duration kLeastWaitForOthers = milliseconds(500);
constexpr Clock::duration kMostWaitForOthers = std::chrono::seconds(10);
constexpr milliseconds kEmergencyEndLimit{10'000};
/// A save whose file has not changed for so long makes no progress.
constexpr Clock::duration kNoProgress = std::chrono::seconds(3);

}  // namespace

/// All that the thread uses: it may be left behind.
struct EmergencySave::Work {
  Work(core::Directory checkpoint_directory, NodeDirectory where, Rank who)
      : checkpoints(std::move(checkpoint_directory)), node_directory(std::move(where)), self(std::move(who)) {}

  const core::Directory checkpoints;
  const NodeDirectory node_directory;
  const Rank self;
  std::atomic<bool> stopped{false};
  std::atomic<Clock::rep> holds_until{0};  ///< 0: nothing holds it
  std::set<std::string> flushed;           ///< files; for others only when the thread is done

  void run() {
    try {
      flush();
    } catch (const Error& error) {
      core::log::warning("rank {} could not flush its node-local copy to {}: {}", self.rank,
                         checkpoints.path().string(), error.what());
    }
  }

 private:
  void flush() {
    const auto start = Clock::now();
    const std::vector<FoundPart> here = parts();
    const auto newest = std::ranges::find(here, self.rank, [](const FoundPart& part) { return part.name.rank; });
    if (newest == here.end() || !has_room_for(*newest) || !flush_own(here)) {
      return;
    }
    wait(std::clamp(Clock::now() - start, kLeastWaitForOthers, kMostWaitForOthers));
    complete(here);
  }

  /// Of this run, on this host; of the newest copy first.
  [[nodiscard]] std::vector<FoundPart> parts() const {
    std::vector<FoundPart> found = node_directory.list({});
    std::erase_if(found, [&](const FoundPart& part) {
      return part.name.copy.launch != self.launch || part.name.copy.ranks != self.ranks;
    });
    std::ranges::sort(found, [](const auto& a, const auto& b) { return is_newer(a.name.copy.save, b.name.copy.save); });
    return found;
  }

  /// False if the part is not there any more, or if this was stopped.
  bool flush(const FoundPart& part) {
    flushed.insert(part.file);
    return node_directory.flush(part, checkpoints, [this] { return may_continue(); });
  }

  /// Step 1. The newest that can be had.
  [[nodiscard]] bool flush_own(const std::vector<FoundPart>& parts) {
    const auto start = Clock::now();
    for (const FoundPart& part : parts) {
      if (part.name.rank == self.rank && flush(part)) {
        core::log::info("rank {} has flushed its node-local copy at step {} to {} in {}, without the other ranks",
                        self.rank, part.name.copy.step(), checkpoints.path().string(),
                        core::seconds_text(std::chrono::duration<double>(Clock::now() - start).count()));
        return true;
      }
    }
    return false;
  }

  /// Steps 2 and 3, by the rank that comes first: the others of the host have nothing to add.
  void complete(const std::vector<FoundPart>& parts) {
    const auto directory = node_directory.find();
    if (!directory || ::flock(directory->descriptor(), LOCK_EX | LOCK_NB) != 0) {
      return;
    }
    for (auto part = parts.begin(); part != parts.end() && may_continue();) {
      const auto start = Clock::now();
      const auto first = part;
      const auto there = names_of_flushed_parts(checkpoints);
      for (; part != parts.end() && part->name.copy == first->name.copy; ++part) {
        if (!has_part(there, part->name.rank, NodeDirectory::slot_of(part->file))) {
          static_cast<void>(flush(*part));
        }
      }
      wait(std::clamp(Clock::now() - start, kLeastWaitForOthers, kMostWaitForOthers));
      if (is_complete(*first)) {
        return;
      }
    }
  }

  /// By the names alone: there may be ten thousand parts. The slot is the same for all parts of a copy.
  [[nodiscard]] bool is_complete(const FoundPart& one_part) const {
    const auto there = names_of_flushed_parts(checkpoints);
    const int slot = NodeDirectory::slot_of(one_part.file);
    for (int rank = 0; rank < self.ranks; ++rank) {
      if (!has_part(there, rank, slot)) {
        return false;
      }
    }
    return true;
  }

  /// From its own host, or from that of its partner.
  [[nodiscard]] bool has_part(const std::set<std::string>& names, int rank, int slot) const {
    return names.contains(NodeDirectory::part_name(self.launch, rank, slot)) ||
           names.contains(NodeDirectory::partner_part_name(self.launch, rank, slot));
  }

  /// For the parts of all ranks, if they are about as large as this one, and for the file of a save that may still come
  /// in time, if that has no space yet. A full disk would help nobody.
  [[nodiscard]] bool has_room_for(const FoundPart& mine) const {
    const std::uint64_t available = checkpoints.available_bytes().value_or(UINT64_MAX);
    const std::uint64_t copies = checkpoints.contains(kRecycledName) ? 1 : 2;
    const std::uint64_t needed = copies * mine.bytes * static_cast<std::uint64_t>(self.ranks);
    if (needed > available) {
      core::log::warning("rank {} does not flush its node-local copy: {} has {} bytes left, and {} would be needed",
                         self.rank, checkpoints.path().string(), available, needed);
    }
    return needed <= available;
  }

  void wait(Clock::duration time) const {
    const auto end = Clock::now() + time;
    while (!stopped && Clock::now() < end) {
      std::this_thread::sleep_for(kPollWhileWaiting);
    }
  }

  /// What changes when a rank, on any node, writes to the staged file of a save: sizes, blocks, times.
  [[nodiscard]] std::array<std::int64_t, 4> staged() const {
    std::array<std::int64_t, 4> found{};
    try {
      const auto staging = checkpoints.find_directory(kStagingName);
      for (const core::DirectoryEntry& entry : staging ? staging->list() : std::vector<core::DirectoryEntry>()) {
        if (const auto status = staging->status_of(entry.name)) {
          found[0] += status->st_size;
          found[1] += status->st_blocks;
          found[2] += status->st_mtim.tv_sec;
          found[3] += status->st_mtim.tv_nsec;
        }
      }
    } catch (const StorageError&) {
      // The save may remove it at any moment.
    }
    return found;
  }

  /// Waits while a checkpoint is written. False if there is nothing more to be done.
  [[nodiscard]] bool may_continue() const {
    auto last = Clock::time_point::min();  // the last progress that was seen
    auto before = holds_until == 0 ? std::array<std::int64_t, 4>{} : staged();
    const auto is_held = [&] {
      const Clock::time_point now = Clock::now();
      return holds_until != 0 && (now.time_since_epoch().count() < holds_until || (last > now - kNoProgress));
    };
    while (!stopped && is_held()) {
      std::this_thread::sleep_for(kPollWhileWaiting);
      if (const auto after = staged(); after != before) {
        before = after;
        last = Clock::now();
      }
    }
    return !stopped;
  }
};

EmergencySave::EmergencySave(const core::Directory& checkpoints, const NodeDirectory& node_directory, Rank rank)
    : work_(std::make_shared<Work>(core::Directory::open(checkpoints.path()), node_directory, std::move(rank))) {
  if (!work_->checkpoints.is(checkpoints)) {
    throw StorageError(ErrorCode::io, checkpoints.path().string() + ": it is another directory than it was");
  }
}

EmergencySave::~EmergencySave() { stop(); }

void EmergencySave::begin() {
  const std::lock_guard lock(mutex_);
  if ((!task_ || task_->done()) && !work_->stopped) {
    task_.emplace([work = work_] { work->run(); });
  }
}

void EmergencySave::hold(milliseconds least) noexcept {
  work_->holds_until = (Clock::now() + least).time_since_epoch().count();
}

void EmergencySave::release() noexcept { work_->holds_until = 0; }

bool EmergencySave::is_at_work() const noexcept {
  const std::lock_guard lock(mutex_);
  return task_ && !task_->done();
}

/// A thread that a dead file system holds is left behind.
void EmergencySave::stop() noexcept {
  const std::lock_guard lock(mutex_);
  work_->stopped = true;
  if (task_ && !task_->wait_for(kEmergencyEndLimit)) {
    core::log::warning("a node-local copy is still being flushed to {}", work_->checkpoints.path().string());
  }
}

void EmergencySave::end() noexcept {
  stop();
  const std::lock_guard lock(mutex_);
  if (task_ && task_->done()) {
    remove_flushed_parts(work_->checkpoints, std::exchange(work_->flushed, {}));
  }
}

}  // namespace reprieve::manager
