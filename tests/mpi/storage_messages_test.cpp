// SPDX-License-Identifier: BSD-3-Clause
// What the ranks tell each other in a save, counted where the messages go out.

#include <atomic>
#include <cstdio>

#include "storage_fixture.hpp"

namespace {

/// Of this rank, since the last reset. The library calls the functions below in place of MPI's.
struct Sent {
  std::atomic<std::uint64_t> bytes{0};     ///< in messages to one rank
  std::atomic<std::uint64_t> messages{0};  ///< the same, their number
  std::atomic<int> reductions{0};
  std::atomic<int> others{0};  ///< other collective calls
};
Sent sent;

}  // namespace

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  int size = 0;
  PMPI_Type_size(type, &size);
  sent.bytes += static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
  ++sent.messages;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm,
                   MPI_Request* request) {
  ++sent.reductions;
  return PMPI_Iallreduce(in, out, count, type, operation, comm, request);
}

int MPI_Igather(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type, int root,
                MPI_Comm comm, MPI_Request* request) {
  ++sent.others;
  return PMPI_Igather(in, count, type, out, out_count, out_type, root, comm, request);
}

int MPI_Iscatter(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                 int root, MPI_Comm comm, MPI_Request* request) {
  ++sent.others;
  return PMPI_Iscatter(in, count, type, out, out_count, out_type, root, comm, request);
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  ++sent.others;
  return PMPI_Ibcast(data, count, type, root, comm, request);
}

int MPI_Ialltoall(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm, MPI_Request* request) {
  ++sent.others;
  return PMPI_Ialltoall(in, count, type, out, out_count, out_type, comm, request);
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

/// Of all ranks together, but for collective calls: these are the same on each.
struct Cost {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  int reductions = 0;
  int others = 0;
};

template <class Act>
Cost cost_of(Act&& act) {
  sent.bytes = sent.messages = 0;
  sent.reductions = sent.others = 0;
  act();
  const int reductions = sent.reductions;
  const int others = sent.others;
  std::uint64_t mine[] = {sent.messages, sent.bytes};
  std::uint64_t all[] = {0, 0};
  MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return {all[0], all[1], reductions, others};
}

void print(const char* act, const Cost& cost) {
  if (world_rank() == 0) {
    std::printf("[ MESSAGES ] %d ranks, %s: %llu messages, %llu bytes, %d reductions, %d other collective calls\n",
                world_size(), act, static_cast<unsigned long long>(cost.messages),
                static_cast<unsigned long long>(cost.bytes), cost.reductions, cost.others);
  }
}

/// What a save costs in messages, however many ranks there are: each rank tells rank 0 twice, of its variables and
/// of its checksums, and is told once. No rank sends to any other.
TEST_F(StorageMessages, GrowWithTheRanksAlone) {
  const auto others = static_cast<std::uint64_t>(world_size() - 1);
  const Cost first = cost_of([&] { save(world, state_); });
  const Cost later = cost_of([&] { save(world, state_); });
  const Cost restored = cost_of([&] { restore(world, state_); });
  print("first save", first);
  print("later save", later);
  print("restore", restored);
  EXPECT_EQ(first.messages, 3 * others);
  EXPECT_EQ(later.messages, others);
  EXPECT_EQ(restored.messages, 0U) << "the index of the file is broadcast";
  EXPECT_EQ(first.bytes, 3 * others * kVariables * sizeof(std::uint64_t));
  EXPECT_EQ(later.bytes, others * kVariables * sizeof(std::uint64_t));
  EXPECT_LE(first.reductions, 25);
  EXPECT_LE(later.reductions, 18);
  EXPECT_LE(restored.reductions, 27);
  EXPECT_LE(first.others, 4) << "the sizes of three messages, and the places for all";
  EXPECT_LE(later.others, 1);
}

/// Rows of which each rank has a part are brought together by the rank that writes them: those that have nothing for
/// each other send nothing to each other.
TEST_F(StorageMessages, OfSmallPiecesGoToThoseWhoWriteThem) {
  REPRIEVE_NEEDS_RANKS(2);
  constexpr std::uint64_t kRows = 1024;
  constexpr std::uint64_t kColumns = 16;
  constexpr std::uint64_t kArrays = 4;  // none of which is large enough for chunks
  const auto size = static_cast<std::uint64_t>(world_size());
  std::vector<double> values(kRows * kColumns, world_rank());
  Checkpoint columns;
  for (std::uint64_t i = 0; i < kArrays; ++i) {
    columns.add_distributed(
        "grid" + std::to_string(i), values,
        DistributedLayout{
            {kRows, size * kColumns}, {0, static_cast<std::uint64_t>(world_rank()) * kColumns}, {kRows, kColumns}});
  }
  save(world, columns);
  const Cost later = cost_of([&] { save(world, columns); });
  print("later save of scattered rows", later);
  const std::uint64_t bytes = kArrays * size * kRows * kColumns * sizeof(double);
  const std::uint64_t windows = 1 + bytes / (16U << 20U);
  EXPECT_LE(later.messages, windows * size * (size - 1) + 2 * size) << "no more than one a pair in each window";
  EXPECT_GT(later.messages, size - 1) << "more than the checksums";
  EXPECT_LE(later.bytes, 2 * bytes) << "each byte travels once, with its place";
}

}  // namespace
}  // namespace reprieve::storage
