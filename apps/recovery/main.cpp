// SPDX-License-Identifier: BSD-3-Clause
// reprieve-recovery: keeps running while its workers are taken, and starts them again.

#include <mpi.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <reprieve/reprieve.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct WorkerOptions {
  std::filesystem::path directory;
  unsigned steps = 200;
  unsigned step_ms = 20;
  double grace_s = 0;
  bool fail_in_grace = false;  ///< the last rank throws in the first step after a notice
};

// A program that is preempted: a field whose every value depends on all steps of all ranks.

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

/// One rank of the run. Returns the exit code.
int run_worker(const WorkerOptions& options, int argc, char** argv) {
  reprieve::watch_signals();
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
    std::cerr << "MPI_Init failed" << std::endl;
    return 1;
  }
  const int code = run(options);
  return MPI_Finalize() == MPI_SUCCESS ? code : 1;
}

/// Runs a command to its end. @throws std::runtime_error unless it ends with 0
void run_to_end(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  pid_t pid = -1;
  if (const int error = ::posix_spawnp(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ); error != 0) {
    throw std::runtime_error("cannot start " + command[0] + ": " + std::strerror(error));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) {
      throw std::runtime_error(std::string("cannot wait for the workers: ") + std::strerror(errno));
    }
  }
  if (WIFSIGNALED(status)) {
    throw std::runtime_error("the workers were ended by signal " + std::to_string(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0) {
    throw std::runtime_error("the workers ended with code " + std::to_string(WEXITSTATUS(status)));
  }
}

int keep_running(const std::filesystem::path& directory, const std::vector<std::string>& command) {
  bool running = true;
  while (running) {
    const reprieve::PreemptionWatcher watcher(directory);
    try {
      run_to_end(command);
      running = false;
    } catch (const std::exception& error) {
      const auto preemption = watcher.preemption_message();
      if (!preemption) {
        throw;
      }
      std::cerr << "reprieve-recovery: " << error.what() << ", after a preemption (" << preemption->source
                << " on rank " << preemption->rank << "); starting them again" << std::endl;
      watcher.block_until_worker_exit();
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Keeps running while its workers are taken, and starts them again");
  WorkerOptions worker;
  bool is_worker = false;
  std::vector<std::string> command;
  app.add_option("--directory", worker.directory, "directory of the checkpoints")->required();
  app.add_flag("--worker", is_worker, "be one of the workers, a small simulation");
  app.add_option("--steps", worker.steps, "of the simulation");
  app.add_option("--step-ms", worker.step_ms, "length of a step");
  app.add_option("--grace", worker.grace_s, "grace period in seconds")->check(CLI::NonNegativeNumber);
  app.add_flag("--fail-in-grace", worker.fail_in_grace, "the last rank fails in the first step after a notice");
  app.add_option("command", command, "what starts the workers, after --");
  CLI11_PARSE(app, argc, argv);
  if (is_worker) {
    return run_worker(worker, argc, argv);
  }
  if (command.empty()) {
    std::cerr << "reprieve-recovery: no workers to be started; add: -- mpirun -n 4 ./program" << std::endl;
    return 2;
  }
  try {
    return keep_running(worker.directory, command);
  } catch (const std::exception& error) {
    std::cerr << "reprieve-recovery: " << error.what() << std::endl;
    return 1;
  }
}
