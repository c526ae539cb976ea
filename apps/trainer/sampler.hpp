// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The order in which training samples are used.

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace trainer {

/// Gives mini-batches of indices: every sample at most once per pass over the data, in a new random order each pass. A
/// remainder that does not fill a batch is left out. All its state is in `state()`, so that a resumed run goes on with
/// the very same batches.
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
