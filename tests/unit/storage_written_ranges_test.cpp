// SPDX-License-Identifier: BSD-3-Clause
// Which ranges of a file that is written over are left as they lie.

#include <gtest/gtest.h>

#include <numeric>

#include "storage/write/write_item.hpp"

namespace reprieve::storage {
namespace {

using Look = WrittenRanges::Look;
constexpr std::uint64_t kManyRanges = 400;

/// A state of whole ranges.
class WrittenRangesTest : public testing::Test {
 protected:
  WrittenRangesTest() : state(kManyRanges * kRangeBytes) {
    for (std::size_t i = 0; i < state.size(); ++i) {
      state[i] = static_cast<std::byte>(i * 7 + i / kRangeBytes);
    }
  }

  void change(std::uint64_t range, std::uint64_t place = 0) { state.at(range * kRangeBytes + place) ^= std::byte{1}; }

  [[nodiscard]] std::span<const std::byte> bytes_of(std::uint64_t range) const {
    return std::span(state).subspan(static_cast<std::size_t>(range * kRangeBytes), kRangeBytes);
  }

  /// A save into the file that @p over left. Returns which ranges were left out.
  std::vector<std::uint64_t> save(std::uint64_t over, bool is_last = false) {
    std::vector<std::uint64_t> left_out;
    const auto ranges = history.begin(over, ++saves, is_last);
    for (std::uint64_t range = 0; ranges && range < kManyRanges; ++range) {
      if (ranges->holds(bytes_of(range), range * kRangeBytes)) {
        left_out.push_back(range);
      }
    }
    return left_out;
  }

  [[nodiscard]] static std::vector<std::uint64_t> all_but(std::uint64_t one) {
    std::vector<std::uint64_t> ranges(kManyRanges);
    std::iota(ranges.begin(), ranges.end(), std::uint64_t{0});
    ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(one));
    return ranges;
  }

  std::vector<std::byte> state;
  WriteHistory history;
  std::uint64_t saves = 0;
};

TEST_F(WrittenRangesTest, WhatIsNotKnownIsWritten) {
  EXPECT_TRUE(save(0).empty());
  EXPECT_TRUE(save(0).empty()) << "another new file";
  EXPECT_TRUE(save(99).empty()) << "a file of a save that this one knows nothing of";
}

TEST_F(WrittenRangesTest, WhatChangedIsWrittenAndNothingElse) {
  save(0);
  save(0);
  for (const std::uint64_t place : {std::uint64_t{0}, std::uint64_t{31}, kRangeBytes - 1}) {
    change(5, place);
    EXPECT_EQ(save(saves - 1), all_but(5));
    EXPECT_EQ(save(saves - 1), all_but(5)) << "that file holds the state from before the change";
    EXPECT_EQ(save(saves - 1).size(), kManyRanges);
    EXPECT_EQ(save(saves - 1).size(), kManyRanges);
  }
}

TEST_F(WrittenRangesTest, AFileIsKnownOnce) {
  save(0);
  EXPECT_EQ(save(1).size(), kManyRanges);
  EXPECT_TRUE(save(1).empty()) << "that file has been written over";
}

TEST_F(WrittenRangesTest, EverySixteenthTimeAllIsWritten) {
  save(0);
  int full = 0;
  for (int i = 1; i < 33; ++i) {
    const bool is_full = save(saves).empty();
    full += is_full ? 1 : 0;
    EXPECT_EQ(is_full, i % 16 == 0) << i;
  }
  EXPECT_EQ(full, 2);
}

TEST_F(WrittenRangesTest, PartsOfARangeAreWritten) {
  save(0);
  const auto ranges = history.begin(saves, saves + 1, false);
  EXPECT_FALSE(ranges->holds(bytes_of(3).first(kRangeBytes - 1), 3 * kRangeBytes));
  EXPECT_FALSE(ranges->holds(bytes_of(3), 3 * kRangeBytes + 8)) << "of two ranges";
  EXPECT_TRUE(ranges->holds(bytes_of(3), 3 * kRangeBytes));
}

TEST_F(WrittenRangesTest, BytesAtAnotherPlaceAreOthers) {
  save(0);
  const auto ranges = history.begin(saves, saves + 1, false);
  EXPECT_FALSE(ranges->holds(bytes_of(3), 4 * kRangeBytes));
  EXPECT_FALSE(ranges->holds(bytes_of(3), (kManyRanges + 4) * kRangeBytes)) << "nothing was written there";
}

TEST_F(WrittenRangesTest, RangesInAnyOrderAreFound) {
  auto ranges = history.begin(0, 1, false);
  for (const std::uint64_t range : {7U, 8U, 3U, 100U, 9U, 1U, 2U}) {
    EXPECT_FALSE(ranges->holds(bytes_of(range), range * kRangeBytes));
  }
  ranges = history.begin(1, 2, false);
  for (const std::uint64_t range : {1U, 2U, 3U, 7U, 8U, 9U, 100U}) {
    EXPECT_TRUE(ranges->holds(bytes_of(range), range * kRangeBytes)) << range;
  }
  for (const std::uint64_t range : {0U, 4U, 6U, 10U, 99U, 101U}) {
    EXPECT_FALSE(ranges->holds(bytes_of(range), range * kRangeBytes)) << range;
  }
}

TEST_F(WrittenRangesTest, WhereAllChangesOnlySomeAreLookedAtUntilThatEnds) {
  const auto change_all = [&] {
    for (std::uint64_t range = 0; range < kManyRanges; ++range) {
      change(range);
    }
  };
  save(0);
  EXPECT_EQ(history.begin(saves, saves + 1, false)->look(), Look::all);
  ++saves;
  save(0);
  change_all();
  EXPECT_TRUE(save(saves).empty());
  const auto some = history.begin(saves, saves + 1, false);
  EXPECT_EQ(some->look(), Look::some);
  ++saves;
  EXPECT_TRUE(save(0).empty());
  EXPECT_TRUE(save(saves).empty()) << "some are seen to be equal, and nothing is left out";
  const auto all = history.begin(saves, saves + 1, false);
  EXPECT_EQ(all->look(), Look::all);
  EXPECT_FALSE(all->leaves_out()) << "of the save before only some are known";
  ++saves;
  save(0);
  EXPECT_EQ(save(saves).size(), kManyRanges);
}

TEST_F(WrittenRangesTest, TheLastSaveIsNotRemembered) {
  EXPECT_EQ(history.begin(0, 1, true), nullptr);
  saves = 1;
  save(0);
  EXPECT_EQ(save(saves, true).size(), kManyRanges) << "but what is known serves it";
}

}  // namespace
}  // namespace reprieve::storage
