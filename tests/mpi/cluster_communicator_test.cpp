#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "cluster/communicator.hpp"
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

TEST(Communicator, KnowsItsRanksAndHosts) {
  const Communicator comm(MPI_COMM_WORLD, 10s);
  EXPECT_EQ(comm.rank(), world_rank());
  EXPECT_EQ(comm.size(), world_size());
  for (int rank = 0; rank < comm.size(); ++rank) {
    EXPECT_FALSE(comm.host_of(rank).empty());
  }
}

TEST(Communicator, RefusesTheNullCommunicator) { EXPECT_THROW(Communicator(MPI_COMM_NULL, 10s), UsageError); }

TEST(Communicator, BroadcastsAnySizeFromAnyRank) {
  Communicator comm(MPI_COMM_WORLD, 10s);
  for (int root = 0; root < comm.size(); ++root) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
      Bytes bytes = comm.rank() == root ? pattern(root, size) : Bytes(7);
      comm.broadcast(bytes, root, "test");
      EXPECT_EQ(bytes, pattern(root, size));
    }
  }
}

TEST(Communicator, GathersAndScattersUnevenParts) {
  Communicator comm(MPI_COMM_WORLD, 10s);
  const auto size_of = [](int rank) { return static_cast<std::size_t>(rank) * 1000; };  // nothing from rank 0
  const auto parts = comm.gather(pattern(comm.rank(), size_of(comm.rank())), "test");
  ASSERT_EQ(parts.size(), comm.is_chief() ? static_cast<std::size_t>(comm.size()) : 0);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    EXPECT_EQ(parts[rank], pattern(static_cast<int>(rank), size_of(static_cast<int>(rank))));
  }
  EXPECT_EQ(comm.scatter(parts, "test"), pattern(comm.rank(), size_of(comm.rank())));
}

TEST(Communicator, ExchangesUnevenPartsAndUsesTheirMemoryAgain) {
  Communicator comm(MPI_COMM_WORLD, 10s);
  const auto size_of = [](int from, int to, int round) {  // nothing from a rank to itself
    return static_cast<std::size_t>((from - to) * (from - to)) * 500 / static_cast<std::size_t>(round);
  };
  Parts mine, theirs;
  for (int round = 1; round <= 3; ++round) {
    mine = {std::move(mine.bytes), {}};
    mine.bytes.clear();
    Bytes expected;
    for (int other = 0; other < comm.size(); ++other) {
      const Bytes part = pattern(comm.rank() + other, size_of(comm.rank(), other, round));
      mine.bytes.insert(mine.bytes.end(), part.begin(), part.end());
      mine.sizes.push_back(part.size());
      const Bytes wanted = pattern(other + comm.rank(), size_of(other, comm.rank(), round));
      expected.insert(expected.end(), wanted.begin(), wanted.end());
    }
    comm.exchange(mine, theirs, "test");
    EXPECT_EQ(theirs.bytes, expected);
    for (int other = 0; other < comm.size(); ++other) {
      EXPECT_EQ(theirs.sizes.at(static_cast<std::size_t>(other)), size_of(other, comm.rank(), round));
    }
  }
}

TEST(Communicator, ReducesToTheMaximumAndTheSum) {
  Communicator comm(MPI_COMM_WORLD, 10s);
  EXPECT_EQ(comm.max(-comm.rank(), "test"), 0);
  EXPECT_EQ(comm.sum(comm.rank(), "test"), comm.size() * (comm.size() - 1) / 2);
}

TEST(Communicator, AgreementWithoutAFailureIsSilent) {
  Communicator comm(MPI_COMM_WORLD, 10s);
  EXPECT_NO_THROW(comm.agree(std::nullopt, "test"));
}

TEST(Communicator, AllRanksThrowTheFailureOfTheLowestFailingRank) {
  Communicator comm(MPI_COMM_WORLD, 10s);
  const int lowest = comm.size() / 2;
  core::Outcome outcome;
  if (comm.rank() >= lowest) {
    outcome = core::Failure{ErrorCode::no_space, "full on rank " + std::to_string(comm.rank())};
  }
  try {
    comm.agree(outcome, "test");
    FAIL() << "nothing was thrown";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_space);
    EXPECT_EQ(error.origin_rank(), lowest);
    EXPECT_EQ(error.what(), "full on rank " + std::to_string(lowest));
  }
  EXPECT_NO_THROW(comm.barrier("after a failure"));
}

TEST(Communicator, OnChiefSpreadsTheChiefsException) {
  Communicator comm(MPI_COMM_WORLD, 10s);
  EXPECT_THROW(comm.on_chief([] { throw CorruptError("bad file"); }, "test"), CorruptError);
  int calls = 0;
  comm.on_chief([&] { ++calls; }, "test");
  EXPECT_EQ(calls, comm.is_chief() ? 1 : 0);
}

TEST(Communicator, MissingRanksAreNamedAndHearOfItWhenTheyCome) {
  REPRIEVE_NEEDS_RANKS(2);
  Communicator comm(MPI_COMM_WORLD, 300ms);
  comm.set_last_seen("step boundary 17");
  const int late = comm.size() - 1;
  if (comm.rank() == late) {
    std::this_thread::sleep_for(4s);  // longer than the limit and the roll call together
  }
  try {
    comm.barrier("meeting");
    FAIL() << "nothing was thrown";
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
  EXPECT_TRUE(comm.broken());
  EXPECT_THROW(comm.barrier("after that"), UnresponsiveError);
}

}  // namespace
}  // namespace reprieve::cluster
