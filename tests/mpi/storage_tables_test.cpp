// SPDX-License-Identifier: BSD-3-Clause
// The tables of a file at a restore: whether the ranks of a node look at one copy or each has its own, all get the
// same.

#include <sstream>

#include "storage/bytes/checksum.hpp"
#include "storage/format/commit_record.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;
using testing::HasSubstr;

/// Tables of every size are shared, or none can be by one rank, or by any, or they are too small.
const std::vector<std::pair<const char*, std::function<cluster::Sharing(int rank)>>> kWays{
    {"one copy",
     [](int) {
       return cluster::Sharing{1, true};
     }},
    {"the first rank cannot",
     [](int rank) {
       return cluster::Sharing{1, rank != 0};
     }},
    {"another rank cannot",
     [](int rank) {
       return cluster::Sharing{1, rank != 1};
     }},
    {"small",
     [](int) {
       return cluster::Sharing{std::size_t{1} << 30U, true};
     }},
};

class StorageTables : public StorageTest {
 protected:
  static constexpr std::uint64_t kRows = 60;

  /// A part of three grids, two of them in the same boxes, and a number.
  struct State {
    explicit State(const cluster::Communicator& comm)
        : rows(part_of(kRows, comm.rank(), comm.size())),
          grid({kRows, 7}, {rows.first, 0}, {rows.second, 7}, 1),
          alike({kRows, 7}, {rows.first, 0}, {rows.second, 7}, 0),
          other({kRows, 9}, {rows.first, 0}, {rows.second, 9}, 0),
          number(comm.rank()) {
      grid.register_in(checkpoint, "grid");
      alike.register_in(checkpoint, "grid of the same boxes");
      other.register_in(checkpoint, "other");
      checkpoint.add_replicated("number", number);
    }
    std::pair<std::uint64_t, std::uint64_t> rows;
    GhostedGrid grid;
    GhostedGrid alike;
    GhostedGrid other;
    int number;
    Checkpoint checkpoint;
  };

  void save_grid() {
    State saved(world);
    saved.grid.set();
    saved.alike.set();
    saved.other.set();
    save(world, saved.checkpoint);
  }

  void expect_corrupt(const std::string& message) {
    for (const auto& [way, sharing] : kWays) {
      world.set_sharing(sharing(world_rank()));
      State state(world);
      const SeenError error = same_error([&] { restore(world, state.checkpoint); });
      EXPECT_EQ(error.code, ErrorCode::corrupt) << way;
      EXPECT_THAT(error.message, HasSubstr(message));
    }
  }

  /// Says that a box lies outside of its dataset, with digests that fit.
  void forge_a_row() const {
    const PosixFile out = PosixFile::open_to_write(file);
    CommitRecord commit_record = read_commit_record(out);
    std::vector<std::uint64_t> words(commit_record.boxes.region.size / sizeof(std::uint64_t));
    out.read_all(std::as_writable_bytes(std::span(words)), commit_record.boxes.region.offset);
    words[BoxTable::kFixedWords] = kRows + 1;
    out.write_all(std::as_bytes(std::span(words)), commit_record.boxes.region.offset);
    commit_record.boxes.digest = xxh3(std::as_bytes(std::span(words)));
    write_commit_record(out, commit_record);
  }
};

TEST_F(StorageTables, ComeToTheSameStateOnAnyNumberOfRanks) {
  save_grid();
  for (const auto& each : kWays) {
    const auto& way = each.first;  // clang 14 captures no names of a structured binding
    for (int ranks = 1; ranks <= world_size(); ++ranks) {
      on_ranks(ranks, [&](cluster::Communicator& comm) {
        comm.set_sharing(each.second(comm.rank()));
        comm.set_piece_bytes(100);
        State state(comm);
        restore(comm, state.checkpoint);
        EXPECT_EQ(state.grid.wrong() + state.alike.wrong() + state.other.wrong(), 0U) << way << " on " << ranks;
        EXPECT_EQ(state.number, 0);
      });
    }
  }
}

/// The number of the mapped file in which this rank has tables that it shares; 0 if there is none.
std::int64_t shared_tables() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:reprieve-tables") != std::string::npos) {
      std::istringstream fields(line);
      std::string skipped;
      std::int64_t number = 0;
      fields >> skipped >> skipped >> skipped >> skipped >> number;
      return number;
    }
  }
  return 0;
}

TEST_F(StorageTables, AreOneCopyForTheRanksOfANodeAndGoneAfterwards) {
  REPRIEVE_NEEDS_RANKS(2);
  std::int64_t during = 0;
  double value = 1;
  Checkpoint checkpoint;  // the array is described in the middle of the restore
  checkpoint.add_distributed("array", [&]() -> DistributedArray {
    during = shared_tables();
    DistributedArray array;
    array.type = element_type_of<double>();
    array.global_shape = {static_cast<std::uint64_t>(world_size())};
    array.boxes.push_back({reinterpret_cast<std::byte*>(&value), {static_cast<std::uint64_t>(world_rank())}, {1}, {}});
    return array;
  });
  save(world, checkpoint);
  EXPECT_EQ(during, 0);
  for (const bool possible : {true, false}) {
    world.set_sharing({1, possible});
    restore(world, checkpoint);
    EXPECT_EQ(during != 0, possible);
    EXPECT_EQ(world.max(during, "test"), during);
    EXPECT_EQ(world.max(-during, "test"), -during);
    EXPECT_EQ(shared_tables(), 0);
  }
}

TEST_F(StorageTables, OfALyingFileAreTheSameErrorOnAllRanks) {
  save_grid();
  on_rank_0([&] { forge_a_row(); });
  expect_corrupt("a box is not inside of its dataset");
}

TEST_F(StorageTables, ThatAreCorruptAreTheSameErrorOnAllRanks) {
  save_grid();
  on_rank_0([&] { flip(read_commit_record(PosixFile::open_to_read(file)).boxes.region.offset + 20); });
  expect_corrupt("table of boxes is corrupt");
}

}  // namespace
}  // namespace reprieve::storage
