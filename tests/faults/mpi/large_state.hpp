// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// States that are large enough for buffers and threads of their own, for tests in which calls fail.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mpi/manager_fixture.hpp"

namespace reprieve::test {

/// Adds a large array, of which each rank has a part in one piece.
inline void add_large(Checkpoint& state, std::vector<double>& part) {
  const auto rank = static_cast<std::uint64_t>(world_rank());
  const auto size = static_cast<std::uint64_t>(world_size());
  state.add_distributed("large", part.data(), {{part.size() * size}, {part.size() * rank}, {part.size()}});
}

/// A variable of every kind, and a large array: each rank has some rows of it, or, @p scattered, the same columns of
/// all rows, small pieces that the ranks exchange. All values follow from one number.
class LargeState {
 public:
  LargeState(std::uint64_t rows, std::uint64_t row, bool scattered) : field_(rows * row) {
    const auto rank = static_cast<std::uint64_t>(world_rank());
    const auto size = static_cast<std::uint64_t>(world_size());
    if (scattered) {
      kinds_.checkpoint.add_distributed("large", field_.data(), {{rows, size * row}, {0, rank * row}, {rows, row}});
    } else {
      add_large(kinds_.checkpoint, field_);
    }
  }

  void set(std::uint64_t number) {
    kinds_.set(static_cast<int>(number));
    std::ranges::fill(field_, static_cast<double>(number));
  }
  void expect(std::uint64_t number) const {
    EXPECT_TRUE(kinds_ == AllKinds(static_cast<int>(number)));
    EXPECT_TRUE(std::ranges::all_of(field_, [=](double value) { return value == static_cast<double>(number); }));
  }

  [[nodiscard]] Checkpoint& checkpoint() noexcept { return kinds_.checkpoint; }

 private:
  AllKinds kinds_{1};
  std::vector<double> field_;
};

/// Whether the test has failed on any rank. Collective.
inline bool has_failed_anywhere() {
  int any = testing::Test::HasFailure() ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return any != 0;
}

}  // namespace reprieve::test
