// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/training.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <map>
#include <reprieve/error.hpp>
#include <reprieve/serializer.hpp>
#include <stdexcept>
#include <string>
#include <thread>

namespace trainer {
namespace {

constexpr const char* kDescription =
    "Trains a neural network to read digits, on any number of MPI ranks, and survives preemption: a SIGTERM or\n"
    "SIGUSR1 to any rank makes all ranks save one checkpoint and leave with exit code 42; the same command then\n"
    "resumes where it stopped.";

constexpr const char* kExamples = R"(Examples:
  Train on 4 ranks, with checkpoints in ./checkpoints, and again to see that there is nothing left to do:
    mpirun -n 4 reprieve-trainer
  Steps slow enough to watch, a preemption from another terminal (one rank is enough), and the same command to resume:
    mpirun -n 4 reprieve-trainer --step-delay-ms 50 --checkpoint-dir run1
    kill -TERM $(pgrep -n reprieve-train)
    mpirun -n 4 reprieve-trainer --step-delay-ms 50 --checkpoint-dir run1
  A checkpoint every 100 steps against deaths without notice, and 20 seconds of grace after a notice:
    mpirun -n 4 reprieve-trainer --checkpoint-every 100 --grace-period 20
  Everything from a file, one value overridden, the result as JSON:
    mpirun -n 4 reprieve-trainer --config configs/trainer.json --epochs 5 --summary summary.json
Exit codes: 0 finished, 42 preempted and saved (start me again), 2 wrong options, 1 any other error.
Settings of the library come from the file's other sections and from REPRIEVE_... variables as well.)";

using apps::between;

void add_training_options(CLI::App& app, Options& options) {
  const std::map<std::string, OptimizerKind> optimizers{{"sgd", OptimizerKind::sgd}, {"adam", OptimizerKind::adam}};
  const auto at_least_1 = between(std::uint64_t{1}, std::uint64_t{1'000'000'000});
  app.add_option("--data", options.data,
                 "data set: gzip-compressed lines of 64 pixels and the digit (default: digits)");
  app.add_option("--epochs", options.epochs, "when to stop")->capture_default_str()->check(at_least_1);
  app.add_option("--steps-per-epoch", options.steps_per_epoch, "0: as many as the training set has batches")
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "samples per step, over all ranks")
      ->capture_default_str()
      ->check(at_least_1);
  app.add_option("--hidden", options.hidden, "sizes of the hidden layers, as in 64,32")
      ->capture_default_str()
      ->delimiter(',')
      ->check(between(std::uint64_t{1}, std::uint64_t{100'000}));
  app.add_option("--optimizer", options.optimizer, "sgd (with momentum) or adam")
      ->transform(CLI::CheckedTransformer(optimizers).description(""))
      ->default_str("adam")
      ->type_name("sgd|adam");
  app.add_option("--learning-rate", options.learning_rate, "default: 0.003 for adam, 0.1 for sgd")
      ->check(CLI::PositiveNumber);
  app.add_option("--noise", options.noise, "standard deviation of the noise on training pixels, which are 0 to 1")
      ->capture_default_str()
      ->check(between(0.0, 10.0));
  app.add_option("--seed", options.seed, "of everything random")->capture_default_str();
}

void add_failing_options(CLI::App& app, Options& options) {
  const std::map<std::string, FailPoint> points{{"begin", FailPoint::begin}, {"end", FailPoint::end}};
  app.add_option("--fail-rank", options.fail_rank, "this rank throws in step --fail-step")->group(apps::kForTests);
  app.add_option("--fail-step", options.fail_step, "counted from 0, over all restarts")
      ->capture_default_str()
      ->group(apps::kForTests);
  app.add_option("--fail-point", options.fail_point,
                 "begin: before the exchange of gradients, where the other ranks wait in vain; end: after it")
      ->transform(CLI::CheckedTransformer(points).description(""))
      ->default_str("end")
      ->type_name("begin|end")
      ->group(apps::kForTests);
}

using Engine = std::mt19937_64;

/// Of a rank's noise: another one on every rank.
Engine seeded(std::uint64_t seed, int rank) {
  std::seed_seq sequence{seed & 0xffff'ffffU, seed >> 32U, static_cast<std::uint64_t>(rank + 1)};  // words of 32 bits
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
  append(bytes, reprieve::Serializer<Engine>::save(sampler.engine));
  append_values(bytes, sampler.order);
  append_values<std::uint64_t>(bytes, {state.data_fingerprint, sampler.position, state.progress.epoch,
                                       state.progress.step_in_epoch, state.progress.step});
  append_values(bytes, state.history.training_loss);
  append_values(bytes, state.history.held_out_loss);
  append_values(bytes, state.history.accuracy);
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

Model make_model(const Options& options) {
  std::vector<std::size_t> sizes{kPixels};
  sizes.insert(sizes.end(), options.hidden.begin(), options.hidden.end());
  sizes.push_back(kClasses);
  return Model(std::move(sizes));
}

Samples part_of(const Samples& samples, apps::Slice slice) {
  const auto inputs = samples.inputs.begin() + static_cast<std::ptrdiff_t>(slice.offset * kPixels);
  const auto labels = samples.labels.begin() + static_cast<std::ptrdiff_t>(slice.offset);
  return {{inputs, inputs + static_cast<std::ptrdiff_t>(slice.size * kPixels)},
          {labels, labels + static_cast<std::ptrdiff_t>(slice.size)}};
}

std::uint64_t choose_steps_per_epoch(const Options& options, std::size_t samples) {
  if (options.batch_size > samples) {
    throw reprieve::ConfigError("--batch-size " + std::to_string(options.batch_size) + " is greater than the " +
                                std::to_string(samples) + " training images");
  }
  return options.steps_per_epoch > 0 ? options.steps_per_epoch : samples / options.batch_size;
}

TrainingState initial_state(const Options& options, const Dataset& dataset, const Model& model, apps::Slice mine,
                            int rank) {
  std::mt19937_64 weight_engine(options.seed);
  const double learning_rate = options.learning_rate.value_or(options.optimizer == OptimizerKind::sgd ? 0.1 : 0.003);
  return {.parameters = model.initial_parameters(weight_engine),
          .sampler = Sampler(dataset.training.labels.size(), options.seed),
          .progress = {},
          .history = {},
          .data_fingerprint = dataset.fingerprint,
          .optimizer = Optimizer(options.optimizer, learning_rate, mine.size),
          .noise_engine = seeded(options.seed, rank)};
}

/// On another number of ranks: rank r gets the engine of the old rank r; ranks beyond those derive one of their own
/// from it.
Engine redistribute_engine(const reprieve::PerRankPieces& pieces, int rank) {
  Engine engine;
  reprieve::Serializer<Engine>::load(engine, pieces.bytes(rank % pieces.count()));
  if (rank < pieces.count()) {
    return engine;
  }
  return seeded(engine(), rank);
}

/// The sums of all old ranks go to rank 0, so that the sum over the ranks stays what it was.
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

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  apps::CommandLine line(kDescription, "reprieve-trainer", "trainer");
  line.app().footer(kExamples);
  add_training_options(line.app(), options);
  line.add_common_options(options);
  add_failing_options(line.app(), options);
  line.parse(argc, argv, options);
  return options;
}

Training::Training(const Options& options, const Dataset& dataset, const apps::Ranks& ranks)
    : options_(options),
      dataset_(dataset),
      ranks_(ranks),
      model_(make_model(options)),
      my_parameters_(ranks.my_slice(model_.parameter_count())),
      my_held_out_(part_of(dataset.held_out, ranks.my_slice(dataset.held_out.labels.size()))),
      steps_per_epoch_(choose_steps_per_epoch(options, dataset.training.labels.size())),
      state_(initial_state(options, dataset, model_, my_parameters_, ranks.rank())) {}

void Training::register_state(reprieve::Checkpoint& checkpoint) {
  register_parameters(checkpoint, state_.parameters, model_);
  for (Moment& moment : state_.optimizer.moments()) {
    checkpoint.add_distributed("optimizer/" + moment.name, moment.values.data(),
                               {.global_shape = {model_.parameter_count()},
                                .offset = {my_parameters_.offset},
                                .extent = {my_parameters_.size}});
  }
  checkpoint.add_replicated("data/fingerprint", state_.data_fingerprint);
  checkpoint.add_replicated("data/shuffle_engine", state_.sampler.state().engine);
  checkpoint.add_replicated("data/order", state_.sampler.state().order);
  checkpoint.add_replicated("data/position", state_.sampler.state().position);
  checkpoint.add_replicated("progress/epoch", state_.progress.epoch);
  checkpoint.add_replicated("progress/step_in_epoch", state_.progress.step_in_epoch);
  checkpoint.add_replicated("progress/step", state_.progress.step);
  checkpoint.add_replicated("history/training_loss", state_.history.training_loss);
  checkpoint.add_replicated("history/held_out_loss", state_.history.held_out_loss);
  checkpoint.add_replicated("history/accuracy", state_.history.accuracy);
  checkpoint.add_per_rank<Engine>(
      "rank/noise_engine", state_.noise_engine,
      [](const auto& pieces, int rank, int, Engine& engine) { engine = redistribute_engine(pieces, rank); });
  checkpoint.add_per_rank<std::array<double, 2>>(
      "rank/epoch_loss_samples", state_.epoch_loss_samples,
      [](const auto& pieces, int rank, int, auto& sums) { sums = redistribute_sums(pieces, rank); });
}

Digests Training::digests() const {
  apps::Bytes bytes = replicated_bytes(state_);
  check_replicas(bytes, ranks_);
  for (const Moment& moment : state_.optimizer.moments()) {
    append(bytes, ranks_.gather(std::as_bytes(std::span(moment.values))));
  }
  const std::uint64_t shared = hash(bytes);
  apps::Bytes per_rank = reprieve::Serializer<Engine>::save(state_.noise_engine);
  append(per_rank, std::as_bytes(std::span(state_.epoch_loss_samples)));
  append(bytes, ranks_.gather(per_rank));
  return ranks_.is_rank_0() ? Digests{shared, hash(bytes)} : Digests{};
}

void Training::check_restored() const {
  if (state_.data_fingerprint != dataset_.fingerprint) {
    throw reprieve::MismatchError(
        "the checkpoint was made with another data set: give that one with --data, or another --checkpoint-dir");
  }
}

void Training::step() {
  const std::uint64_t steps_before = state_.progress.step;
  fail_if_asked(FailPoint::begin, steps_before);
  const std::span<const std::uint32_t> batch = state_.sampler.next(options_.batch_size);
  const apps::Slice share = ranks_.my_slice(batch.size());
  const Samples samples = noisy_samples(batch.subspan(share.offset, share.size));

  std::vector<double> gradient(model_.parameter_count());
  const Score score = model_.add_gradient(state_.parameters, samples, gradient);
  std::vector<double> mean = ranks_.sum_slice(gradient);
  for (double& component : mean) {
    component /= static_cast<double>(batch.size());
  }
  const std::span<double> parameters(state_.parameters);
  state_.optimizer.update(parameters.subspan(my_parameters_.offset, my_parameters_.size), mean, steps_before + 1);
  ranks_.all_gather_slices(parameters);
  state_.epoch_loss_samples[0] += score.loss;
  state_.epoch_loss_samples[1] += score.samples;

  // The library's sleep continues after a signal, so a notice does not shorten a step.
  std::this_thread::sleep_for(options_.step_delay);
  state_.progress.step = steps_before + 1;
  if (++state_.progress.step_in_epoch >= steps_per_epoch_) {
    finish_epoch();
  }
  fail_if_asked(FailPoint::end, steps_before);
}

Evaluation Training::evaluate() const {
  const Score mine = model_.evaluate(state_.parameters, my_held_out_);
  std::array<double, 3> sums{mine.loss, mine.correct, mine.samples};
  ranks_.sum(sums);
  return {sums[0] / sums[2], sums[1] / sums[2]};
}

Samples Training::noisy_samples(std::span<const std::uint32_t> indices) {
  const Samples& all = dataset_.training;
  Samples samples;
  samples.inputs.reserve(indices.size() * kPixels);
  for (const std::uint32_t index : indices) {
    const auto image = all.inputs.begin() + static_cast<std::ptrdiff_t>(index * kPixels);
    samples.inputs.insert(samples.inputs.end(), image, image + static_cast<std::ptrdiff_t>(kPixels));
    samples.labels.push_back(all.labels[index]);
  }
  if (options_.noise > 0) {
    // Made again in every step: a distribution may keep values back, which would be state outside of the engine.
    std::normal_distribution<double> noise(0, options_.noise);
    for (double& pixel : samples.inputs) {
      pixel += noise(state_.noise_engine);
    }
  }
  return samples;
}

void Training::fail_if_asked(FailPoint point, std::uint64_t steps_before) const {
  if (ranks_.rank() == options_.fail_rank && steps_before == options_.fail_step && point == options_.fail_point) {
    throw std::runtime_error("failed on purpose (--fail-rank " + std::to_string(options_.fail_rank) + " --fail-step " +
                             std::to_string(options_.fail_step) + ")");
  }
}

void Training::finish_epoch() {
  std::array<double, 2> sums = state_.epoch_loss_samples;
  ranks_.sum(sums);
  const Evaluation evaluation = evaluate();
  state_.history.training_loss.push_back(sums[0] / sums[1]);
  state_.history.held_out_loss.push_back(evaluation.loss);
  state_.history.accuracy.push_back(evaluation.accuracy);
  state_.epoch_loss_samples = {};
  state_.progress.step_in_epoch = 0;
  ++state_.progress.epoch;
}

Summary summary_of(const Training& training) {
  return {{}, training.state().progress, training.evaluate(), training.digests()};
}

apps::Json to_json(const Summary& summary) {
  using apps::Json;
  const auto& restored = summary.restored_digest;
  return {
      {"status", summary.preemption ? "preempted" : "finished"},
      {"world_size", summary.world_size},
      {"run_calls", summary.run_calls},
      {"epoch", summary.progress.epoch},
      {"step", summary.progress.step},
      {"restored_from", summary.restored_from ? Json(*summary.restored_from) : Json()},
      {"loss", summary.evaluation.loss},
      {"accuracy", summary.evaluation.accuracy},
      {"state_digest", fmt::format("{:016x}", summary.digests.all)},
      {"shared_state_digest", fmt::format("{:016x}", summary.digests.shared)},
      {"restored_shared_state_digest", restored ? Json(fmt::format("{:016x}", *restored)) : Json()},
      {"preemption", summary.preemption ? apps::to_json(*summary.preemption) : Json()},
  };
}

}  // namespace trainer
