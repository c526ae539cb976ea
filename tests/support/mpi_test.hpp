// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What tests under mpirun have in common. `mpi_main.cpp` runs them.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <climits>
#include <cstring>
#include <filesystem>
#include <memory>

#include "support/temporary_directory.hpp"

namespace reprieve::test {

inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// One temporary directory for all ranks: rank 0 makes and removes it. Construction and destruction are collective.
class SharedTemporaryDirectory {
 public:
  SharedTemporaryDirectory() {
    std::array<char, PATH_MAX> name{};
    if (world_rank() == 0) {
      owned_ = std::make_unique<TemporaryDirectory>();
      std::strncpy(name.data(), owned_->path().c_str(), name.size() - 1);
    }
    MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = name.data();
  }
  ~SharedTemporaryDirectory() { MPI_Barrier(MPI_COMM_WORLD); }
  SharedTemporaryDirectory(const SharedTemporaryDirectory&) = delete;
  SharedTemporaryDirectory& operator=(const SharedTemporaryDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::unique_ptr<TemporaryDirectory> owned_;  ///< rank 0 only
  std::filesystem::path path_;
};

}  // namespace reprieve::test

/// Skips the test unless there are at least so many ranks.
#define REPRIEVE_NEEDS_RANKS(count)                  \
  if (::reprieve::test::world_size() < (count)) {    \
    GTEST_SKIP() << "needs " << (count) << " ranks"; \
  }                                                  \
  static_assert(true, "a semicolon follows")
