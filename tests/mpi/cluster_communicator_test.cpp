// SPDX-License-Identifier: BSD-3-Clause

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "cluster/communicator.hpp"
#include "core/error.hpp"
#include "reprieve/error.hpp"
#include "support/mpi_test.hpp"

namespace reprieve::cluster {
namespace {

using namespace std::chrono_literals;
using test::world_rank;
using test::world_size;

Bytes pattern(int rank, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(rank) * 31 + i);
  }
  return bytes;
}

class CommunicatorTest : public testing::Test {
 protected:
  Communicator comm{MPI_COMM_WORLD, 10s};
};

TEST(Communicator, KnowsItsRanksAndHosts) {
  const Communicator comm(MPI_COMM_WORLD, 10s);
  EXPECT_EQ(comm.rank(), world_rank());
  EXPECT_EQ(comm.size(), world_size());
  for (int rank = 0; rank < comm.size(); ++rank) {
    EXPECT_FALSE(comm.host_of(rank).empty());
  }
}

TEST(Communicator, RefusesTheNullCommunicator) { EXPECT_THROW(Communicator(MPI_COMM_NULL, 10s), UsageError); }

/// All collectives that carry data, from and to parts of (rank + first) units. The memory of @p in is used again.
void carry_data(Communicator& comm, std::size_t unit, int first, int root, Parts& in) {
  const auto size_of = [&](int rank) { return static_cast<std::size_t>(rank + first) * unit; };
  const Bytes mine = pattern(comm.rank(), size_of(comm.rank()));
  Bytes bytes = comm.rank() == root ? mine : Bytes(7);
  comm.broadcast(bytes, root, "test");
  EXPECT_TRUE(bytes == pattern(root, size_of(root)));
  const auto parts = comm.gather(mine, "test");
  ASSERT_EQ(parts.size(), comm.is_rank_0() ? static_cast<std::size_t>(comm.size()) : 0);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    EXPECT_TRUE(parts[rank] == pattern(static_cast<int>(rank), size_of(static_cast<int>(rank))));
  }
  EXPECT_TRUE(comm.scatter(parts, "test") == mine);
  Parts out;
  Bytes expected;
  for (int other = 0; other < comm.size(); ++other) {
    const Bytes part = pattern(comm.rank() + 2 * other, size_of(other));
    out.bytes.insert(out.bytes.end(), part.begin(), part.end());
    out.sizes.push_back(part.size());
    const Bytes wanted = pattern(other + 2 * comm.rank(), mine.size());
    expected.insert(expected.end(), wanted.begin(), wanted.end());
  }
  comm.exchange(out, in, "test");
  EXPECT_TRUE(in.bytes == expected);
  EXPECT_EQ(in.sizes, std::vector<std::size_t>(static_cast<std::size_t>(comm.size()), mine.size()));
}

TEST_F(CommunicatorTest, CarriesUnevenPartsOfAnySizeFromAnyRank) {
  Parts in;
  for (int root = 0; root < comm.size(); ++root) {
    for (const std::size_t unit : {std::size_t{100'000}, std::size_t{1}, std::size_t{0}}) {
      carry_data(comm, unit, 0, root, in);  // nothing of rank 0
    }
  }
}

TEST_F(CommunicatorTest, SendsInPieces) {
  Parts in;
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    comm.set_piece_bytes(piece);
    for (const std::size_t unit : {piece, 3 * piece, 3 * piece + 1}) {
      carry_data(comm, unit, 1, comm.size() - 1, in);
    }
  }
}

/// Needs several times as much memory: with REPRIEVE_BIG_MESSAGES set.
TEST(Communicator, SendsMoreThanTwoGiB) {
  if (std::getenv("REPRIEVE_BIG_MESSAGES") == nullptr) {
    GTEST_SKIP() << "REPRIEVE_BIG_MESSAGES is not set";
  }
  Communicator comm(MPI_COMM_WORLD, 300s);
  const std::size_t size = (std::size_t{5} << 29U) + 13;
  const int last = comm.size() - 1;
  const auto is_it = [&](const Bytes& bytes) { return bytes.size() == size && bytes.back() == std::byte{9}; };
  Bytes bytes;
  if (comm.rank() == last) {
    bytes.resize(size);
    bytes.back() = std::byte{9};
  }
  const auto parts = comm.gather(bytes, "test");
  EXPECT_TRUE(!comm.is_rank_0() || is_it(parts.back()));
  comm.broadcast(bytes, last, "test");
  EXPECT_TRUE(is_it(bytes));
}

TEST_F(CommunicatorTest, ARankThatFailsBetweenOperationsMeetsTheOthersInTheirs) {
  REPRIEVE_NEEDS_RANKS(2);
  const int victim = comm.size() - 1;
  constexpr int kOperations = 7;
  for (int failing = 0; failing <= kOperations; ++failing) {
    int done = 0;
    const auto step = [&](auto&& operation) {
      if (comm.rank() == victim && done == failing) {
        throw StorageError(ErrorCode::no_space, "full before operation " + std::to_string(done));
      }
      operation();
      ++done;
    };
    const auto all = [&] {
      Bytes bytes(10);
      Parts out{Bytes(static_cast<std::size_t>(comm.size())),
                std::vector<std::size_t>(static_cast<std::size_t>(comm.size()), 1)};
      Parts in;
      step([&] { comm.barrier("a"); });
      step([&] { comm.broadcast(bytes, 0, "b"); });
      step([&] { static_cast<void>(comm.gather(bytes, "c")); });
      step([&] {
        static_cast<void>(
            comm.scatter(std::vector<Bytes>(comm.is_rank_0() ? static_cast<std::size_t>(comm.size()) : 0), "d"));
      });
      step([&] { comm.exchange(out, in, "e"); });
      step([&] { static_cast<void>(comm.max(1, "f")); });
      step([&] { comm.agree({}, "g"); });
      step([] {});
      return 5;
    };
    const test::SeenError error = test::error_of([&] { static_cast<void>(comm.together(all, "all")); });
    EXPECT_EQ(error.code, ErrorCode::no_space);
    EXPECT_EQ(error.origin_rank, victim);
    EXPECT_EQ(error.message, "full before operation " + std::to_string(failing));
    EXPECT_EQ(done, failing + (comm.rank() == victim || failing < kOperations ? 0 : 1));
    EXPECT_EQ(comm.together([] { return 3; }, "after it"), 3);
  }
}

/// What the others make of the failure, and how often they try again, is theirs.
TEST_F(CommunicatorTest, RanksThatContinueAfterTheFailureOfAnotherHearOfItAgain) {
  REPRIEVE_NEEDS_RANKS(2);
  int tries = 0;
  const auto stubborn = [&] {
    if (comm.rank() == 1) {
      throw CorruptError("a bad file");
    }
    for (; tries < 3; ++tries) {
      try {
        comm.barrier("try");
      } catch (const CorruptError&) {
        continue;
      }
    }
  };
  EXPECT_THROW(comm.together(stubborn, "trying"), CorruptError);
  EXPECT_EQ(tries, comm.rank() == 1 ? 0 : 3);
}

TEST_F(CommunicatorTest, AFailureWithALongTextArrivesWhole) {
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += std::to_string(i) + ",";
  }
  const test::SeenError error = test::error_of([&] { comm.on_rank_0([&] { throw MismatchError(text); }, "test"); });
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_EQ(error.message, text);
}

TEST_F(CommunicatorTest, MemoryThatIsNotThereIsReportedWithItsSize) {
#ifdef REPRIEVE_SANITIZED
  GTEST_SKIP() << "sanitizers end a program that asks for so much memory";
#endif
  const int victim = comm.size() - 1;
  core::Outcome outcome;
  if (comm.rank() == victim) {
    outcome = core::capture([] {
      Bytes bytes;
      core::resize_or_report(bytes, std::uint64_t{1} << 62U);
    });
  }
  const test::SeenError error = test::error_of([&] { comm.agree(outcome, "save 12: writing"); });
  EXPECT_EQ(error.code, ErrorCode::no_memory);
  EXPECT_EQ(error.origin_rank, victim);
  EXPECT_EQ(error.message, "save 12: writing: rank " + std::to_string(victim) + " on host " + comm.host_of(victim) +
                               " ran out of memory: it asked for 4611686018427387904 bytes");
}

TEST_F(CommunicatorTest, RanksInDifferentOperationsFindOut) {
  REPRIEVE_NEEDS_RANKS(2);
  const auto differ = [&] {
    if (comm.is_rank_0()) {
      comm.barrier("waiting");
    } else {
      static_cast<void>(comm.max(1, "counting"));
    }
  };
  EXPECT_THROW(comm.together(differ, "test"), Error);
  EXPECT_NO_THROW(comm.barrier("after it"));
}

TEST_F(CommunicatorTest, ReducesToTheMaximum) { EXPECT_EQ(comm.max(-comm.rank(), "test"), 0); }

TEST_F(CommunicatorTest, AgreementWithoutAFailureIsSilent) { EXPECT_NO_THROW(comm.agree(std::nullopt, "test")); }

TEST_F(CommunicatorTest, AllRanksThrowTheFailureOfTheLowestFailingRank) {
  const int lowest = comm.size() / 2;
  core::Outcome outcome;
  if (comm.rank() >= lowest) {
    outcome = core::Failure{ErrorCode::no_space, "full on rank " + std::to_string(comm.rank())};
  }
  const test::SeenError error = test::error_of([&] { comm.agree(outcome, "test"); });
  EXPECT_EQ(error.code, ErrorCode::no_space);
  EXPECT_EQ(error.origin_rank, lowest);
  EXPECT_EQ(error.message, "full on rank " + std::to_string(lowest));
  EXPECT_NO_THROW(comm.barrier("after a failure"));
}

TEST_F(CommunicatorTest, OnRank0SpreadsItsException) {
  EXPECT_THROW(comm.on_rank_0([] { throw CorruptError("bad file"); }, "test"), CorruptError);
  int calls = 0;
  comm.on_rank_0([&] { ++calls; }, "test");
  EXPECT_EQ(calls, comm.is_rank_0() ? 1 : 0);
}

TEST_F(CommunicatorTest, MissingRanksAreNamedAndHearOfItWhenTheyCome) {
  REPRIEVE_NEEDS_RANKS(2);
  comm.set_timeout(1s);
  comm.set_last_seen("step boundary 17");
  const int late = comm.size() - 1;
  if (comm.rank() == late) {
    MPI_Barrier(MPI_COMM_WORLD);  // until all others have given up
  }
  try {
    comm.barrier("meeting");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UnresponsiveError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("meeting"), std::string::npos) << message;
    EXPECT_NE(message.find("step boundary 17"), std::string::npos) << message;
    if (comm.rank() == late) {
      EXPECT_TRUE(error.missing_ranks().empty()) << message;
    } else {
      EXPECT_EQ(error.missing_ranks(), std::vector<int>{late}) << message;
      EXPECT_NE(message.find("rank " + std::to_string(late) + " (" + comm.host_of(late) + ")"), std::string::npos);
    }
  }
  if (comm.rank() != late) {
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_TRUE(comm.broken());
  EXPECT_THROW(comm.barrier("after that"), UnresponsiveError);
}

/// Stops this process after @p until, for @p time.
pid_t suspend(std::chrono::milliseconds until, std::chrono::milliseconds time) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::this_thread::sleep_for(until);
    ::kill(::getppid(), SIGSTOP);
    std::this_thread::sleep_for(time);
    ::kill(::getppid(), SIGCONT);
    ::_exit(0);
  }
  return child;
}

TEST_F(CommunicatorTest, TheTimeOfASuspendedJobIsNoTimeOfWaiting) {
  REPRIEVE_NEEDS_RANKS(2);
  comm.set_timeout(2s);
  const pid_t child = suspend(300ms, 2500ms);
  if (comm.rank() == comm.size() - 1) {
    std::this_thread::sleep_for(600ms);  // the others wait when the job is stopped
  }
  EXPECT_NO_THROW(comm.barrier("meeting"));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

/// Returns when all other ranks have told this one that they look who is there.
void wait_until_others_look(const Communicator& comm) {
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != comm.rank()) {
      MPI_Probe(rank, MPI_ANY_TAG, comm.handle(), MPI_STATUS_IGNORE);
    }
  }
}

TEST_F(CommunicatorTest, ARankThatComesWhileTheOthersLookWhoIsThereIsNamed) {
  REPRIEVE_NEEDS_RANKS(2);
  comm.set_timeout(2s);
  const int late = comm.size() - 1;
  if (comm.rank() == late) {
    wait_until_others_look(comm);
    std::this_thread::sleep_for(500ms);  // they hear each other before this one, and look for longer than that
  }
  try {
    comm.barrier("meeting");
    FAIL() << "nothing was thrown";
  } catch (const UnresponsiveError& error) {
    const std::string name = "rank " + std::to_string(late) + " (" + comm.host_of(late) + ")";
    const std::string told = comm.rank() == late ? "the other ranks had stopped waiting when " + name + " came"
                                                 : "the last to come, too late, was " + name;
    EXPECT_NE(std::string(error.what()).find(told), std::string::npos) << error.what();
    EXPECT_TRUE(error.missing_ranks().empty());
  }
  EXPECT_TRUE(comm.broken());
}

TEST(Communicator, RanksThatNeverOpenItAreNamed) {
  REPRIEVE_NEEDS_RANKS(2);
  for (const int late : {world_size() - 1, 0}) {
    MPI_Comm parent = MPI_COMM_NULL;  // not freed: messages to the late rank are under way in it
    ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &parent), MPI_SUCCESS);
    if (world_rank() == late) {
      MPI_Barrier(MPI_COMM_WORLD);  // until all others have given up
    }
    try {
      const Communicator comm(parent, 500ms);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const UnresponsiveError& error) {
      const std::string message = error.what();
      if (world_rank() == late) {
        EXPECT_NE(message.find("had stopped waiting when rank " + std::to_string(late)), std::string::npos) << message;
      } else {
        EXPECT_EQ(error.missing_ranks(), std::vector<int>{late}) << message;
        EXPECT_NE(message.find("from rank " + std::to_string(late) + ":"), std::string::npos) << message;
      }
    }
    if (world_rank() != late) {
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

// Bytes that all ranks look at: one copy for the ranks of a node, or one for each rank, and always the same bytes.

constexpr std::size_t kBytes = 10'001;

class CommonBytesTest : public testing::Test {
 protected:
  CommonBytesTest() { comm_.set_sharing({1, true}); }

  /// What @p root has, on this rank.
  CommonBytes broadcast(std::size_t size, int root = 0) {
    const auto fill = [&](std::span<std::byte> bytes) {
      EXPECT_EQ(comm_.rank(), root);
      EXPECT_EQ(bytes.size(), size);
      std::ranges::copy(pattern(root, size), bytes.begin());
    };
    return comm_.broadcast_common(size, fill, root, "test");
  }

  static bool is_pattern(const CommonBytes& common, std::size_t size, int root) {
    return std::ranges::equal(common.bytes, pattern(root, size));
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
    const auto fill = [](std::span<std::byte> bytes) { std::ranges::copy(pattern(0, kBytes), bytes.begin()); };
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
    const auto fail = [](std::span<std::byte>) { throw StorageError(ErrorCode::io, "the disk is gone"); };
    const test::SeenError error =
        test::error_of([&] { static_cast<void>(comm_.broadcast_common(kBytes, fail, root, "test")); });
    EXPECT_EQ(error.code, ErrorCode::io);
    EXPECT_EQ(error.message, "the disk is gone");
    EXPECT_EQ(error.origin_rank, root);
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
