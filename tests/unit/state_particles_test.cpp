// SPDX-License-Identifier: BSD-3-Clause
// Redistribution of lists that each rank has of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "reprieve/error.hpp"
#include "reprieve/particles.hpp"
#include "support/saved_pieces.hpp"

namespace reprieve {
namespace {

using test::SavedPieces;
using ::testing::ElementsAre;

const SavedPieces kSaved = SavedPieces::of_lists<int>({{1, 2, 3}, {}, {4, 5, 6, 7}});

std::vector<std::vector<int>> redistributed(const Redistribute<std::vector<int>>& function, const SavedPieces& pieces,
                                            int ranks) {
  std::vector<std::vector<int>> lists;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> list{99};
    function(pieces, rank, ranks, list);
    lists.push_back(list);
  }
  return lists;
}

TEST(InOrder, CutsTheListsOfAllRanksEvenly) {
  const auto function = in_order<std::vector<int>>();
  EXPECT_THAT(redistributed(function, kSaved, 1), ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6, 7)));
  EXPECT_THAT(redistributed(function, kSaved, 2), ElementsAre(ElementsAre(1, 2, 3, 4), ElementsAre(5, 6, 7)));
  EXPECT_THAT(redistributed(function, kSaved, 4),
              ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4), ElementsAre(5, 6), ElementsAre(7)));
  EXPECT_THAT(redistributed(function, SavedPieces::of_lists<int>({{}, {1}}), 3),
              ElementsAre(ElementsAre(1), ElementsAre(), ElementsAre()));
}

TEST(InOrder, KeepsTheValuesOfAnItemTogether) {
  const auto pieces = SavedPieces::of_lists<int>({{1, 1, 2, 2, 3, 3}, {4, 4}});
  EXPECT_THAT(redistributed(in_order<std::vector<int>>(2), pieces, 3),
              ElementsAre(ElementsAre(1, 1, 2, 2), ElementsAre(3, 3), ElementsAre(4, 4)));
  EXPECT_THROW(redistributed(in_order<std::vector<int>>(4), pieces, 2), MismatchError);
}

TEST(InOrder, EveryItemComesBackOnceOnAnyNumberOfRanks) {
  std::vector<std::vector<int>> lists(5);
  for (int item = 0; item < 100; ++item) {
    lists[static_cast<std::size_t>(item * item % 5)].push_back(item);
  }
  for (int ranks = 1; ranks <= 12; ++ranks) {
    std::vector<int> all;
    for (const auto& list : redistributed(in_order<std::vector<int>>(), SavedPieces::of_lists(lists), ranks)) {
      EXPECT_LE(list.size(), 100U / static_cast<unsigned>(ranks) + 1);
      all.insert(all.end(), list.begin(), list.end());
    }
    std::vector<int> expected;
    for (const auto& list : lists) {
      expected.insert(expected.end(), list.begin(), list.end());
    }
    EXPECT_EQ(all, expected) << ranks;
  }
}

TEST(ByOwner, AsksWhereEachItemBelongs) {
  const auto odd_or_even = by_owner<std::vector<int>>([](const int& item, int size) { return item % size; });
  EXPECT_THAT(redistributed(odd_or_even, kSaved, 2), ElementsAre(ElementsAre(2, 4, 6), ElementsAre(1, 3, 5, 7)));
  EXPECT_THROW(redistributed(by_owner<std::vector<int>>([](const int&, int size) { return size; }), kSaved, 2),
               UsageError);
}

TEST(ByOwners, OneListTellsWhereTheOthersGo) {
  auto velocities = SavedPieces::of_lists<int>({{10, 11, 20, 21}, {30, 31}});
  velocities.add_sibling("position", SavedPieces::of_lists<double>({{0.25, 0.75}, {0.5}}));
  const OwnersOf by_position = [](const PerRankPieces& pieces, int saved_rank, int size) {
    std::vector<int> owners;
    for (const double x : values_of<double>(pieces.of("position"), saved_rank)) {
      owners.push_back(static_cast<int>(x * size));
    }
    return owners;
  };
  EXPECT_THAT(redistributed(by_owners<std::vector<int>>(by_position, 2), velocities, 2),
              ElementsAre(ElementsAre(10, 11), ElementsAre(20, 21, 30, 31)));
  EXPECT_THROW(redistributed(by_owners<std::vector<int>>(by_position, 1), velocities, 2), UsageError);
}

TEST(Pieces, OfAnotherTypeAreRefused) {
  EXPECT_THROW(static_cast<void>(values_of<float>(kSaved, 0)), MismatchError);
  EXPECT_THAT(values_of<int>(kSaved, 0), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace reprieve
