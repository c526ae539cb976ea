// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic of boxes: blocks, runs, strided copies, overlaps.

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "storage/read/restorer.hpp"
#include "support/boxes_and_bytes.hpp"

namespace reprieve::storage {
namespace {

std::uint64_t position(const Extents& index, const Extents& shape) {
  std::uint64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    at = at * shape[d] + index[d];
  }
  return at;
}

Box random_box(std::mt19937& engine, const Extents& shape) {
  Box box = whole(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    box.extent[d] = engine() % (shape[d] + 1);
    box.offset[d] = engine() % (shape[d] - box.extent[d] + 1);
  }
  return box;
}

TEST(Boxes, KnowTheirVolumeAndSize) {
  EXPECT_EQ(volume(Extents{}), 1U);
  EXPECT_EQ(volume(Extents{3, 0, 5}), 0U);
  EXPECT_EQ(volume(Extents{3, 4, 5}), 60U);
  std::uint64_t bytes = 7;
  EXPECT_TRUE(checked_bytes(Extents{1ULL << 40U, 0}, 8, bytes));
  EXPECT_EQ(bytes, 0U);
  EXPECT_TRUE(checked_bytes(Extents{1ULL << 40U, 3}, 8, bytes));
  EXPECT_EQ(bytes, 24ULL << 40U);
  EXPECT_FALSE(checked_bytes(Extents{1ULL << 40U, 1ULL << 40U}, 8, bytes));
  EXPECT_FALSE(checked_bytes(Extents{1ULL << 60U}, 8, bytes));  // 2^63 is no file offset
}

TEST(Boxes, AreShownAsRangesAndIntersect) {
  EXPECT_EQ(text_of(Box{{1, 20}, {3, 4}}), "[1:4, 20:24]");
  EXPECT_EQ(text_of(Box{}), "[]");
  EXPECT_EQ(intersection({{0, 0}, {4, 4}}, {{2, 3}, {4, 4}}), (Box{{2, 3}, {2, 1}}));
  EXPECT_EQ(volume(intersection({{0, 0}, {4, 4}}, {{4, 0}, {4, 4}}).extent), 0U);
  EXPECT_EQ(volume(intersection({{}, {}}, {{}, {}}).extent), 1U);
}

TEST(BlockSplit, KeepsWhatFitsInOneBlock) {
  for (const Box& box : {Box{{5, 6}, {7, 8}}, Box{}}) {
    const BlockSplit split(box, 8);
    ASSERT_EQ(split.count(), 1U);
    EXPECT_EQ(split.block(0), box);
  }
  EXPECT_EQ(BlockSplit({{0, 0}, {0, 5}}, 8).count(), 0U) << "nothing";
}

TEST(BlockSplit, CutsTheSlowestDimensionThatAllowsIt) {
  const BlockSplit rows({{10, 0}, {10, 100}}, 1, 350);  // three rows to a block
  ASSERT_EQ(rows.count(), 4U);
  EXPECT_EQ(rows.block(1), (Box{{13, 0}, {3, 100}}));
  EXPECT_EQ(rows.block(3), (Box{{19, 0}, {1, 100}}));
  const BlockSplit parts({{10, 0}, {2, 100}}, 1, 64);  // not even one row
  ASSERT_EQ(parts.count(), 4U);
  EXPECT_EQ(parts.block(1), (Box{{10, 64}, {1, 36}}));
  EXPECT_EQ(parts.block(2), (Box{{11, 0}, {1, 64}}));
  const BlockSplit elements({{0}, {3}}, 100, 64);  // not even one element
  ASSERT_EQ(elements.count(), 3U);
  EXPECT_EQ(elements.block(2), (Box{{2}, {1}}));
}

TEST(Boxes, TheirBlocksAndTheirRunsHaveEveryElementOnceInCOrder) {
  std::mt19937 engine(1);
  for (int round = 0; round < 300; ++round) {
    const Extents shape(1 + engine() % 4, 1 + engine() % 6);
    const Box box = random_box(engine, shape);
    std::vector<std::uint64_t> expected;
    for_each_index(box, [&](const Extents& index) { expected.push_back(position(index, shape)); });
    const std::uint64_t max_bytes = 1 + engine() % 60;
    const BlockSplit split(box, 4, max_bytes);
    std::vector<std::uint64_t> in_blocks;
    for (std::uint64_t i = 0; i < split.count(); ++i) {
      const Box block = split.block(i);
      EXPECT_LE(volume(block.extent) * 4, std::max<std::uint64_t>(max_bytes, 4));
      for_each_index(block, [&](const Extents& index) { in_blocks.push_back(position(index, shape)); });
    }
    EXPECT_EQ(in_blocks, expected) << text_of(box) << " in " << core::list_text(shape);
    std::vector<std::uint64_t> in_runs;
    for_each_run(box, shape, [&](std::uint64_t first, std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) {
        in_runs.push_back(first + i);
      }
    });
    EXPECT_EQ(in_runs, expected) << text_of(box) << " in " << core::list_text(shape);
  }
}

TEST(Runs, AreAsLongAsTheArrayAllows) {
  using Runs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  const auto runs_of = [](const Box& box, const Extents& shape) {
    Runs runs;
    for_each_run(box, shape, [&](std::uint64_t first, std::uint64_t count) { runs.emplace_back(first, count); });
    return runs;
  };
  EXPECT_EQ(runs_of({{2, 0}, {3, 10}}, {10, 10}), (Runs{{20, 30}}));
  EXPECT_EQ(runs_of({{2, 4}, {2, 3}}, {10, 10}), (Runs{{24, 3}, {34, 3}}));
  EXPECT_EQ(runs_of({{}, {}}, {}), (Runs{{0, 1}}));
  EXPECT_EQ(runs_of({{0, 4}, {0, 3}}, {10, 10}), Runs{});
}

/// Copies from ghosted, transposed and reversed memory to dense memory, and back.
TEST(StridedCopies, MoveEveryElement) {
  const Extents extent{3, 4, 5};
  const auto element = static_cast<std::ptrdiff_t>(sizeof(int));
  const std::vector<Strides> layouts{dense_strides(extent, sizeof(int)),
                                     {40 * element, 10 * element, 2 * element},
                                     {element, 3 * element, 12 * element},
                                     {30 * element, 6 * element, element},
                                     {element * 20, -5 * element, element}};
  for (const Strides& strides : layouts) {
    std::vector<int> memory(400, -1);
    int* const first = memory.data() + 100;
    const auto at = [&](const Extents& index) -> int& {
      return first[displacement(whole(extent), strides, index) / element];
    };
    for_each_index(whole(extent), [&](const Extents& index) { at(index) = static_cast<int>(position(index, extent)); });
    std::vector<int> dense(60, -2);
    const Strides dense_layout = dense_strides(extent, sizeof(int));
    auto* const dense_bytes = reinterpret_cast<std::byte*>(dense.data());
    auto* const first_byte = reinterpret_cast<std::byte*>(first);
    copy_box(dense_bytes, dense_layout, first_byte, strides, extent, sizeof(int));
    std::vector<int> expected(60);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(dense, expected);

    zero_box(first_byte, strides, extent, sizeof(int));
    for_each_index(whole(extent), [&](const Extents& index) { EXPECT_EQ(at(index), 0); });
    EXPECT_EQ(std::count(memory.begin(), memory.end(), -1), 400 - 60) << "touched elements outside of the box";
    copy_box(first_byte, strides, dense_bytes, dense_layout, extent, sizeof(int));
    for_each_index(whole(extent),
                   [&](const Extents& index) { EXPECT_EQ(at(index), static_cast<int>(position(index, extent))); });
  }
}

TEST(StridedCopies, WorkForElementsOfAnySize) {
  for (const std::size_t size : {1U, 2U, 3U, 4U, 8U, 16U, 32U}) {
    std::vector<std::byte> spread(10 * 2 * size);
    for (std::size_t i = 0; i < spread.size(); ++i) {
      spread[i] = static_cast<std::byte>(i);
    }
    std::vector<std::byte> dense(10 * size);
    copy_box(dense.data(), dense_strides({10}, size), spread.data(), {static_cast<std::ptrdiff_t>(2 * size)}, {10},
             size);
    for (std::size_t i = 0; i < dense.size(); ++i) {
      EXPECT_EQ(dense[i], spread[i / size * 2 * size + i % size]) << size;
    }
  }
}

TEST(StridedCopies, KnowDenseMemory) {
  EXPECT_TRUE(is_dense({3, 4}, {32, 8}, 8));
  EXPECT_FALSE(is_dense({3, 4}, {48, 8}, 8));
  EXPECT_TRUE(is_dense({1, 4}, {48, 8}, 8));  // there is no second row
  EXPECT_TRUE(is_dense({}, {}, 8));
}

/// A grid of n x n boxes of 3 x 5 elements.
std::vector<Box> grid(std::uint64_t n) {
  std::vector<Box> boxes;
  for (std::uint64_t row = 0; row < n; ++row) {
    for (std::uint64_t column = 0; column < n; ++column) {
      boxes.push_back({{row * 3, column * 5}, {3, 5}});
    }
  }
  return boxes;
}

TEST(Overlaps, AChunkingAndEmptyBoxesHaveNone) {
  EXPECT_TRUE(find_overlap({}).empty());
  EXPECT_TRUE(find_overlap(grid(40)).empty());
  EXPECT_TRUE(find_overlap({{{0, 0}, {4, 4}}, {{1, 1}, {0, 2}}, {{2, 2}, {1, 0}}}).empty());
}

TEST(Overlaps, OneExtraElementIsFound) {
  for (const std::size_t wide : {std::size_t{0}, std::size_t{777}, std::size_t{1520}}) {
    std::vector<Box> boxes = grid(40);
    boxes[wide].extent[1] += 1;
    EXPECT_EQ(find_overlap(boxes), (std::vector<std::size_t>{wide, wide + 1}));
  }
}

TEST(Overlaps, AgreeWithPairwiseComparison) {
  std::mt19937 engine(3);
  int overlapping = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Box> boxes;
    for (std::size_t i = 0; i < 40; ++i) {
      boxes.push_back({{engine() % 100, engine() % 100}, {1 + engine() % 4, 1 + engine() % 4}});
    }
    bool expected = false;
    for (std::size_t a = 0; a < boxes.size(); ++a) {
      for (std::size_t b = a + 1; b < boxes.size(); ++b) {
        expected = expected || volume(intersection(boxes[a], boxes[b]).extent) > 0;
      }
    }
    const auto found = find_overlap(boxes);
    ASSERT_EQ(!found.empty(), expected);
    if (expected) {
      ++overlapping;
      EXPECT_GT(volume(intersection(boxes[found[0]], boxes[found[1]]).extent), 0U);
    }
  }
  EXPECT_GT(overlapping, 10);
  EXPECT_LT(overlapping, 290);
}

TEST(BoxSearches, FindWhatAComparisonWithEachBoxFinds) {
  std::mt19937 engine(5);
  const Extents shape{30, 7, 12};
  std::size_t met = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Box> boxes;
    for (std::size_t i = 0; i < engine() % 30; ++i) {
      boxes.push_back(random_box(engine, shape));
    }
    const BoxSearch search(boxes);
    const Box wanted = random_box(engine, shape);
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (volume(intersection(boxes[i], wanted).extent) > 0) {
        expected.push_back(i);
      }
    }
    EXPECT_EQ(search.intersecting(wanted), expected);
    met += expected.size();
  }
  EXPECT_GT(met, 100U);
  EXPECT_EQ(BoxSearch({Box{}}).intersecting(Box{}), (std::vector<std::size_t>{0})) << "scalars too";
  EXPECT_TRUE(BoxSearch({}).intersecting(Box{}).empty());
}

// Which rank verifies which block: every block has one, whatever the numbers of ranks, and nobody has all.

/// Side by side, so that a rank need not look at the boxes of all ranks.
TEST(ProverOf, EveryRankHasAShareOfSaversThatAreSideBySide) {
  StoredVariable variable;
  variable.distribution = state::Distribution::distributed;
  for (const int saved_by : {1, 2, 3, 7, 12, 64}) {
    for (const int ranks : {1, 2, 3, 5, 12, 64, 100}) {
      SCOPED_TRACE(std::to_string(saved_by) + " on " + std::to_string(ranks));
      std::map<int, std::set<std::uint64_t>> savers;
      for (std::uint64_t saver = 0; saver < static_cast<std::uint64_t>(saved_by); ++saver) {
        for (std::uint64_t block = 0; block < 200; ++block) {
          savers[verifier_of(variable, saver, block, saved_by, ranks)].insert(saver);
        }
      }
      ASSERT_EQ(savers.size(), static_cast<std::size_t>(ranks));
      EXPECT_EQ(savers.begin()->first, 0);
      EXPECT_EQ(savers.rbegin()->first, ranks - 1);
      for (const auto& [rank, of_rank] : savers) {
        const auto [first, end] = savers_verified_by(rank, saved_by, ranks);
        EXPECT_EQ(of_rank.size(), end - first) << rank;
        EXPECT_EQ(*of_rank.begin(), first) << rank;
        EXPECT_EQ(*of_rank.rbegin(), end - 1) << rank;
      }
    }
  }
}

TEST(ProverOf, OnAsManyRanksEachProvesItsOwn) {
  StoredVariable variable;
  variable.distribution = state::Distribution::per_rank;
  for (std::uint64_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(verifier_of(variable, rank, 3, 5, 5), static_cast<int>(rank));
  }
}

TEST(ProverOf, WhatRank0WroteForAllIsProvenInTurn) {
  const StoredVariable variable;  // replicated
  EXPECT_EQ(verifier_of(variable, 0, 0, 4, 3), 0);
  EXPECT_EQ(verifier_of(variable, 0, 1, 4, 3), 1);
  EXPECT_EQ(verifier_of(variable, 0, 5, 4, 3), 2);
}

}  // namespace
}  // namespace reprieve::storage
