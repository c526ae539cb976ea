// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Batch jobs that train, and what their records tell about their preemptions.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "slurm/slurm_cluster.hpp"

namespace reprieve::test {

/// What the program does: reprieve-trainer. How fast changes nothing in the result.
struct Training {
  int steps = 600;
  /// So often the job is started with 0.4 s for each step: it takes as long as a test waits for anything, so that it is
  /// not done before it is preempted, however slow the machine is with the other jobs. Then it hurries.
  int slow_starts = 1;
};

/// The steps of an epoch: after each, the trainer prints a line.
inline constexpr int kStepsPerEpoch = 5;

/// The digest of the state that an undisturbed run on so many ranks ends with. Computed once.
std::string undisturbed_digest(const Training& training, int ranks);

/// Writes what can be run. Processes that other threads start meanwhile do not get the open file: as long as they lived
/// it could not be run ("Text file busy"). @throws std::runtime_error
void write_program(const std::filesystem::path& path, const std::string& text);

/// A batch script of the source tree's folder slurm.
std::string script_of_tree(const std::string& name);
/// What `reprieve sbatch-template` prints.
std::string script_of_template(const std::vector<std::string>& options);
/// A script with a part replaced. @throws std::runtime_error unless the part is there once
std::string replaced(const std::string& script, const std::string& part, const std::string& replacement);
/// With more options for `reprieve run`.
std::string with_run_options(const std::string& script, const std::string& options);
/// With modules that take some seconds to load before `reprieve run` begins.
std::string with_slow_modules(const std::string& script);
/// A script of the tree that asks Slurm for no signal.
std::string without_signal(const std::string& script);

/// What is submitted.
struct JobPlan {
  std::string name;
  std::string script;  ///< the text of a batch script that starts ./my-program, or ../my-program from a folder task-N
  Training training;
  std::vector<std::string> arguments = {};  ///< for sbatch: these override what the script says
  std::string program_start = {};           ///< what my-program does first: a command of the shell
};

/// How one preemption went, in seconds; what was not seen is missing.
struct PreemptionFigures {
  std::optional<double> to_notice;   ///< from its cause (a job submitted, a command) until the ranks knew
  double to_commit = 0;              ///< from there until the checkpoint was committed
  std::optional<double> to_release;  ///< from the notice until Slurm had the nodes back: the grace that was used
  std::optional<double> to_restart;  ///< from there until the ranks were ready again
};
std::string text_of(const PreemptionFigures& figures);

/// One job, or one task of an array. Whatever does not come in time throws std::runtime_error with the job's output.
class TrainingJob {
 public:
  /// The files that the job writes.
  struct Files {
    std::filesystem::path checkpoints, summary;
  };

  /// Submits it, in a directory of its own.
  TrainingJob(SlurmCluster& slurm, const JobPlan& plan);
  /// Where a task writes, given the directory of its array.
  using FilesOfTask = std::function<Files(const std::filesystem::path&, int)>;
  /// Submits an array with tasks 0, 1, ..., and waits until each has started.
  static std::vector<TrainingJob> array(SlurmCluster& slurm, const JobPlan& plan, int tasks,
                                        const FilesOfTask& files_of);

  [[nodiscard]] int id() const noexcept { return id_; }
  /// What commands call it: the number, or array_task.
  [[nodiscard]] std::string name_in_slurm() const;
  /// As `scontrol show job` has it now.
  [[nodiscard]] std::string field(const std::string& name) const { return slurm_->job(id_)[name]; }

  /// Waits until Slurm has started the job for the n-th time (counted from 0); its script has hardly begun.
  void wait_until_running(int start);
  /// Waits until `reprieve run` has begun the n-th start; its ranks are not ready yet.
  void wait_until_started(int start);
  /// Waits until the ranks of the n-th start have trained for an epoch.
  void wait_until_training(int start);
  /// Waits until Slurm has put the job back into the queue for the n-th time.
  void wait_until_requeued(int times);
  /// Waits until the program has made a file in the job's directory.
  void wait_for_file(const std::string& name);
  /// Waits until the text is in the job's output.
  void wait_until_said(const std::string& text);
  /// Waits for the end of the job; it must be @p state.
  void wait_until_ended(const std::string& state);
  /// After the end of the job: it was requeued so often before its program finished. Where Slurm remembers a grace
  /// time, it may have started the job once more after that; there was nothing to do then.
  void check_restarts(int times) const;
  /// Waits for the end of the job that was requeued so often; its state must be that of an undisturbed run.
  void check_completed(const std::string& digest, int restarts);

  /// When what is to lead to a preemption began.
  void note_cause(std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now());
  /// Of all preemptions that the record tells of.
  [[nodiscard]] std::vector<PreemptionFigures> figures() const;

  /// The last summary of the trainer. Throws if there is none.
  [[nodiscard]] nlohmann::json summary() const;
  [[nodiscard]] std::string output() const { return read_text(field("StdOut")); }

 private:
  TrainingJob(SlurmCluster& slurm, int id, Files files) : slurm_(&slurm), files_(std::move(files)), id_(id) {}

  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& kind) const;
  void wait(const std::string& what, const std::function<bool()>& happened) const;

  SlurmCluster* slurm_;
  Files files_;
  int id_ = 0;
  std::vector<std::chrono::steady_clock::time_point> causes_;
  std::vector<std::chrono::steady_clock::time_point> releases_;  ///< when Slurm no longer had the job running
};

/// Calls the function for all jobs at once, each in a thread of its own; throws what the first of them threw.
void for_all(const std::vector<TrainingJob*>& jobs, const std::function<void(TrainingJob&)>& call);

/// Where the tasks of array.sbatch write.
TrainingJob::Files files_of_task(const std::filesystem::path& directory, int task);

/// @throws std::runtime_error unless the two are equal
void check_equal(const std::string& what, const std::string& is, const std::string& should);

}  // namespace reprieve::test
