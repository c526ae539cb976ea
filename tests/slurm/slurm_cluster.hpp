// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A private Slurm for tests: its daemons are children of the test, its files lie in a temporary directory, its ports
/// are free ones. Any user can start it; several nodes need root.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::test {

struct SlurmOptions {
  /// 1: this host. More: n1, n2, ..., each with a host name, /dev/shm and temporary directory of its own.
  int nodes = 1;
  /// Of each node, as Slurm is told; the machine may have fewer.
  int cpus = 16;
  /// Of partition "low". Jobs that leave earlier do not wait for its end.
  std::chrono::seconds grace{60};
  /// From SIGTERM to SIGKILL.
  std::chrono::seconds kill_wait{30};
  /// Kill by control group, as most sites do: then Slurm's signals reach the steps of the job, not what a batch script
  /// has started. Needs root. Otherwise by parent process, where they reach every process of the job.
  bool control_groups = false;
  /// Whether a job gets the signal that it asks for (`--signal`) when it is preempted, too.
  bool preempt_send_user_signal = true;
  /// Jobs that end with this code go back into the queue.
  std::optional<int> requeue_exit = std::nullopt;
};

/// What `scontrol show job` says, by name: JobState, Restarts, NodeList, ...
using JobFields = std::map<std::string, std::string>;

/// Partitions: "low" is preempted with the grace time, "low0" without; both requeue. "high" preempts them.
/// Members may be called from several threads at once.
class SlurmCluster {
 public:
  /// Why there can be no such cluster here, for GTEST_SKIP; empty if there can.
  static std::string obstacle(const SlurmOptions& options);

  /// Starts the daemons and waits until all nodes are idle.
  /// @throws std::runtime_error with the ends of their logs if they do not come up
  explicit SlurmCluster(const SlurmOptions& options = {});
  /// Cancels what is left of the jobs, and ends the daemons.
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  /// For the files of jobs; readable and writable from every node.
  [[nodiscard]] std::filesystem::path directory() const { return files_ / "jobs"; }

  /// Runs a command of Slurm in `directory()` and returns what it wrote.
  /// @throws std::runtime_error with its errors unless it returns 0
  std::string command(std::vector<std::string> arguments, const Environment& environment = {}) const;

  /// `sbatch` with the arguments; the number of the job.
  [[nodiscard]] int submit(std::vector<std::string> arguments, const Environment& environment = {}) const;

  /// Not older than a fraction of a second. Empty if Slurm does not know the job.
  [[nodiscard]] JobFields job(int id);

  /// The number of one task of a job array; nothing before it has started.
  [[nodiscard]] std::optional<int> array_task(int array, int task);

  /// Whether this Slurm takes every end in a grace time for a preemption, and remembers the grace time after a requeue:
  /// it does from 24.05 on, so the next end of the job is taken for one too.
  [[nodiscard]] bool remembers_grace() const;

  /// Waits until the fields of the job are as wanted; false if they are not within the limit.
  [[nodiscard]] bool wait_for_job(int id, const std::function<bool(const JobFields&)>& wanted,
                                  std::chrono::seconds limit);
  /// The same for its state: "RUNNING", "COMPLETED", ...
  [[nodiscard]] bool wait_for_state(int id, const std::string& state, std::chrono::seconds limit);

  /// A node of several dies: all that runs there is killed at once, and nothing answers any more.
  /// @param node  from 1
  void kill_node(int node);

  /// The ends of the daemons' logs.
  [[nodiscard]] std::string logs() const;
  /// What the daemons' logs say about one job.
  [[nodiscard]] std::string logs_of(int job) const;

 private:
  void read_jobs();
  void lock_control_groups();
  void write_configuration() const;
  void start_daemons();
  void cancel_all() const;
  [[nodiscard]] bool all_idle() const;
  [[nodiscard]] Command daemon(const std::string& setup, const std::string& command_line) const;
  [[nodiscard]] std::string node_setup(const std::string& node) const;

  const SlurmOptions options_;
  const std::vector<std::string> nodes_;
  TemporaryDirectory files_;
  Environment environment_;                        ///< of the daemons and of every command
  int lock_ = -1;                                  ///< held while this cluster uses control groups
  std::vector<std::unique_ptr<Process>> daemons_;  ///< the controller first
  std::mutex jobs_mutex_;
  std::chrono::steady_clock::time_point jobs_read_;  ///< when
  std::map<int, JobFields> jobs_;
};

}  // namespace reprieve::test

/// Skips the test where there can be no such cluster.
#define REPRIEVE_NEEDS_SLURM(options)                                                                      \
  if (const std::string obstacle = ::reprieve::test::SlurmCluster::obstacle(options); !obstacle.empty()) { \
    GTEST_SKIP() << obstacle;                                                                              \
  }                                                                                                        \
  static_assert(true, "a semicolon follows")
