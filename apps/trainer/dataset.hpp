// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The digits data set: images of 8x8 pixels and the digit that each one shows.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/model.hpp"

namespace trainer {

constexpr std::size_t kPixels = 64;
constexpr std::size_t kClasses = 10;

/// The images, split: every fifth one is held out for evaluation, whatever the seed.
struct Dataset {
  Samples training;
  Samples held_out;
  std::uint64_t fingerprint = 0;  ///< of the text; differs between data sets
};

/// The text of a gzip file. (A file that is not compressed is taken as it is.)
/// @throws reprieve::StorageError if it cannot be read or is cut short or corrupt
std::string read_gzip(const std::filesystem::path& file);

/// Parses lines of 64 pixels (0 to 16, scaled to 0..1) and the digit (0 to 9), separated by commas.
/// @param origin  shown in error messages
/// @throws reprieve::ConfigError that names the line
Dataset parse_digits(std::string_view text, const std::string& origin);

/// Gives mini-batches of indices: every sample at most once per pass over the data, in a new random order each pass. A
/// remainder that does not fill a batch is left out. All its state is in `state()`, so that a resumed run continues
/// with the very same batches.
class Sampler {
 public:
  struct State {
    std::mt19937_64 engine;
    std::vector<std::uint32_t> order;  ///< of the present pass
    std::uint64_t position = 0;        ///< samples used of it
  };

  Sampler(std::size_t sample_count, std::uint64_t seed);

  /// The next batch; valid until the next call.
  /// @param batch_size  1 to the number of samples
  std::span<const std::uint32_t> next(std::size_t batch_size);

  [[nodiscard]] State& state() noexcept { return state_; }
  [[nodiscard]] const State& state() const noexcept { return state_; }

 private:
  State state_;
};

}  // namespace trainer
