// SPDX-License-Identifier: BSD-3-Clause
// Which rank verifies which block: every block has one, whatever the numbers of ranks, and nobody has all.

#include <gtest/gtest.h>

#include <set>

#include "storage/read/proof.hpp"

namespace reprieve::storage {
namespace {

TEST(ProverOf, EveryRankHasAShareAndStaysInRange) {
  StoredVariable variable;
  variable.distribution = state::Distribution::distributed;
  for (const int saved_by : {1, 2, 3, 7, 64}) {
    for (const int ranks : {1, 2, 3, 5, 64, 100}) {
      std::set<int> provers;
      for (int rank = 0; rank < saved_by; ++rank) {
        BoxRow row;
        row.rank = static_cast<std::uint64_t>(rank);
        for (std::uint64_t block = 0; block < 200; ++block) {
          const int prover = prover_of(variable, row.rank, block, saved_by, ranks);
          ASSERT_GE(prover, 0);
          ASSERT_LT(prover, ranks);
          provers.insert(prover);
        }
      }
      EXPECT_EQ(provers.size(), static_cast<std::size_t>(ranks)) << saved_by;
    }
  }
}

TEST(ProverOf, OnAsManyRanksEachProvesItsOwn) {
  StoredVariable variable;
  variable.distribution = state::Distribution::per_rank;
  for (std::uint64_t rank = 0; rank < 5; ++rank) {
    BoxRow row;
    row.rank = rank;
    EXPECT_EQ(prover_of(variable, row.rank, 3, 5, 5), static_cast<int>(rank));
  }
}

TEST(ProverOf, WhatTheChiefWroteForAllIsProvenInTurn) {
  const StoredVariable variable;  // replicated
  EXPECT_EQ(prover_of(variable, 0, 0, 4, 3), 0);
  EXPECT_EQ(prover_of(variable, 0, 1, 4, 3), 1);
  EXPECT_EQ(prover_of(variable, 0, 5, 4, 3), 2);
}

/// So that a rank need not look at the boxes of all ranks.
TEST(ProverOf, TheSaversWhoseBoxesARankProvesAreSideBySide) {
  StoredVariable variable;
  variable.distribution = state::Distribution::distributed;
  for (const int saved_by : {1, 2, 3, 7, 12, 64}) {
    for (const int ranks : {1, 2, 3, 5, 12, 64, 100}) {
      for (int rank = 0; rank < ranks; ++rank) {
        std::set<std::uint64_t> savers;
        for (BoxRow row; row.rank < static_cast<std::uint64_t>(saved_by); ++row.rank) {
          for (std::uint64_t block = 0; block < 200; ++block) {
            if (prover_of(variable, row.rank, block, saved_by, ranks) == rank) {
              savers.insert(row.rank);
            }
          }
        }
        const auto [first, end] = savers_proven_by(rank, saved_by, ranks);
        ASSERT_EQ(savers.size(), end - first) << rank << ' ' << saved_by << ' ' << ranks;
        EXPECT_EQ(*savers.begin(), first);
        EXPECT_EQ(*savers.rbegin(), end - 1);
      }
    }
  }
}

}  // namespace
}  // namespace reprieve::storage
