// SPDX-License-Identifier: BSD-3-Clause
// All ranks verify a file together, and find the rank that reads wrong what others read right.

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "storage/read/restorer.hpp"

namespace reprieve::storage {

namespace {

/// No more blocks are read a second time: one that is corrupt for all ranks is enough.
constexpr std::size_t kMostCorruptPerRank = 4;
constexpr std::size_t kMostCorrupt = 64;

/// A block that a rank has read, and that is not what was written. Sent as it is.
struct CorruptBlock {
  std::uint64_t variable = 0;
  std::uint64_t box = 0;  ///< of the variable
  std::uint64_t block = 0;
  std::int64_t finder = 0;
};
constexpr auto fields_of(const CorruptBlock*) {
  return std::tuple(&CorruptBlock::variable, &CorruptBlock::box, &CorruptBlock::block, &CorruptBlock::finder);
}

enum class BlockState : std::uint8_t { not_read, right, wrong };

/// Wrong, also if the file ends before the block does.
bool is_right(BlockReader& reader, const BlockReader::StoredBlock& stored) {
  try {
    return reader.block_is_right(stored);
  } catch (const CorruptError&) {
    return false;
  }
}

class Verification {
 public:
  Verification(cluster::Communicator& comm, BlockReader& reader, const FileIndex& index, const std::string& file)
      : comm_(comm), reader_(reader), index_(index), file_(file), what_("verifying " + file) {}

  void run() {
    std::vector<CorruptBlock> mine;
    comm_.agree(core::capture([&] { mine = check_share(); }), what_);
    if (comm_.max(static_cast<std::int64_t>(mine.size()), what_) == 0) {
      return;
    }
    const std::vector<CorruptBlock> corrupt = exchange(mine);
    Bytes states;
    comm_.agree(core::capture([&] { states = read_again(corrupt); }), what_);
    const std::vector<Bytes> of_ranks = comm_.gather(states, what_);
    comm_.on_rank_0([&] { judge(corrupt, of_ranks); }, what_);
  }

 private:
  std::vector<CorruptBlock> check_share() {
    const int saved_by = index_.metadata.world_size;
    const auto [first, end] = savers_verified_by(comm_.rank(), saved_by, comm_.size());
    const BlockShare share{first, end, true, [&](const auto& variable, std::uint64_t saver, std::uint64_t block) {
                             return verifier_of(variable, saver, block, saved_by, comm_.size()) == comm_.rank();
                           }};
    std::vector<CorruptBlock> found;
    const auto check = [&](const BlockReader::StoredBlock& stored, std::size_t box) {
      if (!is_right(reader_, stored)) {
        found.push_back(
            {static_cast<std::uint64_t>(&stored.variable - index_.variables.data()), box, stored.number, comm_.rank()});
      }
      return found.size() < kMostCorruptPerRank;
    };
    for_each_block(reader_, index_, share, check, [](std::uint64_t) {});
    return found;
  }

  /// Those of all ranks, on all ranks.
  std::vector<CorruptBlock> exchange(const std::vector<CorruptBlock>& mine) {
    std::vector<CorruptBlock> all;
    for (const std::vector<CorruptBlock>& of_rank : comm_.gather_values(mine, what_)) {
      all.insert(all.end(), of_rank.begin(), of_rank.end());
    }
    all.resize(std::min(all.size(), kMostCorrupt));
    return comm_.from_root(all, 0, what_);
  }

  /// Two ranks besides the finder, one of them far away; a rank that is alone looks once more by itself.
  [[nodiscard]] bool reads_again(const CorruptBlock& found) const {
    const int size = comm_.size();
    return comm_.rank() == (found.finder + 1) % size ||
           (comm_.rank() == (found.finder + size / 2) % size && comm_.rank() != found.finder);
  }

  Bytes read_again(const std::vector<CorruptBlock>& corrupt) {
    Bytes states;
    for (const CorruptBlock& found : corrupt) {
      BlockState state = BlockState::not_read;
      if (reads_again(found)) {
        const auto [variable, row, box] = find(found);
        state = is_right(reader_, {variable, row, found.block, box}) ? BlockState::right : BlockState::wrong;
      }
      states.push_back(static_cast<std::byte>(state));
    }
    return states;
  }

  [[nodiscard]] std::tuple<const StoredVariable&, BoxRow, Box> find(const CorruptBlock& found) const {
    const StoredVariable& variable = index_.variables[static_cast<std::size_t>(found.variable)];
    const BoxRow row = index_.row(variable, static_cast<std::size_t>(found.box));
    return {variable, row, FileIndex::blocks_of(variable, row).block(found.block)};
  }

  void judge(const std::vector<CorruptBlock>& corrupt, const std::vector<Bytes>& of_ranks) const {
    for (std::size_t i = 0; i < corrupt.size(); ++i) {
      const bool read_right = std::ranges::any_of(
          of_ranks, [&](const Bytes& states) { return states[i] == static_cast<std::byte>(BlockState::right); });
      if (!read_right) {
        throw CorruptError(file_ + ": " + in_words(corrupt[i]) + " (checksum differs)");
      }
    }
    const CorruptBlock& first = corrupt.front();
    throw StorageError(ErrorCode::io,
                       fmt::format("rank {} on host {} reads wrong bits from {}, which are right when they are read "
                                   "again: the checkpoint is valid, but that host's memory or its way to the disk is "
                                   "not; start again without it",
                                   first.finder, comm_.host_of(static_cast<int>(first.finder)), file_));
  }

  [[nodiscard]] std::string in_words(const CorruptBlock& found) const {
    const auto [variable, row, box] = find(found);
    return "variable '" + variable.name + "' is corrupt: " + BlockReader::region_of(variable, row, box);
  }

  cluster::Communicator& comm_;
  BlockReader& reader_;
  const FileIndex& index_;
  const std::string& file_;
  std::string what_;
};

}  // namespace

int verifier_of(const StoredVariable& variable, std::uint64_t saver, std::uint64_t block, int saved_by, int ranks) {
  const auto size = static_cast<std::uint64_t>(ranks);
  if (variable.distribution == state::Distribution::replicated) {
    return static_cast<int>(block % size);
  }
  const auto savers = static_cast<std::uint64_t>(saved_by);
  const std::uint64_t first = saver * size / savers;
  const std::uint64_t end = std::max(first + 1, (saver + 1) * size / savers);
  return static_cast<int>(first + block % (end - first));
}

std::pair<std::uint64_t, std::uint64_t> savers_verified_by(int rank, int saved_by, int ranks) {
  const auto size = static_cast<std::uint64_t>(ranks);
  const auto savers = static_cast<std::uint64_t>(saved_by);
  // The first saver whose share of the ranks begins at a rank or behind it.
  const auto begins_at = [&](int from) { return (static_cast<std::uint64_t>(from) * savers + size - 1) / size; };
  const std::uint64_t end = begins_at(rank + 1);
  return {std::min(end - 1, begins_at(rank)), end};
}

void verify_first(cluster::Communicator& comm, BlockReader& reader, const FileIndex& index, const std::string& file) {
  Verification(comm, reader, index, file).run();
}

}  // namespace reprieve::storage
