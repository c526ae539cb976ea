#pragma once

/// @file
/// A batch job that trains, and what its record tells about its preemptions.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "slurm/slurm_cluster.hpp"

namespace reprieve::test {

/// What the program does.
struct Training {
  int epochs = 1;
  int steps_per_epoch = 1;
  int step_delay_ms = 0;

  /// The command, without launcher.
  [[nodiscard]] std::vector<std::string> command() const;
};

/// The digest of the state that an undisturbed run on so many ranks ends with.
std::string undisturbed_digest(Training training, int ranks);

/// How one preemption went, in seconds.
struct PreemptionFigures {
  double to_notice = 0;   ///< from its cause (a job submitted, a command) until the ranks knew
  double to_commit = 0;   ///< from there until the checkpoint was committed
  double to_release = 0;  ///< from the notice until Slurm had the nodes back: the grace that was used
  double to_restart = 0;  ///< from there until the ranks were ready again
  std::string text() const;
};

/// One job in a directory of its own. Whatever does not come in time throws std::runtime_error with the job's output.
class TrainingJob {
 public:
  /// Submits a batch script, in which the trainer takes the place of the user's program.
  /// @param script       file name in the source tree's folder slurm
  /// @param arguments    for sbatch: these override what the script says
  /// @param run_options  for `reprieve run`, as in " --lead 20s"
  TrainingJob(SlurmCluster& slurm, const std::string& name, const std::string& script, const Training& training,
              std::vector<std::string> arguments, const std::string& run_options = "");

  [[nodiscard]] int id() const noexcept { return id_; }

  /// Waits until the ranks of the n-th start (counted from 0) are ready and have trained for a moment.
  void wait_until_training(int start);
  /// Waits until `reprieve run` has begun the n-th start (counted from 0); its ranks are not ready yet.
  void wait_until_started(int start);
  /// Waits until Slurm has put the job back into the queue for the n-th time; the figures of what led there.
  void wait_until_requeued(int times);
  /// Waits for the end of the job; it must be @p state.
  void wait_until_ended(const std::string& state);

  /// To be called right before what is to lead to a preemption.
  void note_cause();
  /// Of all preemptions that the record tells of.
  [[nodiscard]] std::vector<PreemptionFigures> figures() const;

  /// The last summary of the trainer. Throws if there is none.
  [[nodiscard]] nlohmann::json summary() const;
  [[nodiscard]] std::string output() const;
  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }

 private:
  [[nodiscard]] std::vector<nlohmann::json> events() const;
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& kind) const;
  void wait(const std::string& what, const std::function<bool()>& happened);

  SlurmCluster& slurm_;
  std::filesystem::path directory_;
  int id_ = 0;
  std::vector<double> causes_;    ///< monotonic, seconds
  std::vector<double> releases_;  ///< the same: when Slurm no longer had the job running
};

}  // namespace reprieve::test
