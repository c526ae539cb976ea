// SPDX-License-Identifier: BSD-3-Clause
// Whether a near copy is sound, and whether it would do harm if it were not: the second step of near_restore.cpp.

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "cluster/json_exchange.hpp"
#include "core/log.hpp"
#include "manager/brought_parts.hpp"
#include "manager/near_restore.hpp"
#include "reprieve/error.hpp"
#include "storage/write/file_plan.hpp"

namespace reprieve::manager {

namespace {

using nlohmann::json;

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
      manager_.record("near_part_damaged", {{"place", place}, {"reason", why}});
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
