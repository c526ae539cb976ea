// SPDX-License-Identifier: BSD-3-Clause
// The start from a near copy:
//
// 1. One rank of each host lists the complete parts that lie there, and the chief those that nodes have brought into
//    the checkpoint directory. The chief takes the newest copy of which every part lies somewhere (near_place.hpp).
//    For every part, one rank of its host holds it.
// 2. The holders verify all blocks of their parts. With a damaged part the choice is made anew, without it.
// 3. If every rank can read all that it needs on its own host, the state is restored from there. That is so for a start
//    on the same hosts, and on any number of ranks of one host. Otherwise, and if parts were brought, the holders write
//    the parts into one checkpoint file, which is committed, and restored as any other.
// Before step 3 no variable is touched. Step 2 reads the copy once more, so it is left out where there are checkpoints,
// and all of them and all older copies overwrite the same variables: then what turns out to be damaged does no harm.
// Values that all ranks share are sent before that, and verified by who gets them.

#include "manager/near_restore.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "cluster/collectives.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "manager/near_drain.hpp"
#include "manager/near_place.hpp"
#include "reprieve/error.hpp"
#include "storage/near/part_items.hpp"
#include "storage/write/file_plan.hpp"

namespace reprieve::manager {

namespace {

using nlohmann::json;

constexpr const char* kLooking = "looking for near copies";
constexpr const char* kDraining = "making a checkpoint of a near copy";

/// A rank of that host: the one whose part it is, if it is there, so that all have the same work. Of all hosts, for
/// what lies in the checkpoint directory.
int holder_on(const cluster::Communicator& comm, const std::string& host, int part) {
  if (host.empty()) {
    return part % comm.size();
  }
  if (part < comm.size() && comm.host_of(part) == host) {
    return part;
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (comm.host_of(rank) == host) {
      ranks.push_back(rank);
    }
  }
  return ranks.at(static_cast<std::size_t>(part) % ranks.size());
}

}  // namespace

NearRestore::NearRestore(CheckpointManager::Impl& manager, RestoreWalk& walk)
    : manager_(manager), walk_(walk), owner_(NearOwner::of(manager)), place_(owner_.place(manager.options)) {}

std::optional<CheckpointInfo> NearRestore::newest() {
  manager_.comm.agree(core::capture([&] {
                        if (!manager_.options.near_directory.empty()) {
                          manager_.near_owner = owner_;
                          directory_ = place_.find();
                        }
                      }),
                      kLooking);
  for (;;) {
    const std::optional<Choice> choice = agree_on_choice();
    if (!choice) {
      return std::nullopt;
    }
    Opened opened;
    if (!open(*choice, opened)) {
      continue;
    }
    if (const Attempt attempt = restore(*choice, opened); attempt.is_over) {
      return attempt.restored;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Which copy.

json NearRestore::list_here() const {
  json found = json::array();
  const auto add = [&](const std::string& host, const std::vector<FoundPart>& parts) {
    for (const FoundPart& part : parts) {
      found.push_back({{"host", host}, {"file", part.file}, {"part", storage::to_json(part.name)}});
    }
  };
  if (!manager_.options.near_directory.empty() && is_first_of_host(manager_.comm)) {
    add(manager_.comm.host(), place_.list());
  }
  if (manager_.comm.is_chief()) {
    add("", brought_parts(manager_.directory.place()));
  }
  return found;
}

/// The chief's. @param by_rank  what each rank has listed
std::optional<NearRestore::Choice> NearRestore::choose(const json& by_rank) const {
  std::vector<ListedPart> parts;
  for (const json& of_rank : by_rank) {
    for (const json& found : of_rank) {
      ListedPart part{found.at("host"), found.at("file"), storage::part_from_json(found.at("part"))};
      if (!damaged_.contains(part.host + '/' + part.file)) {
        parts.push_back(std::move(part));
      }
    }
  }
  // One of a later run is of a time that was undone: the directory is what it was before.
  std::erase_if(parts, [&](const ListedPart& part) { return part.name.copy.save.run >= owner_.run; });
  const NearTarget target = near_target(manager_.directory, owner_.directory_id, manager_.options.prefix);
  const std::vector<ListedCopy> copies = wanted_copies(parts, target);
  const auto complete = std::ranges::find_if(copies, &ListedCopy::is_complete);
  if (complete == copies.end()) {
    if (!copies.empty()) {
      core::log::warning(
          "{}: they lie on hosts that are lost, or not part of this run (`reprieve drain` brings them); the "
          "newest checkpoint counts",
          copies.front().incomplete_text());
    }
    remove_brought_parts(manager_.directory.place(), manager_.options.prefix, target.newest_checkpoint);
    return std::nullopt;
  }
  check_none_may_be_newer(manager_.directory, owner_.directory_id, complete->copy);
  Choice choice{complete->copy, {}, {}};
  for (const std::vector<ListedPart>& places : complete->parts) {
    choice.parts.push_back(best_of(places));
  }
  for (auto older = std::next(complete); older != copies.end(); ++older) {
    if (older->is_complete()) {
      choice.older.push_back(best_of(older->parts.front()));
    }
  }
  return choice;
}

/// A part lies best on the host of the rank that needs it, and worst in the checkpoint directory.
NearRestore::Location NearRestore::best_of(const std::vector<ListedPart>& places) const {
  const cluster::Communicator& comm = manager_.comm;
  const int rank = places.front().name.rank;
  const auto order = [&](const ListedPart& part) {
    const bool is_at_home = rank < comm.size() && comm.host_of(rank) == part.host;
    return is_at_home ? 0 : part.host.empty() ? 2 : 1;
  };
  const ListedPart& best = *std::ranges::min_element(places, std::less(), order);
  return {best.host, best.file, holder_on(comm, best.host, rank)};
}

std::optional<NearRestore::Choice> NearRestore::agree_on_choice() {
  cluster::Communicator& comm = manager_.comm;
  json mine;
  comm.agree(core::capture([&] { mine = list_here(); }), kLooking);
  const json by_rank = cluster::gather(comm, mine, kLooking);
  json chosen;
  comm.on_chief(
      [&] {
        if (const auto choice = choose(by_rank)) {
          chosen["copy"] = storage::to_json({choice->copy, 0});
          for (const Location& at : choice->parts) {
            chosen["parts"].push_back(to_json(at));
          }
          chosen["older"] = json::array();
          for (const Location& at : choice->older) {
            chosen["older"].push_back(to_json(at));
          }
        }
      },
      kLooking);
  chosen = cluster::broadcast(comm, chosen, 0, kLooking);
  if (chosen.is_null()) {
    return std::nullopt;
  }
  Choice choice{storage::part_from_json(chosen.at("copy")).copy, {}, {}};
  for (const json& at : chosen.at("parts")) {
    choice.parts.push_back(location_from(at));
  }
  for (const json& at : chosen.at("older")) {
    choice.older.push_back(location_from(at));
  }
  return choice;
}

json NearRestore::to_json(const Location& at) { return {{"host", at.host}, {"file", at.file}, {"holder", at.holder}}; }

NearRestore::Location NearRestore::location_from(const json& at) {
  return {at.at("host"), at.at("file"), at.at("holder")};
}

// ---------------------------------------------------------------------------------------------------------------------
// The restore.

/// Makes a checkpoint of it, if it is sound.
NearRestore::Attempt NearRestore::bring_home(const Choice& choice, Opened& opened) {
  if (!verify(choice, opened)) {
    return {};
  }
  drain(choice, opened);
  return {.is_over = true};
}

NearRestore::Attempt NearRestore::restore(const Choice& choice, Opened& opened) {
  if (!choice.lies_on_hosts()) {
    return bring_home(choice, opened);
  }
  cluster::Communicator& comm = manager_.comm;
  storage::PartsSource source;
  try {
    comm.agree(core::capture([&] { reach(choice, opened, source); }), kVerifying);
    share_replicated(choice, opened, source);
  } catch (const Error& error) {  // on all ranks
    if (!is_of_the_data(error) || (verify(choice, opened) && std::exchange(must_prove_, true))) {
      throw;  // twice, though all parts are sound
    }
    return {};
  }
  const core::FileAddress name(place_.path() / choice.parts.front().file);
  storage::Restorer restorer(comm, manager_.checkpoint.registry(), name, opened.index, source,
                             manager_.options.verify_on_restore);
  const bool has_all = std::ranges::all_of(choice.parts, [&](const Location& at) { return at.host == comm.host(); });
  const auto can_read = [&] {
    const bool can = has_all || restorer.reads_only(
                                    [&](const auto& variable, const auto& row) { return source.has(variable, row); });
    return comm.max(can ? 0 : 1, kVerifying) == 0;
  };
  bool is_readable = false;
  const auto choose = [&]() -> std::optional<RestoreWalk::Pass> {
    using Pass = RestoreWalk::Pass;
    is_readable = can_read();
    if (!is_readable) {
      return std::nullopt;
    }
    const bool verifies = manager_.options.verify_on_restore;
    if (verifies && !must_prove_ && damage_would_be_overwritten(choice, opened, restorer)) {
      return Pass::single;
    }
    const Pass pass = verifies ? Pass::proven : Pass::unverified;
    return verify(choice, opened) ? std::optional(pass) : std::nullopt;
  };
  auto restored = walk_.near(restorer, name, choose);
  if (restored) {
    if (comm.is_chief()) {
      core::log::info("that is a near copy, newer than all checkpoints in {}", manager_.directory.path().string());
    }
    return {.is_over = true, .restored = std::move(restored)};
  }
  if (!is_readable) {
    return bring_home(choice, opened);
  }
  if (restorer.touched()) {
    must_prove_ = true;
    if (verify(choice, opened) && comm.is_chief()) {
      core::log::warning("all parts of this near copy are sound now; the memory of a host may be failing");
    }
  }
  return {};
}

/// All parts on this host, whoever holds them.
void NearRestore::reach(const Choice& choice, const Opened& opened, storage::PartsSource& source) {
  for (std::size_t rank = 0; rank < choice.parts.size(); ++rank) {
    const Location& at = choice.parts[rank];
    if (at.host != manager_.comm.host()) {
      continue;
    }
    const auto held = std::ranges::find_if(
        opened.parts, [&](const auto& part) { return part->name().rank == static_cast<int>(rank); });
    source.add(held != opened.parts.end() ? *held : std::make_shared<const storage::Part>(open_part(at)), opened.index);
  }
}

/// Replicated values lie in the part of rank 0 alone. They are sent to the ranks of all other hosts.
void NearRestore::share_replicated(const Choice& choice, const Opened& opened, storage::PartsSource& source) {
  cluster::Communicator& comm = manager_.comm;
  const Location& first = choice.parts.front();
  bool all_have_them = true;
  for (int rank = 0; rank < comm.size(); ++rank) {
    all_have_them = all_have_them && comm.host_of(rank) == first.host;
  }
  if (all_have_them) {
    return;
  }
  std::vector<std::pair<const storage::StoredVariable*, storage::BoxRow>> rows;
  std::size_t size = 0;
  for (const storage::StoredVariable& variable : opened.index.variables) {
    if (variable.distribution == state::Distribution::replicated && variable.bytes() > 0) {
      rows.emplace_back(&variable, opened.index.row(variable, 0));
      size += static_cast<std::size_t>(variable.bytes());
    }
  }
  const auto fill = [&](std::span<std::byte> bytes) {
    for (const auto& [variable, row] : rows) {
      const storage::TiledSplit split = storage::FileIndex::blocks_of(*variable, row);
      for (std::uint64_t i = 0; i < split.count(); ++i) {
        const std::size_t block = storage::bytes_of(split.block(i), variable->type.size_bytes);
        source.read(*variable, row, i, bytes.first(block), nullptr);
        bytes = bytes.subspan(block);
      }
    }
  };
  const cluster::CommonBytes common = comm.broadcast_common(size, fill, first.holder, kVerifying);
  if (comm.host() != first.host) {
    std::vector<storage::PartRow> received;
    std::uint64_t next = 0;
    for (const auto& [variable, row] : rows) {
      received.push_back({row.first_checksum, next});
      next += variable->bytes();
    }
    source.add(received, common.bytes, common.owner);
  }
}

/// The holders write their parts, and the chief commits the file, as in a save.
void NearRestore::drain(const Choice& choice, Opened& opened) {
  cluster::Communicator& comm = manager_.comm;
  const auto start = std::chrono::steady_clock::now();
  const StagedName staged{choice.copy.number, choice.copy.time_us};
  const bool durable = manager_.options.durable;
  const auto file = [&] { return manager_.directory.staged_file(staged); };
  manager_.record(events::DrainStarted{staged.number, !choice.lies_on_hosts()});
  try {
    comm.on_chief(
        [&] {
          core::log::info(
              "a near copy of {} ranks at step {} lies on other hosts than this run needs it on: it becomes a "
              "checkpoint "
              "first",
              choice.copy.ranks, choice.copy.run_calls.value_or(choice.copy.number));
          manager_.lock->check_held();
          manager_.directory.prepare_staging(staged.number);
          storage::begin_assembly(file(), opened.image);
        },
        kDraining);
    comm.agree(core::capture([&] {
                 for (const auto& part : opened.parts) {
                   storage::add_part(file(), *part, opened.index, durable);
                 }
               }),
               kDraining);
    comm.on_chief(
        [&] {
          storage::end_assembly(file(), opened.image, opened.index, durable);
          manager_.lock->check_held();
          manager_.directory.commit(staged, false);
          core::kill_point(core::KillPoint::drain_committed);
          manager_.directory.remember(staged.number, opened.index.metadata);
          manager_.note_committed(opened.index.metadata);
          manager_.directory.recover();
          remove_brought_parts(manager_.directory.place(), manager_.options.prefix, choice.copy.save);
        },
        kDraining);
  } catch (const Error&) {
    if (comm.is_chief()) {
      CheckpointManager::Impl::tell([&] { manager_.directory.recover(); });
    }
    throw;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  manager_.record(events::Drained{staged.number, elapsed.count()});
}

// Whether a near copy is sound, and whether it would do harm if it were not: the second step of those above.

namespace {

/// The chief reads and compares the tables of all that is older. Beyond that the ranks verify the copy in less time.
constexpr std::uint64_t kMostComparedBytes = std::uint64_t{16} << 20U;

/// Does @p work with a part. @param damaged  where an error is put down, by "<host>/<file>"
template <class Work>
void note_damage(const auto& at, json& damaged, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    damaged[at.host + '/' + at.file] = error.what();
  }
}

}  // namespace

storage::PosixFile NearRestore::open_part(const Location& at) const {
  if (at.host.empty()) {
    return open_brought_part(manager_.directory.place(), at.file);
  }
  if (!directory_) {
    throw CorruptError("the place of near copies is gone");
  }
  return {core::FileAddress(directory_->path() / at.file), directory_->open_file(at.file, O_RDONLY)};
}

/// Whether no rank has found damage. @param damaged  what this one has found: why, by "<host>/<file>"
bool NearRestore::all_are_sound(const json& damaged) {
  const json by_rank = cluster::gather(manager_.comm, damaged, kVerifying);
  for (const json& found : by_rank) {
    for (const auto& [place, why] : found.items()) {
      damaged_.insert(place);
      core::log::error("a part of a near copy is damaged and passed over: {}: {}", place, why.get<std::string>());
      manager_.record(events::NearPartDamaged{place, why});
    }
  }
  return manager_.comm.max(damaged.empty() ? 0 : 1, kVerifying) == 0;
}

/// False if what a part says of itself is damaged, so that the choice must be made anew.
bool NearRestore::open(const Choice& choice, Opened& opened) {
  cluster::Communicator& comm = manager_.comm;
  json damaged = json::object();
  comm.agree(core::capture([&] {
               for (std::size_t rank = 0; rank < choice.parts.size(); ++rank) {
                 if (choice.parts[rank].holder == comm.rank()) {
                   note_damage(choice.parts[rank], damaged,
                               [&] { opened.parts.push_back(open_chosen(choice, static_cast<int>(rank))); });
                 }
               }
             }),
             kVerifying);
  if (!all_are_sound(damaged)) {
    return false;
  }
  learn_structure(choice, opened);
  if (!check_each(choice, opened, [&](const storage::Part& part) { storage::check_tables(part, opened.index); })) {
    return false;
  }
  learn_checksums(opened);
  return true;
}

std::shared_ptr<const storage::Part> NearRestore::open_chosen(const Choice& choice, int rank) const {
  auto part = std::make_shared<const storage::Part>(open_part(choice.parts[static_cast<std::size_t>(rank)]));
  if (part->name() != storage::PartName{choice.copy, rank} || (rank == 0 && !part->tables().image)) {
    throw CorruptError("it is another part than it was");
  }
  return part;
}

/// False if a part is damaged, so that the choice must be made anew.
bool NearRestore::verify(const Choice& choice, const Opened& opened) {
  return check_each(choice, opened, [&](const storage::Part& part) { storage::check_part(part, opened.index); });
}

/// Calls @p check, which throws if it finds damage, with the parts that this rank holds. Whether no rank has found any.
bool NearRestore::check_each(const Choice& choice, const Opened& opened,
                             const std::function<void(const storage::Part&)>& check) {
  json damaged = json::object();
  manager_.comm.agree(core::capture([&] {
                        for (const auto& part : opened.parts) {
                          note_damage(choice.parts[static_cast<std::size_t>(part->name().rank)], damaged,
                                      [&] { check(*part); });
                        }
                      }),
                      kVerifying);
  return all_are_sound(damaged);
}

/// What the file would say about itself, from the part of rank 0.
void NearRestore::learn_structure(const Choice& choice, Opened& opened) {
  cluster::Communicator& comm = manager_.comm;
  const int root = choice.parts.front().holder;
  cluster::Bytes bytes;
  comm.agree(core::capture([&] {
               if (comm.rank() == root) {
                 bytes = storage::encode(*opened.parts.front()->tables().image);
               }
             }),
             kVerifying);
  comm.broadcast(bytes, root, kVerifying);
  comm.agree(core::capture([&] {
               opened.image = storage::decode_structure_image(bytes);
               opened.index = opened.image.index(place_.path().string());
               if (opened.index.metadata.world_size != choice.copy.ranks) {
                 throw CorruptError("a near copy is of another number of ranks than it says");
               }
             }),
             kVerifying);
}

/// Of all parts, on every rank.
void NearRestore::learn_checksums(Opened& opened) {
  cluster::Communicator& comm = manager_.comm;
  storage::Encoder mine;
  for (const auto& part : opened.parts) {
    mine.word(static_cast<std::uint64_t>(part->name().rank));
    mine.bytes(std::as_bytes(std::span(part->tables().checksums)));
  }
  const auto all = comm.gather(mine.take(), kVerifying);
  cluster::Bytes table;
  comm.on_chief(
      [&] {
        std::vector<storage::Bytes> of_ranks(static_cast<std::size_t>(opened.index.metadata.world_size));
        for (const cluster::Bytes& message : all) {
          for (storage::Decoder decoder(message); !decoder.at_end();) {
            const std::uint64_t rank = decoder.word();
            of_ranks.at(static_cast<std::size_t>(rank)) = decoder.bytes();
          }
        }
        storage::place_checksums(opened.index, of_ranks);
        const auto bytes = std::as_bytes(opened.index.checksums.span());
        table.assign(bytes.begin(), bytes.end());
      },
      kVerifying);
  comm.broadcast(table, 0, kVerifying);
  std::vector<std::uint64_t> words(table.size() / sizeof(std::uint64_t));
  std::copy(table.begin(), table.end(), std::as_writable_bytes(std::span(words)).begin());
  opened.index.checksums = storage::SharedWords(std::move(words));
}

/// Whether, if the copy turns out to be damaged, something older takes the place of all that was read of it.
bool NearRestore::damage_would_be_overwritten(const Choice& choice, const Opened& opened,
                                              const storage::Restorer& restorer) {
  const std::vector<std::uint64_t> checkpoints = manager_.own_checkpoints();
  const std::uint64_t tables = opened.index.boxes.words().size_bytes() * (checkpoints.size() + choice.older.size());
  return !checkpoints.empty() && tables <= kMostComparedBytes &&
         walk_.could_be_replaced_by_all(restorer, checkpoints) && older_copies_overwrite_the_same(choice, restorer);
}

/// The chief judges by what rank 0's parts say of the whole copies.
bool NearRestore::older_copies_overwrite_the_same(const Choice& choice, const storage::Restorer& restorer) {
  cluster::Communicator& comm = manager_.comm;
  storage::Encoder mine;
  comm.agree(core::capture([&] {
               for (const Location& at : choice.older) {
                 if (at.holder == comm.rank()) {
                   mine.bytes(image_of(at));
                 }
               }
             }),
             kVerifying);
  const auto of_ranks = comm.gather(mine.take(), kVerifying);
  bool are_alike = false;
  comm.on_chief(
      [&] {
        are_alike = std::ranges::all_of(of_ranks, [&](const cluster::Bytes& images) {
          for (storage::Decoder decoder(images); !decoder.at_end();) {
            if (!overwrites_the_same(decoder.bytes(), restorer)) {
              return false;
            }
          }
          return true;
        });
      },
      kVerifying);
  return comm.max(are_alike ? 1 : 0, kVerifying) != 0;
}

/// Empty if it cannot be read.
storage::Bytes NearRestore::image_of(const Location& at) const {
  try {
    const storage::Part part(open_part(at));
    return part.tables().image ? storage::encode(*part.tables().image) : storage::Bytes();
  } catch (const Error&) {
    return {};
  }
}

bool NearRestore::overwrites_the_same(const storage::Bytes& image, const storage::Restorer& restorer) const {
  try {
    return !image.empty() &&
           restorer.could_be_replaced_by(storage::decode_structure_image(image).index(place_.path().string()));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace reprieve::manager
