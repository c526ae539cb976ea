// SPDX-License-Identifier: BSD-3-Clause
// reprieve-recovery: keeps running while its workers are taken, and starts them anew.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <iostream>
#include <reprieve/reprieve.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "worker.hpp"

namespace {

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
                << " on rank " << preemption->rank << "); starting them anew" << std::endl;
      watcher.block_until_worker_exit();
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Keeps running while its workers are taken, and starts them anew");
  recovery::WorkerOptions worker;
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
    return recovery::run_worker(worker, argc, argv);
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
