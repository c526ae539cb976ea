// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of checkpoint files have in common: a file, groups of ranks, arrays with known values.

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "storage/read/inspect_file.hpp"
#include "support/boxes_and_bytes.hpp"
#include "support/mpi_test.hpp"
#include "support/whole_file.hpp"

namespace reprieve::storage {

/// Runs @p test on the first @p count ranks, which have a communicator of their own; the others wait.
inline void on_ranks(int count, const std::function<void(cluster::Communicator&)>& test) {
  test::on_first_ranks(count, [&](MPI_Comm part) {
    cluster::Communicator comm(part, std::chrono::seconds(40));
    test(comm);
  });
}

/// The first index and the number of indexes of part @p part of @p parts, as even as possible.
inline std::pair<std::uint64_t, std::uint64_t> part_of(std::uint64_t length, int part, int parts) {
  const auto p = static_cast<std::uint64_t>(part);
  const auto n = static_cast<std::uint64_t>(parts);
  const std::uint64_t first = length * p / n;
  return {first, length * (p + 1) / n - first};
}

/// A piece of an array of doubles with ghost layers, in which every element knows its global index.
class GhostedGrid {
 public:
  GhostedGrid(Extents shape, Extents offset, Extents extent, std::uint64_t ghost)
      : shape_(std::move(shape)), offset_(std::move(offset)), extent_(std::move(extent)), ghost_(shape_.size(), ghost) {
    memory_.assign(volume(padded()), kGhost);
  }

  static double expected(std::span<const std::uint64_t> index) {
    double value = 0.5;
    for (const std::uint64_t place : index) {
      value = value * 1e4 + static_cast<double>(place);
    }
    return value;
  }

  void set() {
    visit([](double& value, double expected) { value = expected; });
  }

  void register_in(Checkpoint& checkpoint, const std::string& name) {
    checkpoint.add_distributed(name, memory_.data() + first_interior_index(extent_, ghost_),
                               with_ghost_layers(shape_, offset_, extent_, ghost_, sizeof(double)));
  }

  /// Elements that differ from what they should be, ghost layers included. Forgets them all.
  [[nodiscard]] std::size_t wrong() {
    std::size_t count = 0;
    visit([&](double& value, double expected) {
      count += value == expected ? 0U : 1U;
      value = kGhost;
    });
    for (double& value : memory_) {
      count += std::exchange(value, kGhost) == kGhost ? 0U : 1U;
    }
    return count;
  }
  void forget() { memory_.assign(memory_.size(), kGhost); }

 private:
  static constexpr double kGhost = -1;

  [[nodiscard]] Extents padded() const {
    Extents all(extent_);
    for (std::size_t d = 0; d < all.size(); ++d) {
      all[d] += 2 * ghost_[d];
    }
    return all;
  }

  template <class Visit>
  void visit(Visit&& at) {
    if (volume(extent_) == 0) {
      return;
    }
    const Extents all = padded();
    Extents index(extent_.size(), 0);
    Extents global(offset_);  // here, as an allocation for each element takes minutes under AddressSanitizer
    do {
      std::uint64_t place = 0;
      for (std::size_t d = 0; d < index.size(); ++d) {
        place = place * all[d] + index[d] + ghost_[d];
        global[d] = offset_[d] + index[d];
      }
      at(memory_[place], expected(global));
    } while (state::next_index(index, extent_, index.size()));
  }

  Extents shape_;
  Extents offset_;
  Extents extent_;
  Extents ghost_;
  std::vector<double> memory_;
};

using test::error_of;
using test::is_error;
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

  /// On rank 0 alone.
  void flip(std::uint64_t offset) const { storage::flip(file, offset); }

  static void on_rank_0(const std::function<void()>& action) { test::on_rank_0(action); }

  const test::SharedTemporaryDirectory directory;
  const std::filesystem::path file = directory / "ckpt-7.h5";
  mutable LayoutCache cache;  ///< one for all saves, as a manager has it
  cluster::Communicator world{MPI_COMM_WORLD, std::chrono::seconds(40)};
};

}  // namespace reprieve::storage
