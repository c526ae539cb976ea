// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the programs need of MPI: every call checked, every sum in the order of the ranks.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace apps {

/// A contiguous part of a range.
struct Slice {
  std::size_t offset = 0;
  std::size_t size = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

/// Part @p index of @p parts of a range of @p total elements: in order, without gaps, sizes differing by at most one.
constexpr Slice slice_of(std::size_t total, std::size_t index, std::size_t parts) {
  const std::size_t base = total / parts;
  const std::size_t longer_parts = total % parts;
  const std::size_t longer_before = index < longer_parts ? index : longer_parts;
  return {index * base + longer_before, base + (index < longer_parts ? 1U : 0U)};
}

using Bytes = std::vector<std::byte>;

/// @throws reprieve::MpiError unless @p result is MPI_SUCCESS
void check_mpi(int result, const char* call);

/// The ranks of a communicator. All members but the first few are collective.
///
/// Sums are made by one rank, in the order of the ranks, and not by MPI_Allreduce: the standard only advises MPI to add
/// in the same order every time, and a resumed run, perhaps on other nodes, must come to the same bits.
class Ranks {
 public:
  /// @param comm  kept, not duplicated; its errors are returned instead of ending the process from now on
  explicit Ranks(MPI_Comm comm);

  [[nodiscard]] MPI_Comm handle() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] bool is_rank_0() const noexcept { return rank_ == 0; }

  /// This rank's part of a range.
  [[nodiscard]] Slice my_slice(std::size_t total) const { return slice_of(total, index(), count()); }

  /// The slice of this rank of the sum of all ranks' vectors.
  [[nodiscard]] std::vector<double> sum_slice(std::span<const double> values) const;

  /// Fills in the other ranks' slices of @p values; this rank has its own.
  void all_gather_slices(std::span<double> values) const;

  /// Replaces each value by its sum over the ranks. For a few values.
  void sum(std::span<double> values) const;

  /// All ranks' bytes one after the other, on rank 0; empty on the others.
  [[nodiscard]] Bytes gather(std::span<const std::byte> mine) const;

  /// @p value of every rank, by rank.
  [[nodiscard]] std::vector<std::uint64_t> all_gather(std::uint64_t value) const;

  /// The text of rank @p root, on every rank.
  void broadcast(std::string& text, int root) const;

  /// Runs @p operation, which may not be collective, on every rank. If it throws on any, every rank throws the error of
  /// the lowest such rank.
  void on_every_rank(const std::function<void()>& operation) const;

 private:
  [[nodiscard]] std::size_t index() const noexcept { return static_cast<std::size_t>(rank_); }
  [[nodiscard]] std::size_t count() const noexcept { return static_cast<std::size_t>(size_); }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace apps
