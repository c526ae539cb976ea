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

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/log.hpp"
#include "manager/directory_record.hpp"
#include "reprieve/error.hpp"
#include "storage/near/assembly.hpp"
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

}  // namespace reprieve::manager
