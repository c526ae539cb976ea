// SPDX-License-Identifier: BSD-3-Clause
// Bytes that all ranks look at: one copy for the ranks of a node, or one for each rank, and always the same bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cluster/communicator.hpp"
#include "reprieve/error.hpp"
#include "support/mpi_test.hpp"

namespace reprieve::cluster {
namespace {

using namespace std::chrono_literals;
using test::world_rank;
using test::world_size;

constexpr std::size_t kBytes = 10'001;

class CommonBytesTest : public testing::Test {
 protected:
  CommonBytesTest() { comm_.set_sharing({1, true}); }

  /// What @p root has, on this rank.
  CommonBytes broadcast(std::size_t size, int root = 0) {
    const auto fill = [&](std::span<std::byte> bytes) {
      EXPECT_EQ(comm_.rank(), root);
      EXPECT_EQ(bytes.size(), size);
      std::ranges::copy(pattern(size, root), bytes.begin());
    };
    return comm_.broadcast_common(size, fill, root, "test");
  }

  static Bytes pattern(std::size_t size, int root) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(root) * 31 + i % 251);
    }
    return bytes;
  }

  static bool is_pattern(const CommonBytes& common, std::size_t size, int root) {
    return std::ranges::equal(common.bytes, pattern(size, root));
  }

  /// Ranks that answer for memory of their own.
  int copies(const CommonBytes& common) {
    const int mine = common.is_first ? 1 : 0;
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
  }

  Communicator comm_{MPI_COMM_WORLD, 20s};
};

/// All ranks of the tests run on one node.
TEST_F(CommonBytesTest, AreOneCopyForTheRanksOfANodeWhicheverRankHasThem) {
  for (int root = 0; root < world_size(); ++root) {
    const CommonBytes common = broadcast(kBytes, root);
    EXPECT_TRUE(is_pattern(common, kBytes, root)) << root;
    EXPECT_EQ(common.is_first, world_rank() == 0);
  }
}

/// A write of the first rank shows on all others: it is the same memory.
TEST_F(CommonBytesTest, AreTheSameMemory) {
  const CommonBytes common = broadcast(kBytes);
  if (common.is_first) {
    const_cast<std::byte&>(common.bytes[77]) = std::byte{255};
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(common.bytes[77], std::byte{255});
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(CommonBytesTest, ComeInPieces) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, kBytes, kBytes + 1}) {
    comm_.set_piece_bytes(piece);
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{1001}}) {
      EXPECT_TRUE(is_pattern(broadcast(size, world_size() - 1), size, world_size() - 1));
    }
  }
}

TEST_F(CommonBytesTest, AreCopiedIfThereAreFewOfThem) {
  comm_.set_sharing({kBytes, true});
  const CommonBytes few = broadcast(kBytes - 1);
  EXPECT_TRUE(is_pattern(few, kBytes - 1, 0));
  EXPECT_EQ(copies(few), world_size());
  EXPECT_EQ(copies(broadcast(kBytes)), 1);
  EXPECT_TRUE(broadcast(0).bytes.empty());
  comm_.set_sharing({0, true});
  EXPECT_TRUE(broadcast(0).bytes.empty());
}

/// As in containers that do not see each other, or where there is no memory that can be shared.
TEST_F(CommonBytesTest, AreCopiedIfARankCannotShare) {
  comm_.set_piece_bytes(999);
  for (int without = 0; without < world_size(); ++without) {
    comm_.set_sharing({1, world_rank() != without});
    for (int root = 0; root < world_size(); ++root) {
      const CommonBytes common = broadcast(kBytes, root);
      EXPECT_TRUE(is_pattern(common, kBytes, root)) << without << ' ' << root;
      EXPECT_EQ(copies(common), world_size());
    }
  }
}

TEST_F(CommonBytesTest, StayWhenTheCommunicatorAndOtherRanksCopiesAreGone) {
  CommonBytes common;
  {
    Communicator comm(MPI_COMM_WORLD, 20s);
    comm.set_sharing({1, true});
    const auto fill = [](std::span<std::byte> bytes) { std::ranges::copy(pattern(kBytes, 0), bytes.begin()); };
    common = comm.broadcast_common(kBytes, fill, 0, "test");
  }
  if (world_rank() == 0) {
    common = {};
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_TRUE(world_rank() == 0 || is_pattern(common, kBytes, 0));
}

TEST_F(CommonBytesTest, AFailureToMakeThemReachesAll) {
  for (int root = 0; root < world_size(); ++root) {
    try {
      static_cast<void>(comm_.broadcast_common(
          kBytes, [](std::span<std::byte>) { throw StorageError(ErrorCode::io, "the disk is gone"); }, root, "test"));
      ADD_FAILURE() << "no error";
    } catch (const StorageError& error) {
      EXPECT_STREQ(error.what(), "the disk is gone");
      EXPECT_EQ(error.origin_rank(), root);
    }
  }
  EXPECT_TRUE(is_pattern(broadcast(kBytes), kBytes, 0));
}

TEST_F(CommonBytesTest, NameTheRankThatDoesNotCome) {
  REPRIEVE_NEEDS_RANKS(2);
  Communicator comm(MPI_COMM_WORLD, 20s);
  comm.set_sharing({1, true});
  static_cast<void>(comm.is_node_leader());
  comm.set_timeout(1s);
  if (world_rank() == world_size() - 1) {
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  try {
    const auto fill = [](std::span<std::byte>) {};
    static_cast<void>(comm.broadcast_common(kBytes, fill, 0, "test"));
    ADD_FAILURE() << "no error";
  } catch (const UnresponsiveError& error) {
    EXPECT_EQ(error.missing_ranks(), std::vector<int>{world_size() - 1});
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace reprieve::cluster
