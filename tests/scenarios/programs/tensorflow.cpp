// SPDX-License-Identifier: BSD-3-Clause
// scenarios_tensorflow LOOP DIR [KEY=VALUE ...]: the worker of TensorFlow's own tests of its failure handling, ported
// line by line: 4 workers, 8 epochs of 15 steps, each of which adds one to the variable. LOOP is run, boundary, scope,
// manager or braceless. The code between a line "// [NAME]" and the next "// [end]" stands in
// apps/guide/coming_from.md.
//
//   step_us=N         what a step takes
//   fail=RANK:STEP    that worker raises in that step (which is counted over all epochs)
//   stuck=1           every step has a collective of the program's own, in which the other workers then wait
//   grace_s=S         the grace period; keep_running=1: the exit function returns
//   watch=FILE        the watcher function looks for this file
//   save_fn=besides|instead   a save function that calls the manager's save, as a port has it
//
// Rank 0 prints "ready", and at the end "v V calls N"; every worker prints "done R" if it comes to the end.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "reprieve/reprieve.hpp"

namespace {

constexpr std::uint64_t kStepsPerEpoch = 15;
constexpr std::uint64_t kEpochsToRun = 8;

using Options = std::map<std::string, std::string>;

class Worker {
 public:
  Worker(std::filesystem::path directory, Options options)
      : checkpoint_dir_(std::move(directory)), options_(std::move(options)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    checkpoint_.add_replicated("v", v_);
  }

  void run() {
    const MPI_Comm comm = MPI_COMM_WORLD;
    reprieve::Checkpoint& checkpoint = checkpoint_;
    const auto& checkpoint_dir = checkpoint_dir_;
    const auto distributed_train_step = [this](std::uint64_t epoch, std::uint64_t step) { train(epoch, step); };
    const reprieve::TerminationConfig termination_config = config();
    // [run]
    reprieve::PreemptionCheckpointHandler preemption_handler(comm, checkpoint, checkpoint_dir, termination_config);

    for (auto epoch = preemption_handler.total_run_calls() / kStepsPerEpoch; epoch < kEpochsToRun; ++epoch) {
      for (auto step = preemption_handler.total_run_calls() % kStepsPerEpoch; step < kStepsPerEpoch; ++step) {
        preemption_handler.run(distributed_train_step, epoch, step);
      }
    }
    preemption_handler.finish();
    // [end]
    report(preemption_handler);
  }

  void boundary() {
    const auto distributed_train_step = [this](std::uint64_t epoch, std::uint64_t step) { train(epoch, step); };
    reprieve::PreemptionCheckpointHandler preemption_handler(MPI_COMM_WORLD, checkpoint_, checkpoint_dir_, config());
    // [boundary]
    for (auto epoch = preemption_handler.total_run_calls() / kStepsPerEpoch; epoch < kEpochsToRun; ++epoch) {
      for (auto step = preemption_handler.total_run_calls() % kStepsPerEpoch; step < kStepsPerEpoch; ++step) {
        preemption_handler.save_checkpoint_if_preempted();
        distributed_train_step(epoch, step);
      }
    }
    preemption_handler.finish();
    // [end]
    report(preemption_handler);
  }

  void scope() {
    const auto distributed_train_step = [this] { train(v_ / kStepsPerEpoch, v_ % kStepsPerEpoch); };
    const std::uint64_t num_steps = kEpochsToRun * kStepsPerEpoch;
    const std::uint64_t& trained_step = v_;
    reprieve::PreemptionCheckpointHandler preemption_handler(MPI_COMM_WORLD, checkpoint_, checkpoint_dir_, config());
    // [scope]
    {
      auto scope = preemption_handler.watch_preemption_scope();
      while (trained_step < num_steps) {
        preemption_handler.run(distributed_train_step);
      }
      scope.close();
    }
    preemption_handler.finish();
    // [end]
    report(preemption_handler);
  }

  void manager() {
    const auto distributed_train_step = [this](std::uint64_t epoch, std::uint64_t step) { train(epoch, step); };
    // [manager]
    reprieve::CheckpointManager manager(MPI_COMM_WORLD, checkpoint_, checkpoint_dir_, {.max_to_keep = 1});
    reprieve::TerminationConfig termination_config = config(&manager);
    reprieve::PreemptionCheckpointHandler preemption_handler(MPI_COMM_WORLD, manager, termination_config);
    // [end]
    for (auto epoch = preemption_handler.total_run_calls() / kStepsPerEpoch; epoch < kEpochsToRun; ++epoch) {
      for (auto step = preemption_handler.total_run_calls() % kStepsPerEpoch; step < kStepsPerEpoch; ++step) {
        preemption_handler.run(distributed_train_step, epoch, step);
      }
    }
    preemption_handler.finish();
    report(preemption_handler);
  }

  [[nodiscard]] reprieve::TerminationConfig config(reprieve::CheckpointManager* manager = nullptr) const {
    reprieve::TerminationConfig config;
    config.poll_interval = std::chrono::milliseconds(50);
    if (const auto grace = value("grace_s")) {
      config.grace_period = std::chrono::milliseconds(static_cast<std::int64_t>(std::stod(*grace) * 1000));
    }
    if (value("keep_running")) {
      config.exit_fn = [this](const reprieve::ExitContext& /*context*/) { say("exit function\n"); };
    }
    if (const auto file = value("watch")) {
      config.termination_watcher_fn = [path = *file] { return std::filesystem::exists(path); };
    }
    if (const auto mode = value("save_fn"); mode && manager != nullptr) {
      if (*mode == "instead") {
        config.save_fn_mode = reprieve::SaveFnMode::instead;
      }
      config.save_fn = [manager](const reprieve::SaveFnContext& context) { manager->save(context.number); };
    }
    return config;
  }

  void report(const reprieve::PreemptionCheckpointHandler& handler) const {
    say("v " + std::to_string(v_) + " calls " + std::to_string(handler.total_run_calls()) + "\n");
    std::cout << ("done " + std::to_string(rank_) + "\n") << std::flush;
  }

  [[nodiscard]] reprieve::Checkpoint& checkpoint() { return checkpoint_; }

  /// One step: adds one to the variable.
  void train(std::uint64_t epoch, std::uint64_t step) {
    if (!told_) {
      told_ = true;
      say("ready " + std::to_string(v_) + "\n");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(std::stoi(value("step_us").value_or("1000"))));
    const std::uint64_t number = epoch * kStepsPerEpoch + step;
    if (value("fail") == std::to_string(rank_) + ":" + std::to_string(number)) {
      throw std::runtime_error("worker " + std::to_string(rank_) + " raises");
    }
    if (value("stuck")) {
      MPI_Barrier(MPI_COMM_WORLD);
    }
    if (number != v_) {
      throw std::logic_error("step " + std::to_string(number) + " with the variable at " + std::to_string(v_));
    }
    ++v_;
  }

 private:
  [[nodiscard]] std::optional<std::string> value(const std::string& key) const {
    const auto found = options_.find(key);
    return found == options_.end() ? std::nullopt : std::optional(found->second);
  }

  void say(const std::string& text) const {
    if (rank_ == 0) {
      std::cout << text << std::flush;
    }
  }

  std::filesystem::path checkpoint_dir_;
  Options options_;
  reprieve::Checkpoint checkpoint_;
  std::uint64_t v_ = 0;
  int rank_ = 0;
  bool told_ = false;
};

void work(Worker& worker, const std::string& loop) {
  const std::map<std::string, std::function<void()>> loops{{"run", [&] { worker.run(); }},
                                                           {"boundary", [&] { worker.boundary(); }},
                                                           {"scope", [&] { worker.scope(); }},
                                                           {"manager", [&] { worker.manager(); }}};
  loops.at(loop)();
}

/// As in a script without functions: all is a variable of main, and lives longer than MPI.
int braceless(Worker& worker, const std::filesystem::path& directory) {
  static std::optional<reprieve::PreemptionCheckpointHandler> handler;
  handler.emplace(MPI_COMM_WORLD, worker.checkpoint(), directory, worker.config());
  while (handler->total_run_calls() < kStepsPerEpoch) {
    handler->run([&] { worker.train(0, handler->total_run_calls()); });
  }
  MPI_Finalize();
  std::cout << ("calls " + std::to_string(handler->total_run_calls()) + "\n") << std::flush;
  return handler->exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  reprieve::watch_signals();
  MPI_Init(&argc, &argv);
  Options options;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  const std::string loop = argv[1];
  static Worker worker(argv[2], options);
  if (loop == "braceless") {
    return braceless(worker, argv[2]);
  }
  try {
    work(worker, loop);
  } catch (const reprieve::ClusterError& error) {
    std::string text = "rank " + std::to_string(error.origin_rank()) + " failed";
    try {
      std::rethrow_if_nested(error);
    } catch (const std::exception& own) {
      text += ", here by: " + std::string(own.what());
    }
    std::cout << text + "\n" << std::flush;
    MPI_Finalize();
    return 3;
  } catch (const std::exception& error) {
    std::cout << "other error: " + std::string(error.what()) + "\n" << std::flush;
    MPI_Finalize();
    return 4;
  }
  MPI_Finalize();
  return 0;
}
