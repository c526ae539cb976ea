// SPDX-License-Identifier: BSD-3-Clause
// A program that is preempted: a field whose every value depends on all steps of all ranks.

#include "worker.hpp"

#include <mpi.h>

#include <cstdint>
#include <iostream>
#include <reprieve/reprieve.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

namespace recovery {

namespace {

class Simulation {
 public:
  explicit Simulation(const WorkerOptions& options) : options_(options) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    field_.assign(1000, static_cast<std::uint64_t>(rank_) + 1);
  }

  void run() {
    reprieve::Checkpoint state;
    state.add_per_rank("field", field_);
    reprieve::TerminationConfig config;
    config.grace_period = std::chrono::milliseconds(static_cast<std::int64_t>(options_.grace_s * 1000));
    config.error_timeout = std::chrono::seconds(3);  // the others wait for a rank that fails in their MPI_Allreduce
    reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, options_.directory, config);
    while (handler.total_run_calls() < options_.steps) {
      handler.run([&] {
        if (options_.fail_in_grace && handler.preempted() && rank_ == size_ - 1) {
          throw std::runtime_error("a device of this node has gone already");
        }
        step();
      });
    }
    handler.finish();
    print_digest();
  }

 private:
  void step() {
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.step_ms));
    std::uint64_t sum = 0;
    MPI_Allreduce(field_.data(), &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (std::uint64_t& value : field_) {
      value = value * 6364136223846793005U + sum;
    }
  }

  void print_digest() const {
    std::uint64_t digest = 0;
    MPI_Reduce(&field_.back(), &digest, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank_ == 0) {
      std::cout << "digest " << digest << std::endl;
    }
  }

  WorkerOptions options_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::uint64_t> field_;
};

int run(const WorkerOptions& options) {
  try {
    Simulation(options).run();
    return 0;
  } catch (const reprieve::UnresponsiveError& error) {
    std::cerr << error.what() << std::endl;
    reprieve::abort_job(MPI_COMM_WORLD, 1);  // ranks are missing: MPI_Finalize would wait for them
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}

}  // namespace

int run_worker(const WorkerOptions& options, int argc, char** argv) {
  reprieve::watch_signals();
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
    std::cerr << "MPI_Init failed" << std::endl;
    return 1;
  }
  const int code = run(options);
  return MPI_Finalize() == MPI_SUCCESS ? code : 1;
}

}  // namespace recovery
