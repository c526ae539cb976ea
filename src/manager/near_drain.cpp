// SPDX-License-Identifier: BSD-3-Clause
// A near copy becomes a checkpoint, on one node or on several that do not know each other:
//
// 1. Under the lock of the directory: if every part of a copy lies on this node or was brought into the directory
//    before, the newest such copy is written into a checkpoint file, which is committed as any other.
// 2. Otherwise the node brings its parts into the directory, without the lock, since others do the same.
// 3. Then again 1: the last node finds all parts. If that one is gone, the next start of the program looks for more on
//    its own nodes.
// Parts that are no newer than a checkpoint are of no use any more, and are removed: by a node that comes before the
// last one, only if it comes once more.

#include "manager/near_drain.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/log.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/near_place.hpp"
#include "reprieve/error.hpp"
#include "storage/near/part_items.hpp"
#include "storage/read/inspect_file.hpp"
#include "storage/write/file_plan.hpp"

namespace reprieve::manager {

namespace {

std::string name_of(const ListedPart& part) { return part.host + '/' + part.file; }

std::string id_of(const CheckpointDirectory& checkpoints) {
  const auto record = read_directory_record(checkpoints.place());
  return record ? record->id : std::string();
}

}  // namespace

NearTarget near_target(CheckpointDirectory& checkpoints, const std::string& directory_id, const std::string& prefix) {
  NearTarget target{directory_id, checkpoints.place().status().st_ino, prefix};
  for (const OrderEntry& entry : checkpoints.in_order(directory_id)) {
    if (entry.origin == Origin::own) {
      target.newest_checkpoint = {entry.directory_id, entry.run, entry.save};
    }
    target.has_unreadable = target.has_unreadable || entry.origin == Origin::unreadable;
  }
  return target;
}

void check_none_may_be_newer(CheckpointDirectory& checkpoints, const std::string& directory_id,
                             const storage::NearCopy& copy) {
  for (const OrderEntry& entry : checkpoints.in_order(directory_id)) {
    if (entry.origin != Origin::unreadable || entry.number < copy.number) {
      continue;
    }
    try {
      static_cast<void>(storage::read_metadata(checkpoints.file(entry.number)));
    } catch (const CorruptError&) {
      // A damaged one is no newer state.
    }
  }
}

NearDrain::NearDrain(CheckpointDirectory& checkpoints, Options options)
    : checkpoints_(checkpoints),
      options_(std::move(options)),
      directory_id_(id_of(checkpoints)),
      place_(options_.near_directory, directory_id_, checkpoints.place().status().st_ino, options_.prefix) {}

DrainResult NearDrain::run() {
  if (directory_id_.empty()) {
    return {};  // no run of a version that takes near copies was ever here
  }
  DrainResult result;
  std::vector<ListedCopy> copies;
  {
    DirectoryLock lock = take_lock();
    copies = wanted();
    const bool newest_is_complete = !copies.empty() && copies.front().is_complete();
    if (copies.empty() || newest_is_complete || options_.dry_run) {
      return complete_newest(lock);
    }
  }
  // Of the newest copy first: other nodes may have the rest of it, and an older one that is complete can wait.
  const std::size_t brought = bring(copies);
  {
    DirectoryLock lock = take_lock();
    result = complete_newest(lock);
    result.brought = brought;
  }
  return result;
}

DirectoryLock NearDrain::take_lock() const {
  return {checkpoints_.path() / kLockName, options_.self, options_.lock_timeout,
          options_.dry_run ? DirectoryLock::Mark::kept : DirectoryLock::Mark::written};
}

std::vector<ListedPart> NearDrain::list() const {
  std::vector<ListedPart> parts;
  const auto add = [&](const std::string& host, std::vector<FoundPart> found) {
    for (FoundPart& part : found) {
      ListedPart listed{host, std::move(part.file), std::move(part.name)};
      if (!damaged_.contains(name_of(listed))) {
        parts.push_back(std::move(listed));
      }
    }
  };
  add("", brought_parts(checkpoints_.place()));
  add(options_.self.host, place_.list());
  return parts;
}

std::vector<ListedCopy> NearDrain::wanted() {
  return wanted_copies(list(), near_target(checkpoints_, directory_id_, options_.prefix));
}

/// Step 1.
DrainResult NearDrain::complete_newest(DirectoryLock& lock) {
  for (;;) {
    const std::vector<ListedCopy> copies = wanted();
    const auto complete = std::ranges::find_if(copies, &ListedCopy::is_complete);
    if (complete == copies.end()) {
      if (!options_.dry_run) {
        give_back(near_target(checkpoints_, directory_id_, options_.prefix).newest_checkpoint);
      }
      if (copies.empty()) {
        return {};
      }
      return {.kind = DrainResult::Kind::incomplete,
              .copy = copies.front().copy,
              .missing = copies.front().missing(),
              .why_incomplete = copies.front().incomplete_text()};
    }
    const storage::NearCopy& copy = complete->copy;
    try {
      check_none_may_be_newer(checkpoints_, directory_id_, copy);
      if (!options_.dry_run) {
        make_checkpoint(*complete, lock);
        give_back(copy.save);
      }
      return {.kind = DrainResult::Kind::completed,
              .copy = copy,
              .file = checkpoints_.path() / format_name(options_.prefix, copy.number, kCheckpointSuffix)};
    } catch (const CorruptError& error) {
      checkpoints_.recover();
      if (damaged_.empty()) {
        throw;  // of no part
      }
      core::log::error("a near copy at step {} is damaged and passed over: {}", copy.run_calls.value_or(copy.number),
                       error.what());
    } catch (const Error&) {
      checkpoints_.recover();
      throw;
    }
  }
}

/// Each part is verified while it is written.
void NearDrain::make_checkpoint(const ListedCopy& copy, DirectoryLock& lock) {
  const StagedName staged{copy.copy.number, copy.copy.time_us};
  constexpr bool kDurable = true;
  std::optional<storage::StructureImage> image;
  storage::FileIndex index;
  std::vector<storage::Bytes> checksums(copy.parts.size());
  for (std::size_t rank = 0; rank < copy.parts.size(); ++rank) {
    const ListedPart& place = copy.parts[rank].front();
    try {
      const storage::Part part = open(place);
      if (part.name() != storage::PartName{copy.copy, static_cast<int>(rank)}) {
        throw CorruptError("it is another part than it was");
      }
      if (rank == 0) {
        image = part.tables().image;
        if (!image) {
          throw CorruptError("the part of rank 0 has no structure");
        }
        index = image->index(place.file);
        if (index.metadata.world_size != copy.copy.ranks) {
          throw CorruptError("a near copy is of another number of ranks than it says");
        }
        checkpoints_.prepare_staging(staged.number);
        storage::begin_assembly(checkpoints_.staged_file(staged), *image);
      }
      storage::add_part(checkpoints_.staged_file(staged), part, index, kDurable);
      const auto words = std::as_bytes(std::span(part.tables().checksums));
      checksums[rank].assign(words.begin(), words.end());
    } catch (const CorruptError&) {
      damaged_.insert(name_of(place));
      throw;
    }
  }
  storage::place_checksums(index, checksums);
  storage::end_assembly(checkpoints_.staged_file(staged), *image, index, kDurable);
  lock.check_held();
  checkpoints_.commit(staged, false);
  checkpoints_.recover();
}

storage::Part NearDrain::open(const ListedPart& part) const {
  if (part.host.empty()) {
    return storage::Part(open_brought_part(checkpoints_.place(), part.file));
  }
  const auto directory = place_.find();
  if (!directory) {
    throw CorruptError("the place of near copies is gone");
  }
  return storage::Part(
      storage::PosixFile(core::FileAddress(directory->path() / part.file), directory->open_file(part.file, O_RDONLY)));
}

/// What is no newer than that checkpoint.
void NearDrain::give_back(const storage::SaveIdentity& newest) {
  remove_brought_parts(checkpoints_.place(), options_.prefix, newest);
  place_.remove_left_overs(newest.run);
  place_.remove_up_to(newest);
}

/// Step 2. Returns how many.
std::size_t NearDrain::bring(const std::vector<ListedCopy>& copies) const {
  const auto directory = place_.find();
  std::size_t brought = 0;
  for (const ListedCopy& copy : copies) {
    if (copy.is_complete()) {
      break;  // it needs nothing, and makes all older ones useless
    }
    for (const std::vector<ListedPart>& places : copy.parts) {
      const bool is_there = std::ranges::any_of(places, [](const ListedPart& part) { return part.host.empty(); });
      if (is_there || places.empty() || !directory) {
        continue;
      }
      brought += bring(*directory, places.front()) ? 1U : 0U;
    }
  }
  return brought;
}

/// False if it has gone meanwhile: another drain on this node may have been faster.
bool NearDrain::bring(const core::Directory& directory, const ListedPart& part) const {
  try {
    const storage::PosixFile file(core::FileAddress(directory.path() / part.file),
                                  directory.open_file(part.file, O_RDONLY));
    return bring_part(file, {part.file, part.name, 0}, checkpoints_.place(), [] { return true; });
  } catch (const StorageError&) {
    if (directory.contains(part.file)) {
      throw;
    }
    return false;
  }
}

std::set<std::string> drainable_prefixes(const CheckpointDirectory& checkpoints,
                                         const std::filesystem::path& near_directory) {
  const std::string id = id_of(checkpoints);
  const std::uint64_t inode = checkpoints.place().status().st_ino;
  std::set<std::string> prefixes;
  const auto add = [&](const std::vector<FoundPart>& parts) {
    for (const FoundPart& part : parts) {
      if (part.name.copy.save.directory_id == id && part.name.copy.directory_inode == inode) {
        prefixes.insert(part.name.copy.prefix);
      }
    }
  };
  for (const NearFolder& folder : near_folders(near_directory)) {
    add(folder.parts);
  }
  add(brought_parts(checkpoints.place()));
  return prefixes;
}

// The rescue of a near copy. The job is about to end, and no step boundary comes at which all ranks could save
// together: the step is longer than the grace period, or a rank hangs, or is gone. Then a thread of each rank that
// knows of the notice does this, without a word to any other rank:
//
// 1. It brings the newest complete part of its rank into the checkpoint directory, as `reprieve drain` does. There
// every
//    node can read it, when this one is gone.
// 2. It waits about as long as that took, so that the others come to the same. Then one rank of each host looks after
// the
//    rest: it brings those parts of the copy that lie on this host and were not brought, of a rank that is stopped, or
//    of another host that this one is the partner of.
// 3. If parts of that copy are still missing, perhaps because a rank had not completed it, the older copy follows.
//
// There is no commit. The next start finds the parts, and takes the copy if all of its parts are there and newer than
// all checkpoints (near_restore.cpp). A save of all ranks that is done in time is newer, and ends all this.
//
// The program goes on meanwhile, and may write over a part. What was read then is not kept: a part that is written
// anew loses its seal first.

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLookWhileWaiting{20};
/// How long the others are given to bring theirs: at least this, and at most that.
constexpr Clock::duration kLeastWaitForOthers = milliseconds(500);
constexpr Clock::duration kMostWaitForOthers = std::chrono::seconds(10);
constexpr milliseconds kRescueEndLimit{10'000};

}  // namespace

/// All that the thread uses: it may be left behind.
struct NearRescue::Work {
  Work(core::Directory checkpoint_directory, NearPlace where, Rank who)
      : checkpoints(std::move(checkpoint_directory)), place(std::move(where)), self(who) {}

  const core::Directory checkpoints;
  const NearPlace place;
  const Rank self;
  std::atomic<bool> stopped{false};
  std::atomic<Clock::rep> holds_until{0};
  std::set<std::string> brought;  ///< files; for others only when the thread is done

  void run();

 private:
  void rescue();
  [[nodiscard]] std::vector<FoundPart> parts() const;
  bool bring(const FoundPart& part);
  [[nodiscard]] bool bring_own(const std::vector<FoundPart>& parts);
  void complete(const std::vector<FoundPart>& parts);
  [[nodiscard]] bool is_complete(const FoundPart& one_part) const;
  [[nodiscard]] bool has_part(const std::set<std::string>& names, int rank, int slot) const;
  [[nodiscard]] bool has_room_for(const FoundPart& mine) const;
  void wait(Clock::duration time) const;
  [[nodiscard]] bool may_go_on() const;
};

NearRescue::NearRescue(const core::Directory& checkpoints, const NearPlace& place, Rank rank)
    : work_(std::make_shared<Work>(core::Directory::open(checkpoints.path()), place, rank)) {
  if (!work_->checkpoints.is(checkpoints)) {
    throw StorageError(ErrorCode::io, checkpoints.path().string() + ": it is another directory than it was");
  }
}

NearRescue::~NearRescue() { stop(); }

void NearRescue::begin() {
  const std::lock_guard lock(mutex_);
  if ((!task_ || task_->done()) && !work_->stopped) {
    task_.emplace([work = work_] { work->run(); });
  }
}

void NearRescue::hold_for(milliseconds time) noexcept {
  work_->holds_until = (Clock::now() + time).time_since_epoch().count();
}

bool NearRescue::is_at_work() const noexcept {
  const std::lock_guard lock(mutex_);
  return task_ && !task_->done();
}

/// A thread that a dead file system holds is left behind.
void NearRescue::stop() noexcept {
  const std::lock_guard lock(mutex_);
  work_->stopped = true;
  if (task_ && !task_->wait_for(kRescueEndLimit)) {
    core::log::warning("a near copy is still being brought to {}", work_->checkpoints.path().string());
  }
}

void NearRescue::end() noexcept {
  stop();
  const std::lock_guard lock(mutex_);
  if (task_ && task_->done()) {
    remove_brought_parts(work_->checkpoints, std::exchange(work_->brought, {}));
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The thread.

void NearRescue::Work::run() {
  try {
    rescue();
  } catch (const Error& error) {
    core::log::warning("rank {} could not bring its near copy to {}: {}", self.rank, checkpoints.path().string(),
                       error.what());
  }
}

void NearRescue::Work::rescue() {
  const auto start = Clock::now();
  const std::vector<FoundPart> here = parts();
  const auto newest = std::ranges::find(here, self.rank, [](const FoundPart& part) { return part.name.rank; });
  if (newest == here.end() || !has_room_for(*newest) || !bring_own(here)) {
    return;
  }
  wait(std::clamp(Clock::now() - start, kLeastWaitForOthers, kMostWaitForOthers));
  complete(here);
}

/// For the parts of all ranks, if they are about as large as this one, and besides for the file of a save that may
/// still come in time, if that has no place yet. A disk that is full would help nobody.
bool NearRescue::Work::has_room_for(const FoundPart& mine) const {
  struct statvfs disk = {};
  if (::fstatvfs(checkpoints.descriptor(), &disk) != 0) {
    return true;  // it is found out by writing
  }
  const std::uint64_t available = disk.f_bavail * disk.f_frsize;
  const std::uint64_t copies = checkpoints.contains(kSpareName) ? 1 : 2;
  const std::uint64_t needed = copies * mine.bytes * static_cast<std::uint64_t>(self.ranks);
  if (needed > available) {
    core::log::warning("rank {} does not bring its near copy: {} has {} bytes left, and {} would be needed", self.rank,
                       checkpoints.path().string(), available, needed);
  }
  return needed <= available;
}

/// Step 1. The newest that can be had.
bool NearRescue::Work::bring_own(const std::vector<FoundPart>& parts) {
  const auto start = Clock::now();
  for (const FoundPart& part : parts) {
    if (part.name.rank == self.rank && bring(part)) {
      core::log::info("rank {} has brought its near copy at step {} to {} in {:.3f} s, without the other ranks",
                      self.rank, part.name.copy.run_calls.value_or(part.name.copy.number), checkpoints.path().string(),
                      std::chrono::duration<double>(Clock::now() - start).count());
      return true;
    }
  }
  return false;
}

/// Of this run, on this host; of the newest copy first.
std::vector<FoundPart> NearRescue::Work::parts() const {
  std::vector<FoundPart> found = place.list();
  std::erase_if(found, [&](const FoundPart& part) {
    return part.name.copy.save.run != self.run || part.name.copy.ranks != self.ranks;
  });
  std::ranges::sort(found, [](const auto& a, const auto& b) { return is_newer(a.name.copy.save, b.name.copy.save); });
  return found;
}

/// False if the part is not there any more, or if this was stopped.
bool NearRescue::Work::bring(const FoundPart& part) {
  const auto directory = place.find();
  if (!directory || !directory->contains(part.file) || !may_go_on()) {
    return false;
  }
  const storage::PosixFile file(core::FileAddress(directory->path() / part.file),
                                directory->open_file(part.file, O_RDONLY));
  brought.insert(part.file);
  return bring_part(file, part, checkpoints, [this] { return may_go_on(); });
}

/// Steps 2 and 3, by the rank that comes first: the others of the host have nothing to add.
void NearRescue::Work::complete(const std::vector<FoundPart>& parts) {
  const auto directory = place.find();
  if (!directory || ::flock(directory->descriptor(), LOCK_EX | LOCK_NB) != 0) {
    return;
  }
  for (auto part = parts.begin(); part != parts.end() && may_go_on();) {
    const auto start = Clock::now();
    const auto first = part;
    const auto there = names_of_brought_parts(checkpoints);
    for (; part != parts.end() && part->name.copy == first->name.copy; ++part) {
      if (!has_part(there, part->name.rank, NearPlace::slot_of(part->file))) {
        static_cast<void>(bring(*part));
      }
    }
    wait(std::clamp(Clock::now() - start, kLeastWaitForOthers, kMostWaitForOthers));
    if (is_complete(*first)) {
      return;
    }
  }
}

/// By the names alone: there may be ten thousand parts. The slot is the same for all parts of a copy.
bool NearRescue::Work::is_complete(const FoundPart& one_part) const {
  const auto there = names_of_brought_parts(checkpoints);
  const int slot = NearPlace::slot_of(one_part.file);
  for (int rank = 0; rank < self.ranks; ++rank) {
    if (!has_part(there, rank, slot)) {
      return false;
    }
  }
  return true;
}

/// From its own host, or from that of its partner.
bool NearRescue::Work::has_part(const std::set<std::string>& names, int rank, int slot) const {
  return names.contains(NearPlace::part_name(self.run, rank, slot)) ||
         names.contains(NearPlace::partner_part_name(self.run, rank, slot));
}

void NearRescue::Work::wait(Clock::duration time) const {
  const auto end = Clock::now() + time;
  while (!stopped && Clock::now() < end) {
    std::this_thread::sleep_for(kLookWhileWaiting);
  }
}

/// Waits while a checkpoint is written. False if there is nothing more to be done.
bool NearRescue::Work::may_go_on() const {
  while (!stopped && Clock::now().time_since_epoch().count() < holds_until) {
    std::this_thread::sleep_for(kLookWhileWaiting);
  }
  return !stopped;
}

}  // namespace reprieve::manager
