// SPDX-License-Identifier: BSD-3-Clause
#include <CLI/CLI.hpp>
#include <map>

#include "trainer/training.hpp"

namespace trainer {
namespace {

constexpr const char* kDescription =
    "Trains a neural network to read digits, on any number of MPI ranks, and survives preemption: a SIGTERM or\n"
    "SIGUSR1 to any rank makes all ranks save one checkpoint and leave with exit code 42; the same command then goes\n"
    "on where it stopped.";

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

}  // namespace trainer
