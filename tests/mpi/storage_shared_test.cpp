// SPDX-License-Identifier: BSD-3-Clause
// Staggered grids: nodes on the border of two ranks, of which both hold a copy that differs in the last bits.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "reprieve/reprieve.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

/// How many parts a grid has in each of its two dimensions.
struct Split {
  int rows = 1;
  int columns = 1;
  bool uneven = false;  ///< the first part of a dimension is twice as long
};

/// The cells of one part, and with the node at its end: both neighbours have the nodes between them.
std::pair<std::uint64_t, std::uint64_t> nodes_of(std::uint64_t cells, int part, int parts, bool uneven) {
  auto [first, count] = part_of(cells, part, parts);
  if (uneven) {
    const std::uint64_t begin =
        part == 0 ? 0 : cells * static_cast<std::uint64_t>(part + 1) / static_cast<std::uint64_t>(parts + 1);
    const std::uint64_t end = cells * static_cast<std::uint64_t>(part + 2) / static_cast<std::uint64_t>(parts + 1);
    first = begin;
    count = end - begin;
  }
  return {first, count + 1};
}

/// Nodes of a grid, (cells + 1) in each dimension.
class Nodes {
 public:
  Nodes(std::uint64_t cells, const Split& split, int rank) : cells_(cells), split_(split) {
    std::tie(offset_, extent_) = box_of(rank);
    values_.resize(static_cast<std::size_t>(extent_[0] * extent_[1]), -1.0);
  }

  /// Every rank has other last bits.
  static double value_of(int rank, std::uint64_t row, std::uint64_t column) {
    return (static_cast<double>(row) * 1e4 + static_cast<double>(column) + 0.5) * (1 + rank * 0x1p-40);
  }

  void set(int rank) {
    for_each([&](double& value, std::uint64_t row, std::uint64_t column) { value = value_of(rank, row, column); });
  }
  void forget() { std::ranges::fill(values_, -1.0); }

  void register_in(Checkpoint& checkpoint, const std::string& name, bool shared = true) {
    checkpoint.add_distributed(name, values_,
                               {.global_shape = {cells_ + 1, cells_ + 1}, .offset = offset_, .extent = extent_});
    if (shared) {
      checkpoint.allow_shared(name);
    }
  }

  /// Nodes that are not those of @p rank.
  [[nodiscard]] std::size_t not_of(int rank) {
    std::size_t wrong = 0;
    for_each([&](double value, std::uint64_t row, std::uint64_t column) {
      wrong += value == value_of(rank, row, column) ? 0U : 1U;
    });
    return wrong;
  }

  /// Nodes that are not those of the lowest rank that had them in @p split.
  [[nodiscard]] std::size_t not_of_owner(const Split& split) {
    std::size_t wrong = 0;
    const Nodes saved(cells_, split, 0);
    for_each([&](double value, std::uint64_t row, std::uint64_t column) {
      int owner = 0;
      while (!saved.has(owner, row, column)) {
        ++owner;
      }
      wrong += value == value_of(owner, row, column) ? 0U : 1U;
    });
    return wrong;
  }

 private:
  [[nodiscard]] std::pair<Extents, Extents> box_of(int rank) const {
    const auto [row, rows] = nodes_of(cells_, rank / split_.columns, split_.rows, split_.uneven);
    const auto [column, columns] = nodes_of(cells_, rank % split_.columns, split_.columns, split_.uneven);
    return {{row, column}, {rows, columns}};
  }
  [[nodiscard]] bool has(int rank, std::uint64_t row, std::uint64_t column) const {
    const auto [offset, extent] = box_of(rank);
    return row >= offset[0] && row < offset[0] + extent[0] && column >= offset[1] && column < offset[1] + extent[1];
  }
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      visit(values_[i], offset_[0] + i / extent_[1], offset_[1] + i % extent_[1]);
    }
  }

  std::uint64_t cells_;
  Split split_;
  Extents offset_;
  Extents extent_;
  std::vector<double> values_;
};

class SharedElements : public StorageTest {
 protected:
  void save_nodes(cluster::Communicator& comm, std::uint64_t cells, const Split& split,
                  WriterKind writer = WriterKind::direct) const {
    Nodes nodes(cells, split, comm.rank());
    nodes.set(comm.rank());
    Checkpoint checkpoint;
    nodes.register_in(checkpoint, "grid/nodes");
    save(comm, checkpoint, writer);
  }

  /// Restores on another split. Returns the nodes.
  Nodes restored(cluster::Communicator& comm, std::uint64_t cells, const Split& split, bool shared = true) const {
    Nodes nodes(cells, split, comm.rank());
    Checkpoint checkpoint;
    nodes.register_in(checkpoint, "grid/nodes", shared);
    restore(comm, checkpoint);
    return nodes;
  }
};

constexpr std::uint64_t kCells = 24;

TEST_F(SharedElements, TheSameSplitGivesEveryRankItsOwnBits) {
  for (const WriterKind writer : {WriterKind::direct, WriterKind::mpio}) {
    for (int ranks = 1; ranks <= test::world_size(); ++ranks) {
      for (const Split& split : {Split{ranks, 1, false}, Split{1, ranks, false}, Split{ranks, 1, true}}) {
        on_ranks(ranks, [&](cluster::Communicator& comm) {
          save_nodes(comm, kCells, split, writer);
          EXPECT_EQ(restored(comm, kCells, split).not_of(comm.rank()), 0U) << ranks;
        });
        on_rank_0([&] { EXPECT_TRUE(verify_file(file).empty()); });
      }
    }
  }
}

TEST_F(SharedElements, AnotherSplitGivesTheValuesOfTheOwner) {
  for (int ranks = 1; ranks <= test::world_size(); ++ranks) {
    const Split split{ranks, 1, false};
    on_ranks(ranks, [&](cluster::Communicator& comm) { save_nodes(comm, kCells, split); });
    for (int later = 1; later <= test::world_size(); ++later) {
      on_ranks(later, [&](cluster::Communicator& comm) {
        EXPECT_EQ(restored(comm, kCells, {1, later, false}).not_of_owner(split), 0U);
        EXPECT_EQ(restored(comm, kCells, {later, 1, true}).not_of_owner(split), 0U);
      });
    }
  }
}

TEST_F(SharedElements, CornersOfFourRanks) {
  REPRIEVE_NEEDS_RANKS(4);
  const Split four{2, 2, false};
  on_ranks(4, [&](cluster::Communicator& comm) {
    save_nodes(comm, kCells, four);
    EXPECT_EQ(restored(comm, kCells, four).not_of(comm.rank()), 0U);
    EXPECT_EQ(restored(comm, kCells, {4, 1, false}).not_of_owner(four), 0U);
    EXPECT_EQ(restored(comm, kCells, {2, 2, true}).not_of_owner(four), 0U);
  });
}

TEST_F(SharedElements, SmallPiecesThatAreExchanged) {
  constexpr std::uint64_t cells = 499;  // 2 MB, in rows that are too small for a write of their own
  const Split split{1, test::world_size(), false};
  save_nodes(world, cells, split);
  EXPECT_EQ(restored(world, cells, split).not_of(world.rank()), 0U);
  EXPECT_EQ(restored(world, cells, {test::world_size(), 1, false}).not_of_owner(split), 0U);
}

TEST_F(SharedElements, AProgramThatSharesNothingGetsTheValuesOfTheOwner) {
  const Split split{test::world_size(), 1, false};
  save_nodes(world, kCells, split);
  on_ranks(1, [&](cluster::Communicator& comm) {
    EXPECT_EQ(restored(comm, kCells, {1, 1, false}, false).not_of_owner(split), 0U);
  });
}

TEST_F(SharedElements, AFileWithoutCopiesFillsThemFromTheArray) {
  on_ranks(1, [&](cluster::Communicator& comm) {
    Nodes nodes(kCells, {}, 0);
    nodes.set(0);
    Checkpoint checkpoint;
    nodes.register_in(checkpoint, "grid/nodes", false);
    save(comm, checkpoint);
  });
  EXPECT_EQ(restored(world, kCells, {test::world_size(), 1, false}).not_of(0), 0U);
}

TEST_F(SharedElements, BoxesOfOneRankMayOverlapToo) {
  std::array<double, 4> left{0, 1, 2, 3};
  std::array<double, 4> right{2.5, 3.5, 4, 5};
  const auto n = static_cast<std::uint64_t>(test::world_size());
  const std::uint64_t first = 6 * static_cast<std::uint64_t>(test::world_rank());
  Checkpoint checkpoint;
  checkpoint.add_distributed("blocks", [&] {
    return DistributedArray{element_type_of<double>(),
                            {6 * n},
                            {{reinterpret_cast<std::byte*>(left.data()), {first}, {4}},
                             {reinterpret_cast<std::byte*>(right.data()), {first + 2}, {4}}}};
  });
  checkpoint.allow_shared("blocks");
  save(world, checkpoint);
  left.fill(-1);
  right.fill(-1);
  restore(world, checkpoint);
  EXPECT_EQ(left, (std::array<double, 4>{0, 1, 2, 3}));
  EXPECT_EQ(right, (std::array<double, 4>{2.5, 3.5, 4, 5}));
  std::array<double, 6> all{};
  Checkpoint whole;
  whole.add_distributed("blocks", all, {.global_shape = {6 * n}, .offset = {first}, .extent = {6}});
  restore(world, whole);
  EXPECT_EQ(all, (std::array<double, 6>{0, 1, 2, 3, 4, 5})) << "the first box owns what both hold";
}

TEST_F(SharedElements, ACorruptCopyIsNoticed) {
  REPRIEVE_NEEDS_RANKS(2);
  const Split split{test::world_size(), 1, false};
  save_nodes(world, kCells, split);
  on_rank_0([&] {
    const auto variables = list_variables(file);
    ASSERT_EQ(variables.size(), 3U);
    EXPECT_EQ(variables[0].name, "@shared/grid/nodes/boxes");
    EXPECT_EQ(variables[1].name, "@shared/grid/nodes/values");
    EXPECT_EQ(variables[1].shape, (Extents{(kCells + 1) * static_cast<std::uint64_t>(test::world_size() - 1)}));
    const std::vector<std::byte> copies = read_variable(file, "@shared/grid/nodes/values");
    std::ifstream stream(file, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(stream)), {});
    const auto at = content.find(std::string(reinterpret_cast<const char*>(copies.data()), copies.size()));
    ASSERT_NE(at, std::string::npos);
    flip(at + 8);
    const auto corruption = verify_file(file);
    ASSERT_EQ(corruption.size(), 1U);
    EXPECT_EQ(corruption[0].variable, "@shared/grid/nodes/values");
  });
  EXPECT_EQ(same_error([&] { restored(world, kCells, split); }).code, ErrorCode::corrupt);
}

TEST_F(SharedElements, SavedInTheBackgroundAndInPlaceOfARetiredCheckpoint) {
  Nodes nodes(kCells, {test::world_size(), 1, false}, test::world_rank());
  Checkpoint checkpoint;
  nodes.register_in(checkpoint, "nodes");
  ManagerOptions options;
  options.max_to_keep = 1;
  CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory / "run", options);
  for (std::uint64_t number = 1; number <= 4; ++number) {
    nodes.set(test::world_rank());
    CheckpointManager::SaveRequest request;
    request.number = number;
    manager.save_in_background(request);
    nodes.forget();
    manager.finish_background_save();
    ASSERT_TRUE(manager.restore_or_initialize());
    EXPECT_EQ(nodes.not_of(test::world_rank()), 0U) << number;
  }
}

TEST_F(SharedElements, NamesAreReserved) {
  Checkpoint checkpoint;
  int value = 0;
  EXPECT_THROW(checkpoint.add_replicated("@shared/nodes/values", value), UsageError);
  EXPECT_THROW(checkpoint.add_replicated("@shared", value), UsageError);
  checkpoint.add_replicated("value", value);
  EXPECT_THROW(checkpoint.allow_shared("value"), UsageError) << "not distributed";
  EXPECT_THROW(checkpoint.allow_shared("unknown"), UsageError);
  Checkpoint part;
  part.add_replicated("value", value);
  EXPECT_THROW(checkpoint.add_component("@shared", std::move(part)), UsageError);
}

}  // namespace
}  // namespace reprieve::storage
