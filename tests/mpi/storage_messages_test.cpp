// What the ranks tell each other in a save, counted where the messages go out.

#include <atomic>

#include "storage_fixture.hpp"

namespace {

/// Of this rank, since the last reset. The library calls the functions below in place of MPI's.
struct Sent {
  std::atomic<std::uint64_t> bytes{0};  ///< in messages to one rank
  std::atomic<int> reductions{0};
};
Sent sent;

}  // namespace

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  int size = 0;
  PMPI_Type_size(type, &size);
  sent.bytes += static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm,
                   MPI_Request* request) {
  ++sent.reductions;
  return PMPI_Iallreduce(in, out, count, type, operation, comm, request);
}

}  // extern "C"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;

class StorageMessages : public StorageTest {
 protected:
  static constexpr std::size_t kVariables = 300;

  StorageMessages() : values_(kVariables, std::vector<int>(5, world_rank())) {
    for (std::size_t i = 0; i < kVariables; ++i) {
      state_.add_per_rank("value/" + std::to_string(i), values_[i]);
    }
  }

  /// Bytes that this rank sends in a save.
  std::uint64_t bytes_of_a_save() {
    sent.bytes = 0;
    sent.reductions = 0;
    save(world, state_);
    return sent.bytes;
  }

  std::vector<std::vector<int>> values_;
  Checkpoint state_;
};

TEST_F(StorageMessages, NothingIsToldOfVariablesThatAreAsTheyWere) {
  constexpr std::uint64_t kChecksums = kVariables * sizeof(std::uint64_t);  // one block each
  const std::uint64_t first = bytes_of_a_save();
  const int reductions = sent.reductions;
  const std::uint64_t second = bytes_of_a_save();
  if (world_size() > 1) {
    constexpr std::uint64_t kShapes = kVariables * sizeof(std::uint64_t);  // of one dimension
    const auto places = static_cast<std::uint64_t>(world_size() - 1) * kShapes;
    EXPECT_EQ(first, world_rank() == 0 ? places : kShapes + kChecksums) << "numbers alone, neither names nor types";
    EXPECT_EQ(second, world_rank() == 0 ? 0 : kChecksums);
  }
  EXPECT_LT(sent.reductions, reductions);
}

TEST_F(StorageMessages, OneRankThatHasChangedMakesAllTellTheirs) {
  REPRIEVE_NEEDS_RANKS(2);
  const std::uint64_t first = bytes_of_a_save();
  if (world_rank() == 1) {
    values_[7].resize(9);
  }
  EXPECT_GE(bytes_of_a_save() + 100, first);
  values_[7].assign(values_[7].size(), 42);
  bytes_of_a_save();
  const std::size_t size = values_[7].size();
  values_[7].assign(1, 0);
  restore(world, state_);
  EXPECT_EQ(values_[7], std::vector<int>(size, 42));
}

}  // namespace
}  // namespace reprieve::storage
