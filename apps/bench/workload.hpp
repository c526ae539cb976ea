// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The state that is saved and restored, the same for every candidate; and the work that stands for a step.

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reprieve/checkpoint.hpp"

namespace reprieve::bench {

/// What a state is made of.
struct WorkloadSpec {
  double large_mib = 512;         ///< of the one large distributed array, per rank, on average
  std::uint64_t small_count = 0;  ///< per-rank variables beside it
  std::uint64_t small_bytes = 4096;
  /// If not 0, the large array has two dimensions and is split along the last one, as domain decompositions do: each
  /// rank has rows of so many bytes, which lie scattered in the file.
  std::uint64_t row_bytes = 0;
  /// The large array has three dimensions, and the ranks cut it in as many as their number allows, the last one first.
  bool grid = false;

  [[nodiscard]] std::string name() const;
  /// Of one dimension: the same array on any number of ranks.
  [[nodiscard]] bool is_one_large_array() const { return small_count == 0 && row_bytes == 0 && !grid; }
};

/// Which states a benchmark measures: large arrays of some sizes, and states of other shapes.
struct StateOptions {
  std::vector<double> sizes_mib{64, 512};
  std::vector<std::string> shapes{"small", "rows", "grid"};
};
void add_options(CLI::App& command, StateOptions& options);
[[nodiscard]] std::vector<WorkloadSpec> states(const StateOptions& options);

/// Work of a calibrated length that touches no memory and calls nothing. Construction is collective.
class Work {
 public:
  /// Measures the speed of this machine once.
  Work();
  /// Iterations that take about so long.
  [[nodiscard]] std::uint64_t iterations(double seconds) const;
  static void run(std::uint64_t iterations);

 private:
  double seconds_per_iteration_;
};

/// A rank's part of an array: extents of the array, offset and extents of the part.
struct ArrayPart {
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offset;
  std::vector<std::uint64_t> extent;
};

/// A rank's box of @p count elements, in a grid of ranks that is as even as their number allows.
[[nodiscard]] ArrayPart grid_part(std::uint64_t count, std::uint64_t rank, std::uint64_t ranks);

/// This rank's part of the state: one block of memory that begins where malloc puts a large one, a little after the
/// begin of a page; the variables lie in it one after the other. Every element knows its index, whatever the number of
/// ranks.
class Workload {
 public:
  /// @param ranks  over how many ranks the state is spread
  Workload(const WorkloadSpec& spec, int rank, int ranks);

  /// All variables, registered with Reprieve.
  [[nodiscard]] Checkpoint& checkpoint() noexcept { return checkpoint_; }

  [[nodiscard]] std::span<double> large() noexcept { return elements().first(large_count_); }
  [[nodiscard]] std::span<double> small(std::uint64_t index) noexcept;
  [[nodiscard]] std::uint64_t small_count() const noexcept { return spec_.small_count; }
  [[nodiscard]] std::uint64_t small_elements() const noexcept { return spec_.small_bytes / sizeof(double); }
  [[nodiscard]] const ArrayPart& large_part() const noexcept { return large_part_; }
  /// That of each small variable.
  [[nodiscard]] ArrayPart small_part() const;

  /// This rank's bytes; the memory behind them is there up to whole pages.
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {memory(), size_}; }
  /// A copy of the padded bytes in huge pages of memory, if the system has them, for what is measured as the limit:
  /// devices write from them and read into them faster.
  [[nodiscard]] std::span<std::byte> limit_bytes();
  /// Where this rank's padded part begins when all are put into one file, and the size of that file.
  [[nodiscard]] std::uint64_t padded_offset() const noexcept { return padded_offset_; }
  [[nodiscard]] std::uint64_t padded_total() const noexcept { return padded_total_; }
  /// Bytes of state of all ranks.
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return total_; }

  /// Sets every element to what it should be; `clear` to something else.
  void fill();
  void clear();
  /// What a program changes between two saves.
  enum class Change { everywhere, every_fifth_mib };
  /// Changes the state there, in every 64 KiB, to what depends on @p time; elsewhere it is as it is for time 0.
  void change(Change where, std::uint64_t time);
  /// Elements of the large array that are not what they should be.
  [[nodiscard]] std::uint64_t wrong_elements();

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  [[nodiscard]] std::span<double> elements() noexcept {
    return {reinterpret_cast<double*>(memory()), size_ / sizeof(double)};
  }
  using Memory = std::unique_ptr<std::byte, Free>;
  static constexpr std::size_t kAfterPage = 16;
  /// Where the state begins.
  [[nodiscard]] std::byte* memory() noexcept { return memory_.get() + kAfterPage; }
  /// Room for the padded bytes, all zero.
  [[nodiscard]] Memory make_room(bool huge_pages) const;

  WorkloadSpec spec_;
  std::uint64_t rank_;
  std::uint64_t ranks_;
  std::uint64_t large_offset_ = 0;
  std::uint64_t large_count_ = 0;
  ArrayPart large_part_;
  std::uint64_t size_ = 0;
  std::uint64_t padded_ = 0;
  std::uint64_t padded_offset_ = 0;
  std::uint64_t padded_total_ = 0;
  std::uint64_t total_ = 0;
  Memory memory_;
  Memory limit_memory_;  ///< null until it is asked for
  std::vector<std::span<double>> smalls_;
  Checkpoint checkpoint_;
};

}  // namespace reprieve::bench
