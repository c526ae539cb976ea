// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/digest.hpp"

#include <xxhash.h>

#include <algorithm>
#include <reprieve/error.hpp>
#include <reprieve/serializer.hpp>
#include <span>

namespace trainer {
namespace {

using EngineSerializer = reprieve::Serializer<std::mt19937_64>;

void append(apps::Bytes& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

template <class T>
void append_values(apps::Bytes& bytes, const std::vector<T>& values) {
  append(bytes, std::as_bytes(std::span<const T>(values)));
}

std::uint64_t hash(const apps::Bytes& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

apps::Bytes replicated_bytes(const TrainingState& state) {
  const Sampler::State& sampler = state.sampler.state();
  apps::Bytes bytes;
  append_values(bytes, state.parameters);
  append(bytes, EngineSerializer::save(sampler.engine));
  append_values(bytes, sampler.order);
  append_values<std::uint64_t>(bytes, {state.data_fingerprint, sampler.position, state.progress.epoch,
                                       state.progress.step_in_epoch, state.progress.step});
  append_values(bytes, state.history.training_loss);
  append_values(bytes, state.history.held_out_loss);
  append_values(bytes, state.history.accuracy);
  return bytes;
}

apps::Bytes per_rank_bytes(const TrainingState& state) {
  apps::Bytes bytes = EngineSerializer::save(state.noise_engine);
  append(bytes, std::as_bytes(std::span(state.epoch_loss_samples)));
  return bytes;
}

void check_replicas(const apps::Bytes& replicated, const apps::Ranks& ranks) {
  const std::vector<std::uint64_t> hashes = ranks.all_gather(hash(replicated));
  const auto other = std::find_if(hashes.begin(), hashes.end(), [&](std::uint64_t h) { return h != hashes.front(); });
  if (other != hashes.end()) {
    throw reprieve::ClusterError("the replicated state of rank " + std::to_string(other - hashes.begin()) +
                                 " differs from that of rank 0");
  }
}

}  // namespace

Digests digest_of(const TrainingState& state, const apps::Ranks& ranks) {
  apps::Bytes bytes = replicated_bytes(state);
  check_replicas(bytes, ranks);
  for (const Moment& moment : state.optimizer.moments()) {
    append(bytes, ranks.gather(std::as_bytes(std::span(moment.values))));
  }
  const std::uint64_t shared = hash(bytes);
  append(bytes, ranks.gather(per_rank_bytes(state)));
  return ranks.is_chief() ? Digests{shared, hash(bytes)} : Digests{};
}

}  // namespace trainer
