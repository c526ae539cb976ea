// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The Slurm job: asking for its state without waiting, and putting it back into the queue.

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/processes.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::supervisor {

/// Runs scontrol (searched in PATH). Every call returns at once.
class SlurmClient {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param poll  how often to ask
  /// @param lead  how long before the job's end the run must get notice; if nothing, the default
  SlurmClient(std::string job_id, std::chrono::milliseconds poll, std::optional<std::chrono::seconds> lead)
      : job_id_(std::move(job_id)), poll_(poll), lead_(lead) {
    ask();
  }

  [[nodiscard]] const std::string& job_id() const noexcept { return job_id_; }

  /// Takes up the answer to a question, if it has come. To be called whenever children were reaped.
  void take_answer();

  /// Asks when it is time to ask.
  void tick() {
    if (Clock::now() - asked_ >= poll_) {
      ask();
    }
  }

  /// Asks now, if no question is under way.
  void ask() {
    if (!question_) {
      asked_ = Clock::now();
      question_.emplace(std::vector<std::string>{"scontrol", "show", "job", job_id_}, termination::slurm_environment());
    }
  }

  /// Whether a question asked by `ask` is still without an answer.
  [[nodiscard]] bool asking() const noexcept { return question_.has_value(); }

  /// The last answer, if there was one.
  [[nodiscard]] const std::optional<termination::SlurmJobInfo>& job() const noexcept { return job_; }

  /// Whether the job is so near to its end that the run must get notice. The limit of a job may have been changed since
  /// the last answer. So before a yes it asks again, and waits some seconds for the answer.
  bool notice_is_due();

 private:
  std::string job_id_;
  std::chrono::milliseconds poll_;
  std::optional<std::chrono::seconds> lead_;
  std::optional<Command> question_;
  std::optional<termination::SlurmJobInfo> job_;
  Clock::time_point asked_;    ///< when the last question was asked
  Clock::time_point learned_;  ///< when the last answer came
  bool failure_logged_ = false;
};

// Whether and how a Slurm job gets back into the queue. Pure.

using termination::SlurmJobInfo;

/// How a job gets back into the queue.
enum class RequeueWay {
  scontrol,   ///< `scontrol requeue`
  exit_code,  ///< the site has RequeueExit set to the restart code
};

/// What is known at the end of a run.
struct RequeueFacts {
  bool saved = false;
  bool hopeless = false;       ///< the next start would meet the same error
  bool slurm_decided = false;  ///< SIGTERM came: Slurm has requeued the job, or cancelled it, or its time is over
  bool by_hand = false;        ///< somebody sent SIGINT or SIGHUP
  std::optional<SlurmJobInfo> job;
};

/// Why the job must not be put back into the queue; nothing if it should be. A run that was not saved is put back only
/// if Slurm is preempting the job: at the end of the grace time Slurm would have done so itself.
std::optional<std::string> requeue_refusal(const RequeueFacts& facts);

/// How the job gets back, where the settings say @p chosen. In a grace time always by scontrol: Slurm 24.05 and later
/// put a job that ends then back by themselves, take that for a launch that failed, and hold the job at the fifth time.
inline RequeueWay requeue_way(RequeueWay chosen, const SlurmJobInfo& job) {
  return job.preempted ? RequeueWay::scontrol : chosen;
}

/// The exit code in a Slurm job for a saved run that must not start again: where the site has set RequeueExit, the
/// restart code itself would start it.
inline constexpr int kSavedButNotAgain = 75;

}  // namespace reprieve::supervisor
