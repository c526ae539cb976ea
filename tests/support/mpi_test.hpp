// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What tests under mpirun have in common. `mpi_main.cpp` runs them.

#include <gmock/gmock.h>
#include <mpi.h>

#include <array>
#include <climits>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "reprieve/error.hpp"
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

/// Does something on rank 0 alone while the others wait.
inline void on_rank_0(const std::function<void()>& action) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 0) {
    action();
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Runs @p action on the first @p count ranks, which have a communicator of their own; the others wait.
inline void on_first_ranks(int count, const std::function<void(MPI_Comm)>& action) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() < count ? 0 : MPI_UNDEFINED, 0, &part);
  if (part != MPI_COMM_NULL) {
    action(part);
    MPI_Comm_free(&part);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// An error as all ranks must see it; its type is told by its code.
struct SeenError {
  ErrorCode code = ErrorCode::internal;
  int origin_rank = -1;
  std::string message;
};

inline void PrintTo(const SeenError& error, std::ostream* out) {
  *out << to_string(error.code) << " of rank " << error.origin_rank << ": " << error.message;
}

/// Matches an error of that code whose message has all these words.
template <class... Words>
auto is_error(ErrorCode code, const Words&... words) {
  return testing::AllOf(testing::Field("code", &SeenError::code, code),
                        testing::Field("message", &SeenError::message, testing::HasSubstr(words))...);
}

/// The error that @p call throws on this rank.
inline SeenError error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.origin_rank(), error.what()};
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// Runs @p call on every rank, which must throw the same Error on every rank; returns it.
inline SeenError same_error_on_all_ranks(const std::function<void()>& call) {
  const SeenError seen = error_of(call);
  std::array<int, 3> of_rank_0{static_cast<int>(seen.code), seen.origin_rank, static_cast<int>(seen.message.size())};
  MPI_Bcast(of_rank_0.data(), 3, MPI_INT, 0, MPI_COMM_WORLD);
  std::string message = seen.message;
  message.resize(static_cast<std::size_t>(of_rank_0[2]));
  MPI_Bcast(message.data(), of_rank_0[2], MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_EQ(static_cast<int>(seen.code), of_rank_0[0]);
  EXPECT_EQ(seen.origin_rank, of_rank_0[1]);
  EXPECT_EQ(seen.message, message);
  return seen;
}

}  // namespace reprieve::test

/// Skips the test unless there are at least so many ranks.
#define REPRIEVE_NEEDS_RANKS(count)                  \
  if (::reprieve::test::world_size() < (count)) {    \
    GTEST_SKIP() << "needs " << (count) << " ranks"; \
  }                                                  \
  static_assert(true, "a semicolon follows")
