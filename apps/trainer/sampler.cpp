// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/sampler.hpp"

#include <algorithm>
#include <numeric>

namespace trainer {

Sampler::Sampler(std::size_t sample_count, std::uint64_t seed)
    : state_{std::mt19937_64(seed), std::vector<std::uint32_t>(sample_count), 0} {
  std::iota(state_.order.begin(), state_.order.end(), 0U);
  std::shuffle(state_.order.begin(), state_.order.end(), state_.engine);
}

std::span<const std::uint32_t> Sampler::next(std::size_t batch_size) {
  if (state_.position + batch_size > state_.order.size()) {
    std::shuffle(state_.order.begin(), state_.order.end(), state_.engine);
    state_.position = 0;
  }
  const std::span<const std::uint32_t> batch(&state_.order[state_.position], batch_size);
  state_.position += batch_size;
  return batch;
}

}  // namespace trainer
