// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Asking Slurm about the job, rarely and without waiting.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "supervisor/command.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::supervisor {

/// Runs scontrol (searched in PATH). Every call returns at once.
class SlurmClient {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param poll  how often to ask
  /// @param lead  how long before the job's end the run must be told; if nothing, the default
  SlurmClient(std::string job_id, std::chrono::milliseconds poll, std::optional<std::chrono::seconds> lead);

  [[nodiscard]] const std::string& job_id() const noexcept { return job_id_; }

  /// Asks when it is time to ask.
  void tick();
  /// Asks now, if no question is under way.
  void ask();
  /// To be told of every child that ended.
  void on_ended(const EndedChild& child);
  /// Whether a question asked by `ask` is still without an answer.
  [[nodiscard]] bool asking() const noexcept { return question_ != nullptr; }

  /// The last answer, if there was one.
  [[nodiscard]] const std::optional<termination::SlurmJobInfo>& job() const noexcept { return job_; }

  /// Whether the job is so near to its end that the run must be told. The limit of a job may have been changed since
  /// the last answer, so before it says yes it asks again, and waits some seconds for the answer.
  bool notice_is_due();

 private:
  std::string job_id_;
  std::chrono::milliseconds poll_;
  std::optional<std::chrono::seconds> lead_;
  std::unique_ptr<Command> question_;
  std::optional<termination::SlurmJobInfo> job_;
  Clock::time_point asked_;    ///< when the last question was asked
  Clock::time_point learned_;  ///< when the last answer came
  bool failure_logged_ = false;
};

}  // namespace reprieve::supervisor
