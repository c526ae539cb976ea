// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of checkpoint files have in common: a file, groups of ranks, arrays with known values.

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "cluster/communicator.hpp"
#include "storage/format/blocks.hpp"
#include "storage/read/inspect_file.hpp"
#include "support/mpi_test.hpp"
#include "support/whole_file.hpp"

namespace reprieve::storage {

/// Runs @p test on the first @p count ranks, which have a communicator of their own; the others wait.
inline void on_ranks(int count, const std::function<void(cluster::Communicator&)>& test) {
  MPI_Comm part = MPI_COMM_NULL;
  const bool takes_part = test::world_rank() < count;
  MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, 0, &part);
  if (takes_part) {
    cluster::Communicator comm(part, std::chrono::seconds(40));
    test(comm);
    MPI_Comm_free(&part);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The first index and the number of indexes of part @p part of @p parts, as even as possible.
inline std::pair<std::uint64_t, std::uint64_t> part_of(std::uint64_t length, int part, int parts) {
  const auto p = static_cast<std::uint64_t>(part);
  const auto n = static_cast<std::uint64_t>(parts);
  const std::uint64_t first = length * p / n;
  return {first, length * (p + 1) / n - first};
}

/// A piece of a 2-D array of doubles with ghost layers, in which every element knows its global index.
class GhostedGrid {
 public:
  GhostedGrid(Extents shape, Extents offset, Extents extent, std::uint64_t ghost)
      : shape_(std::move(shape)),
        offset_(std::move(offset)),
        extent_(std::move(extent)),
        ghost_(ghost),
        memory_((extent_[0] + 2 * ghost) * (extent_[1] + 2 * ghost), kGhost) {}

  static double expected(std::uint64_t row, std::uint64_t column) {
    return static_cast<double>(row) * 1e4 + static_cast<double>(column) + 0.5;
  }

  void set() {
    visit([](double& value, std::uint64_t row, std::uint64_t column) { value = expected(row, column); });
  }

  void register_in(Checkpoint& checkpoint, const std::string& name) {
    const Extents ghost(2, ghost_);
    checkpoint.add_distributed(name, memory_.data() + first_interior_index(extent_, ghost),
                               with_ghost_layers(shape_, offset_, extent_, ghost, sizeof(double)));
  }

  /// Elements that differ from what they should be, ghost layers included.
  [[nodiscard]] std::size_t wrong() {
    std::size_t count = 0;
    visit([&](double& value, std::uint64_t row, std::uint64_t column) {
      count += value == expected(row, column) ? 0U : 1U;
      value = kGhost;
    });
    for (const double value : memory_) {
      count += value == kGhost ? 0U : 1U;
    }
    return count;
  }

 private:
  static constexpr double kGhost = -1;

  template <class Visit>
  void visit(Visit&& at) {
    const std::uint64_t width = extent_[1] + 2 * ghost_;
    for (std::uint64_t row = 0; row < extent_[0]; ++row) {
      for (std::uint64_t column = 0; column < extent_[1]; ++column) {
        at(memory_[(row + ghost_) * width + column + ghost_], offset_[0] + row, offset_[1] + column);
      }
    }
  }

  Extents shape_;
  Extents offset_;
  Extents extent_;
  std::uint64_t ghost_;
  std::vector<double> memory_;
};

using test::error_of;
using test::SeenError;
inline SeenError same_error(const std::function<void()>& call) { return test::same_error_on_all_ranks(call); }

class StorageTest : public testing::Test {
 protected:
  /// Saves with all ranks unless told otherwise. Returns the bytes of state.
  std::uint64_t save(cluster::Communicator& comm, const Checkpoint& checkpoint,
                     WriterKind writer = WriterKind::direct) const {
    FileMetadata metadata;
    metadata.number = 7;
    metadata.run_calls = 70;
    metadata.time_us = 1'700'000'000'000'000;
    metadata.reason = {SaveReason::Kind::preemption, 1, "node7", "signal SIGTERM", "the end is near"};
    return write_checkpoint(comm, checkpoint.registry(), file, metadata, {writer, true}, cache);
  }
  FileMetadata restore(cluster::Communicator& comm, const Checkpoint& checkpoint) const {
    return restore_checkpoint(comm, checkpoint.registry(), file, true);
  }

  /// Changes one byte of the file, on rank 0 alone.
  void flip(std::uint64_t offset, std::byte bits = std::byte{0x10}) const {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(offset));
    const int byte = stream.get();
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.put(static_cast<char>(byte ^ std::to_integer<int>(bits)));
    ASSERT_TRUE(stream.good());
  }

  static void on_chief(const std::function<void()>& action) { test::on_chief(action); }

  const test::SharedTemporaryDirectory directory;
  const std::filesystem::path file = directory / "ckpt-7.h5";
  mutable LayoutCache cache;  ///< one for all saves, as a manager has it
  cluster::Communicator world{MPI_COMM_WORLD, std::chrono::seconds(40)};
};

}  // namespace reprieve::storage
