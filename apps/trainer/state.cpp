// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/state.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <reprieve/error.hpp>
#include <reprieve/serializer.hpp>
#include <span>
#include <string>

namespace trainer {

namespace {

using Engine = std::mt19937_64;

std::uint32_t low_half(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_half(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); }

Engine seeded(std::uint64_t seed, int stream) {
  std::seed_seq sequence{low_half(seed), high_half(seed), static_cast<std::uint32_t>(stream)};
  return Engine(sequence);
}

/// One variable per layer. Spans keep their size: a checkpoint of another network does not fit, and says where.
void register_parameters(reprieve::Checkpoint& checkpoint, std::vector<double>& parameters, const Model& model) {
  const std::span<double> all(parameters);
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const LayerView& layer = model.layers()[l];
    const std::string name = "model/layer" + std::to_string(l + 1);
    checkpoint.add_replicated(name + "/weights", all.subspan(layer.weights, layer.inputs * layer.outputs));
    checkpoint.add_replicated(name + "/biases", all.subspan(layer.biases, layer.outputs));
  }
}

}  // namespace

std::mt19937_64 noise_engine_of(std::uint64_t seed, int rank) { return seeded(seed, rank + 1); }

void register_state(reprieve::Checkpoint& checkpoint, TrainingState& state, const Model& model, apps::Slice mine) {
  register_parameters(checkpoint, state.parameters, model);
  for (Moment& moment : state.optimizer.moments()) {
    checkpoint.add_distributed(
        "optimizer/" + moment.name, moment.values.data(),
        {.global_shape = {model.parameter_count()}, .offset = {mine.offset}, .extent = {mine.size}});
  }
  checkpoint.add_replicated("data/fingerprint", state.data_fingerprint);
  checkpoint.add_replicated("data/shuffle_engine", state.sampler.state().engine);
  checkpoint.add_replicated("data/order", state.sampler.state().order);
  checkpoint.add_replicated("data/position", state.sampler.state().position);
  checkpoint.add_replicated("progress/epoch", state.progress.epoch);
  checkpoint.add_replicated("progress/step_in_epoch", state.progress.step_in_epoch);
  checkpoint.add_replicated("progress/step", state.progress.step);
  checkpoint.add_replicated("history/training_loss", state.history.training_loss);
  checkpoint.add_replicated("history/held_out_loss", state.history.held_out_loss);
  checkpoint.add_replicated("history/accuracy", state.history.accuracy);
  checkpoint.add_per_rank<Engine>(
      "rank/noise_engine", state.noise_engine,
      [](const auto& pieces, int rank, int, Engine& engine) { engine = redistribute_engine(pieces, rank); });
  checkpoint.add_per_rank<std::array<double, 2>>(
      "rank/epoch_loss_samples", state.epoch_loss_samples,
      [](const auto& pieces, int rank, int, auto& sums) { sums = redistribute_sums(pieces, rank); });
}

std::mt19937_64 redistribute_engine(const reprieve::PerRankPieces& pieces, int rank) {
  Engine engine;
  reprieve::Serializer<Engine>::load(engine, pieces.bytes(rank % pieces.count()));
  if (rank < pieces.count()) {
    return engine;
  }
  return seeded(engine(), rank + 1);
}

std::array<double, 2> redistribute_sums(const reprieve::PerRankPieces& pieces, int rank) {
  std::array<double, 2> total{};
  for (int saved = 0; rank == 0 && saved < pieces.count(); ++saved) {
    std::array<double, 2> sums{};
    const std::vector<std::byte> bytes = pieces.bytes(saved);
    if (bytes.size() != sizeof(sums)) {
      throw reprieve::MismatchError("rank/epoch_loss_samples of rank " + std::to_string(saved) + " has " +
                                    std::to_string(bytes.size()) + " bytes");
    }
    std::memcpy(sums.data(), bytes.data(), sizeof(sums));
    total[0] += sums[0];
    total[1] += sums[1];
  }
  return total;
}

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
