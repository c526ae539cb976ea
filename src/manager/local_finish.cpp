// SPDX-License-Identifier: BSD-3-Clause
// A node-local copy becomes a checkpoint file. A team does this together: the ranks of a program at its start, or one
// process of the tool on a node. Rank 0 holds the lock of the directory.
//
// 1. List. One rank of each host lists the complete parts of that host. Rank 0 lists the flushed parts in the
//    checkpoint directory.
// 2. Choose. Rank 0 takes the newest copy whose parts all lie somewhere, if it may be taken (`wanted_copies` has
//    the rule). Each part gets a holder: a rank of its host.
// 3. Learn the structure. The holder of the part of rank 0 sends the structure of the whole file.
// 4. Write and verify. Rank 0 makes a staged file. The holders write their parts at their offsets in it, and compare
//    the checksums of what they write. With a corrupt part, the file is removed, and step 1 comes again without it.
// 5. Commit. Rank 0 adds the checksums and the commit record, and commits the file as any other. Flushed parts that are
//    no newer are removed.
//
// Several nodes that do not know each other run the tool one after the other. A node that does not find all parts of
// the newest copy flushes its own parts into the checkpoint directory, without the lock. Then it tries once more: the
// last node finds all parts. If that one is gone, the next start of the program looks for more on its own nodes.
// A node gives back its parts when they are no newer than a checkpoint.

#include "manager/local_finish.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "core/message.hpp"
#include "manager/checkpoint_list.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/layout.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::manager {

namespace {

/// The newest commit: the one that the directory remembers, or a newer one, which was made just before a crash.
storage::SaveIdentity newest_commit(const LocalTarget& target) {
  const storage::SaveIdentity remembered{target.directory_id, target.last.newest.run, target.last.newest.save};
  return is_newer(target.newest_checkpoint, remembered) ? target.newest_checkpoint : remembered;
}

bool lies_where_it_belongs(const FoundPart& part, const LocalTarget& target) {
  const storage::LocalCopy& copy = part.name.copy;
  return part.host.empty() ||
         (copy.save.directory_id == target.directory_id && copy.directory_key == target.directory_key);
}

/// Points 2 and 3 of the rule.
bool may_be_taken(const storage::LocalCopy& copy, const LocalTarget& target) {
  const LaunchRecord& last = target.last;
  const storage::SaveIdentity newest = newest_commit(target);
  const bool knew_newest = copy.known_run == newest.run && copy.known_save == newest.save;
  const bool made_newest = copy.save.run == newest.run && newest.save < copy.save.save &&
                           is_newer(newest, {"", copy.known_run, copy.known_save});
  const bool is_of_last = copy.launch == last.launch;
  const bool is_start_of_last = copy.launch == last.from_launch && copy.save.save == last.from_save;
  return copy.prefix == target.prefix && !copy.launch.empty() && copy.launch != target.own_launch &&
         (knew_newest || made_newest) && (is_of_last || is_start_of_last);
}

}  // namespace

std::vector<int> ListedCopy::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].empty()) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

std::string ListedCopy::incomplete_text() const {
  constexpr std::size_t kMostNamed = 8;
  const std::vector<int> ranks = missing();
  const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMostNamed));
  const std::string others =
      ranks.size() > kMostNamed ? fmt::format(" and {} others", ranks.size() - kMostNamed) : std::string();
  return fmt::format("the node-local copy at step {} of {} is not complete: parts of ranks {}{} were not found here",
                     copy.step(), core::count_text(copy.ranks, "rank"), fmt::join(ranks.begin(), last, ", "), others);
}

std::vector<ListedCopy> wanted_copies(const std::vector<FoundPart>& parts, const LocalTarget& target) {
  std::vector<ListedCopy> wanted;
  for (const FoundPart& part : parts) {
    const storage::LocalCopy& copy = part.name.copy;
    if (!lies_where_it_belongs(part, target) || !may_be_taken(copy, target)) {
      continue;
    }
    auto found = std::ranges::find(wanted, copy, &ListedCopy::copy);
    if (found == wanted.end()) {
      wanted.push_back({copy, std::vector<std::vector<FoundPart>>(static_cast<std::size_t>(copy.ranks))});
      found = std::prev(wanted.end());
    }
    found->parts.at(static_cast<std::size_t>(part.name.rank)).push_back(part);
  }
  std::ranges::sort(wanted, std::greater(), [&](const ListedCopy& listed) {
    return std::tuple(listed.copy.launch == target.last.launch, listed.copy.save.save, listed.copy.time_us);
  });
  if (target.has_gone_back && !wanted.empty()) {
    core::log::warning(
        "the node-local copy at step {} and those before it are passed over: "
        "checkpoint {}, the newest that was made, is gone",
        wanted.front().copy.step(), target.last.newest.number);
    wanted.clear();
  }
  return wanted;
}

void Team::agree(const core::Outcome& mine) {
  if (mine) {
    core::throw_failure(*mine);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Steps 1 and 2.

LocalFinisher::LocalFinisher(Team& team, CheckpointDirectory& checkpoints, std::optional<NodeDirectory> node_directory,
                             Options options)
    : team_(team),
      checkpoints_(checkpoints),
      node_directory_(std::move(node_directory)),
      options_(std::move(options)) {}

template <class Work>
void LocalFinisher::on_root(Work&& work) {
  team_.agree(team_.rank() == 0 ? core::capture(std::forward<Work>(work)) : core::Outcome());
}

std::vector<FoundPart> LocalFinisher::list() const {
  const std::string& host = team_.host_of(team_.rank());
  std::vector<FoundPart> parts;
  const auto is_on_host = [&](int rank) { return team_.host_of(rank) == host; };
  int first = 0;
  while (!is_on_host(first)) {
    ++first;
  }
  if (node_directory_ && first == team_.rank()) {
    parts = node_directory_->list(host);
  }
  if (team_.rank() == 0) {
    std::ranges::move(flushed_parts(checkpoints_.opened()), std::back_inserter(parts));
  }
  return parts;
}

ChosenParts LocalFinisher::choose() {
  core::Bytes mine;
  team_.agree(core::capture([&] { mine = core::to_message(list()); }));
  const std::vector<core::Bytes> lists = team_.gather(mine);
  core::Bytes chosen;
  on_root([&] { chosen = core::to_message(choose_from(lists)); });
  return core::from_message<ChosenParts>(team_.broadcast(std::move(chosen), 0));
}

ChosenParts LocalFinisher::choose_from(const std::vector<core::Bytes>& lists) {
  std::vector<FoundPart> parts;
  for (const core::Bytes& list : lists) {
    std::ranges::copy_if(core::from_message<std::vector<FoundPart>>(list), std::back_inserter(parts),
                         [&](const FoundPart& part) { return !corrupt_.contains(name_of(part)); });
  }
  target_ = find_target();
  wanted_ = wanted_copies(parts, target_);
  ChosenParts chosen;
  const auto complete = std::ranges::find_if(wanted_, &ListedCopy::is_complete);
  if (complete != wanted_.end()) {
    if (complete != wanted_.begin()) {
      core::log::warning("{}: the one at step {} is taken", wanted_.front().incomplete_text(), complete->copy.step());
    }
    std::ranges::transform(complete->parts, std::back_inserter(chosen),
                           [&](const std::vector<FoundPart>& of_rank) { return best_of(of_rank); });
  }
  return chosen;
}

/// A part lies best on the host of the rank that needs it, and worst in the checkpoint directory.
FoundPart LocalFinisher::best_of(const std::vector<FoundPart>& parts) const {
  const int rank = parts.front().name.rank;
  const auto order = [&](const FoundPart& part) {
    const bool is_at_home = rank < team_.size() && team_.host_of(rank) == part.host;
    return is_at_home ? 0 : part.host.empty() ? 2 : 1;
  };
  return *std::ranges::min_element(parts, std::less(), order);
}

LocalTarget LocalFinisher::find_target() {
  LocalTarget target{options_.directory_id, directory_key(checkpoints_.opened()), options_.prefix, options_.own_launch};
  if (const auto record = read_directory_record(checkpoints_.opened())) {
    const auto last = record->launches.find(options_.prefix);
    target.last = last == record->launches.end() ? LaunchRecord() : last->second;
  }
  const Commit& newest = target.last.newest;
  bool is_corrupt = checkpoints_.is_quarantined(newest.number);
  for (const OrderEntry& entry : checkpoints_.in_order(options_.directory_id)) {
    if (entry.origin == Origin::own) {
      target.newest_checkpoint = {entry.directory_id, entry.run, entry.save};
    }
    is_corrupt = is_corrupt || (entry.origin == Origin::unreadable && entry.number == newest.number);
  }
  target.has_gone_back = is_newer({"", newest.run, newest.save}, target.newest_checkpoint) && !is_corrupt;
  return target;
}

void LocalFinisher::check_none_may_be_newer(const ChosenParts& parts) {
  on_root([&] {
    for (const OrderEntry& entry : checkpoints_.in_order(options_.directory_id)) {
      if (entry.origin != Origin::unreadable || entry.number < parts.front().name.copy.number) {
        continue;
      }
      try {
        static_cast<void>(storage::read_metadata(checkpoints_.file(entry.number)));
      } catch (const CorruptError&) {
        // A corrupt one is no newer state.
      }
    }
  });
}

int LocalFinisher::holder_of(const FoundPart& part) const {
  const int owner = part.name.rank;
  if (owner < team_.size() && team_.host_of(owner) == part.host) {
    return owner;
  }
  std::vector<int> ranks;  // all can read what is flushed
  for (int rank = 0; rank < team_.size(); ++rank) {
    if (part.host.empty() || team_.host_of(rank) == part.host) {
      ranks.push_back(rank);
    }
  }
  return ranks.at(static_cast<std::size_t>(owner) % ranks.size());
}

// ---------------------------------------------------------------------------------------------------------------------
// Steps 3 to 5.

namespace {

CopyStructure decode_structure(const core::Bytes& image, const FoundPart& first) {
  CopyStructure structure{.image = storage::decode_structure_image(image), .index = storage::FileIndex()};
  structure.index = structure.image.index(first.file);
  if (structure.index.metadata.world_size != first.name.copy.ranks) {
    throw CorruptError("a node-local copy is of another number of ranks than it says");
  }
  return structure;
}

}  // namespace

bool LocalFinisher::finish(const ChosenParts& parts) {
  check_none_may_be_newer(parts);
  std::optional<CopyStructure> structure = structure_of(parts);
  if (!structure) {
    return false;
  }
  try {
    const bool is_written = write(parts, *structure);
    if (!is_written) {
      on_root([&] { checkpoints_.recover(); });
    }
    return is_written;
  } catch (const Error&) {
    if (team_.rank() == 0) {
      try {
        checkpoints_.recover();
      } catch (const Error& error) {
        core::log::warning("{}", error.what());
      }
    }
    throw;
  }
}

std::optional<CopyStructure> LocalFinisher::structure_of(const ChosenParts& parts) {
  const FoundPart& first = parts.front();
  const int holder = holder_of(first);
  core::Bytes image;
  team_.agree(core::capture([&] {
    if (team_.rank() == holder) {
      try_part(first, [&] {
        image = storage::encode(*open(first)->tables().image);
        static_cast<void>(decode_structure(image, first));
      });
    }
  }));
  if (!all_are_valid()) {
    return std::nullopt;
  }
  image = team_.broadcast(std::move(image), holder);
  CopyStructure structure;
  team_.agree(core::capture([&] { structure = decode_structure(image, first); }));
  return structure;
}

std::shared_ptr<const storage::Part> LocalFinisher::open(const FoundPart& part) const {
  const auto directory = part.host.empty() ? std::optional(checkpoints_.opened().open_directory(kFlushedName))
                         : node_directory_ ? node_directory_->find()
                                           : std::nullopt;
  if (!directory) {
    throw CorruptError("the directory of node-local copies is gone");
  }
  auto opened = std::make_shared<const storage::Part>(
      storage::PosixFile(core::FileAddress(directory->path() / part.file), directory->open_file(part.file, O_RDONLY)));
  if (opened->name() != part.name || (part.name.rank == 0 && !opened->tables().image)) {
    throw CorruptError("it is another part than it was");
  }
  return opened;
}

bool LocalFinisher::all_are_valid() {
  const auto of_ranks = team_.gather(core::to_message(std::exchange(corrupt_here_, {})));
  core::Bytes answer(1);
  on_root([&] {
    for (const core::Bytes& of_rank : of_ranks) {
      for (const auto& [part, why] : core::from_message<std::map<std::string, std::string>>(of_rank)) {
        corrupt_.insert(part);
        core::log::error("a part of a node-local copy is corrupt and passed over: {}: {}", part, why);
        options_.corrupt(part, why);
        answer[0] = std::byte{1};
      }
    }
  });
  return team_.broadcast(std::move(answer), 0)[0] == std::byte{0};
}

bool LocalFinisher::write(const ChosenParts& parts, CopyStructure& structure) {
  const storage::LocalCopy& copy = parts.front().name.copy;
  const StagedName staged{copy.number, copy.time_us};
  on_root([&] {
    options_.check_lock();
    checkpoints_.prepare_staging(staged.number);
    storage::begin_assembly(checkpoints_.staged_file(staged), structure.image);
  });
  core::Bytes mine;
  team_.agree(core::capture([&] { mine = write_own(parts, structure, checkpoints_.staged_file(staged)); }));
  const std::vector<core::Bytes> of_ranks = team_.gather(mine);
  if (!all_are_valid()) {
    return false;
  }
  on_root([&] {
    std::vector<core::Bytes> checksums(parts.size());
    for (const core::Bytes& message : of_ranks) {
      for (storage::Decoder decoder(message); !decoder.at_end();) {
        const std::uint64_t rank = decoder.word();
        checksums.at(static_cast<std::size_t>(rank)) = decoder.bytes();
      }
    }
    storage::place_checksums(structure.index, checksums);
    storage::end_assembly(checkpoints_.staged_file(staged), structure.image, structure.index, options_.durable);
    options_.check_lock();
    options_.committing(structure.index.metadata);
    checkpoints_.commit(staged, false);
    core::failpoint("drain.committed");
    options_.committed(structure.index.metadata);
    checkpoints_.recover();
    remove_flushed_parts(checkpoints_.opened(), options_.prefix, copy.save);
  });
  return true;
}

/// Writes the parts that this rank holds, up to a corrupt one. Returns their ranks and checksums.
core::Bytes LocalFinisher::write_own(const ChosenParts& parts, const CopyStructure& structure,
                                     const core::FileAddress& file) {
  storage::Encoder checksums;
  for (const FoundPart& found : parts) {
    if (holder_of(found) != team_.rank() || !corrupt_here_.empty()) {
      continue;
    }
    std::shared_ptr<const storage::Part> part;
    core::Mapping data;
    try_part(found, [&] {
      part = open(found);
      data = part->data();
    });
    // What the file system refuses now is an error of the file, not of the part.
    try_part<CorruptError>(found, [&] {
      if (part && corrupt_here_.empty()) {
        storage::add_part(file, *part, data.bytes(), structure.index, options_.durable);
        checksums.word(static_cast<std::uint64_t>(found.name.rank));
        checksums.bytes(std::as_bytes(std::span(part->tables().checksums)));
      }
    });
  }
  return checksums.take();
}

// ---------------------------------------------------------------------------------------------------------------------
// One node.

namespace {

/// The copy will be a commit; or it is one, and a start that comes before this is written sees it all the same.
void record_commit(const CheckpointDirectory& checkpoints, const std::string& prefix,
                   const storage::FileMetadata& metadata, bool is_done) {
  if (auto record = read_directory_record(checkpoints.opened())) {
    LaunchRecord& last = record->launches[prefix];
    const Commit commit{metadata.identity->run, metadata.identity->save, metadata.number};
    if (is_done) {
      last.newest = commit;
      last.next_time_us.reset();
    } else {
      last.next = commit;
      last.next_time_us = metadata.time_us;
    }
    write_directory_record(checkpoints.opened(), *record, is_done);
  }
}

/// What this node has of copies that are newer than the newest complete one. Returns how many parts.
std::size_t flush(const std::vector<ListedCopy>& copies, const NodeDirectory& node_directory,
                  const core::Directory& checkpoints) {
  std::size_t flushed = 0;
  for (const ListedCopy& copy : copies) {
    if (copy.is_complete()) {
      break;  // it needs nothing, and makes all older ones useless
    }
    for (const std::vector<FoundPart>& parts : copy.parts) {
      const bool is_there = std::ranges::any_of(parts, [](const FoundPart& part) { return part.host.empty(); });
      if (!is_there && !parts.empty() && node_directory.flush(parts.front(), checkpoints, [] { return true; })) {
        ++flushed;  // another drain on this node may have been faster
      }
    }
  }
  return flushed;
}

/// Makes a file of the newest copy that is complete. @param parts  of the last choice
DrainResult complete_newest(LocalFinisher& finisher, ChosenParts parts, bool dry_run) {
  while (!parts.empty()) {
    if (dry_run) {
      finisher.check_none_may_be_newer(parts);
    }
    if (dry_run || finisher.finish(parts)) {
      return {.kind = DrainResult::Kind::completed, .copy = parts.front().name.copy};
    }
    parts = finisher.choose();
  }
  if (finisher.wanted().empty()) {
    return {};
  }
  const ListedCopy& newest = finisher.wanted().front();
  return {.kind = DrainResult::Kind::incomplete,
          .copy = newest.copy,
          .missing = newest.missing(),
          .why_incomplete = newest.incomplete_text()};
}

}  // namespace

DrainResult drain(CheckpointDirectory& checkpoints, const DrainOptions& options) {
  const auto record = read_directory_record(checkpoints.opened());
  if (!record) {
    return {};  // no run of a version that takes node-local copies was ever here
  }
  const NodeDirectory node_directory(options.local_directory, record->id, directory_key(checkpoints.opened()),
                                     options.prefix);
  Team alone(options.self.host);
  std::vector<std::string> corrupt;
  static_cast<void>(node_directory.list({}, &corrupt));
  std::optional<DirectoryLock> lock;
  LocalFinisher finisher(
      alone, checkpoints, node_directory,
      {.directory_id = record->id,
       .prefix = options.prefix,
       .check_lock = [&] { lock->check_held(); },
       .committing = [&](const auto& file) { record_commit(checkpoints, options.prefix, file, false); },
       .committed = [&](const auto& file) { record_commit(checkpoints, options.prefix, file, true); },
       .corrupt = [&](const auto& part, const auto& why) { corrupt.push_back(part + ": " + why); }});
  const auto choose = [&] {
    lock.emplace(checkpoints.path() / kLockName, options.self, options.lock_timeout,
                 options.dry_run ? DirectoryLock::Mark::kept : DirectoryLock::Mark::written);
    return finisher.choose();
  };
  ChosenParts parts = choose();
  std::size_t flushed = 0;
  if (!options.dry_run && !finisher.wanted().empty() && !finisher.wanted().front().is_complete()) {
    lock.reset();
    flushed = flush(finisher.wanted(), node_directory, checkpoints.opened());
    parts = choose();
  }
  DrainResult result = complete_newest(finisher, std::move(parts), options.dry_run);
  result.flushed = flushed;
  result.corrupt = std::move(corrupt);
  const bool is_completed = result.kind == DrainResult::Kind::completed;
  if (is_completed) {
    result.file = checkpoints.path() / format_name(options.prefix, result.copy->number, kCheckpointSuffix);
  }
  if (!options.dry_run) {
    const storage::SaveIdentity& newest = is_completed ? result.copy->save : finisher.target().newest_checkpoint;
    remove_flushed_parts(checkpoints.opened(), options.prefix, newest);
    node_directory.remove_up_to(newest, finisher.target().last);
  }
  return result;
}

std::set<std::string> drainable_prefixes(const CheckpointDirectory& checkpoints,
                                         const std::filesystem::path& local_directory) {
  std::set<std::string> prefixes;
  if (const auto record = read_directory_record(checkpoints.opened())) {
    const std::string begin =
        NodeDirectory(local_directory, record->id, directory_key(checkpoints.opened()), "").folder();
    for (const LocalFolder& folder : local_folders(local_directory)) {
      if (const std::string name = folder.path.filename(); name.starts_with(begin)) {
        prefixes.insert(name.substr(begin.size()));
      }
    }
  }
  for (const FoundPart& part : flushed_parts(checkpoints.opened())) {
    prefixes.insert(part.name.copy.prefix);
  }
  return prefixes;
}

}  // namespace reprieve::manager
