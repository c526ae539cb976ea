// SPDX-License-Identifier: BSD-3-Clause
// Structs with a list of members: compound types for other programs, the same bytes for this one.

#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;

struct Cell {
  double energy = 0;
  std::int32_t level = 0;
  float velocity[3] = {};

  friend bool operator==(const Cell& a, const Cell& b) {
    return a.energy == b.energy && a.level == b.level && std::equal(a.velocity, a.velocity + 3, b.velocity);
  }
};

/// The same program in another version.
struct OtherCell {
  double energy = 0;
  float velocity[3] = {};
  std::int32_t level = 0;
};
static_assert(sizeof(OtherCell) == sizeof(Cell));

/// And in one that knew of no members.
struct PlainCell {
  std::array<std::byte, sizeof(Cell)> bytes{};
};

}  // namespace
}  // namespace reprieve::storage

template <>
struct reprieve::RecordMembers<reprieve::storage::Cell> {
  using Cell = storage::Cell;
  static Members list() {
    return members_of<Cell>()
        .add("energy", &Cell::energy)
        .add("level", &Cell::level)
        .add("velocity", &Cell::velocity)
        .list();
  }
};
template <>
struct reprieve::RecordMembers<reprieve::storage::OtherCell> {
  using Cell = storage::OtherCell;
  static Members list() {
    return members_of<Cell>().add("energy", &Cell::energy).add("velocity", &Cell::velocity).list();
  }
};
template <>
inline constexpr bool reprieve::enable_record<reprieve::storage::PlainCell> = true;

namespace reprieve::storage {
namespace {

class Records : public StorageTest, public testing::WithParamInterface<WriterKind> {
 protected:
  static Cell cell() { return {0.5 + world_rank(), 10 * world_rank(), {1, 2, 3}}; }

  template <class T>
  void add(std::vector<T>& cells) {
    checkpoint = Checkpoint();
    checkpoint.add_distributed("cells", cells,
                               {.global_shape = {static_cast<std::uint64_t>(world_size())},
                                .offset = {static_cast<std::uint64_t>(world_rank())},
                                .extent = {1}});
    checkpoint.add_per_rank("list", cells);
  }

  Checkpoint checkpoint;
};

TEST_P(Records, ComeBackAndAreListed) {
  std::vector<Cell> cells{cell()};
  add(cells);
  save(world, checkpoint, GetParam());
  cells = {Cell()};
  restore(world, checkpoint);
  EXPECT_EQ(cells, std::vector{cell()});
  on_rank_0([&] {
    EXPECT_TRUE(verify_file(file).empty());
    const auto variables = list_variables(file);
    EXPECT_EQ(variables[0].members, RecordMembers<Cell>::list());
    EXPECT_EQ(variables[1].members, RecordMembers<Cell>::list());
  });
}

TEST_P(Records, OtherMembersAreAMismatchThatNamesThem) {
  std::vector<Cell> cells{cell()};
  add(cells);
  save(world, checkpoint, GetParam());
  std::vector<OtherCell> others(1);
  add(others);
  EXPECT_THAT(same_error([&] { restore(world, checkpoint); }),
              is_error(ErrorCode::mismatch,
                       "variable 'cells': registered with other members than are stored: "
                       "'velocity' float32[3] at byte 8 (stored: float32[3] at byte 12), "
                       "'level' none (stored: int32 at byte 8)",
                       "variable 'list': "));
  EXPECT_EQ(others[0].energy, 0) << "it was touched";
}

TEST_P(Records, WithoutAListOnOneSideTheBytesAreTaken) {
  std::vector<Cell> cells{cell()};
  std::vector<PlainCell> plain(1);
  add(cells);
  save(world, checkpoint, GetParam());
  add(plain);
  restore(world, checkpoint);
  EXPECT_EQ(std::memcmp(plain.data(), cells.data(), sizeof(Cell)), 0);
  save(world, checkpoint, GetParam());
  cells = {Cell()};
  add(cells);
  restore(world, checkpoint);
  EXPECT_EQ(cells, std::vector{cell()});
}

TEST_P(Records, RanksThatDifferAreReported) {
  REPRIEVE_NEEDS_RANKS(2);
  std::vector<Cell> cells{cell()};
  add(cells);
  if (world_rank() == 1) {
    checkpoint.set_members("list", RecordMembers<OtherCell>::list());
  }
  EXPECT_THAT(same_error([&] { save(world, checkpoint, GetParam()); }),
              is_error(ErrorCode::mismatch, "variable 'list': rank 1 has elements with other members: 'velocity'"));
}

INSTANTIATE_TEST_SUITE_P(Writers, Records, testing::Values(WriterKind::direct, WriterKind::mpio),
                         [](const auto& writer) { return writer.param == WriterKind::direct ? "direct" : "mpio"; });

}  // namespace
}  // namespace reprieve::storage
