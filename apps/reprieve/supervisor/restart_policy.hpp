// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a supervisor decides: when to give notice, whether to start again, what to do with a suspect checkpoint. Pure.

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

// Whether a run that did not finish is started again.

struct RestartLimits {
  int restarts = 0;                             ///< starts after the first one
  std::chrono::milliseconds first_pause{1000};  ///< after a crash; doubles with each crash without progress
  std::chrono::milliseconds longest_pause{60'000};
  int fruitless_runs = 3;  ///< give up after so many in a row that made no progress
};

/// What to do after a run.
struct RestartDecision {
  bool restart = false;
  std::chrono::milliseconds pause{0};  ///< before the restart
  std::string reason;                  ///< why there is no restart; empty if nobody asked for one
};

/// Judges the runs of one supervisor one after the other.
class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits) {}

  /// The checkpoint that the run died reading, if others died of it before: it is to be verified before the next start.
  /// To be called once for each run, before `decide`.
  std::optional<std::filesystem::path> suspect(const Verdict& verdict);

  /// @param begins_elsewhere  the checkpoint where the run began is not there any more
  RestartDecision decide(const Verdict& verdict, bool begins_elsewhere);

  /// Restarts so far.
  [[nodiscard]] int used() const noexcept { return used_; }

 private:
  [[nodiscard]] std::string why_not(const Verdict& verdict) const;
  [[nodiscard]] std::chrono::milliseconds pause_after(const Verdict& verdict) const;

  RestartLimits limits_;
  int used_ = 0;
  int fruitless_ = 0;
  std::map<std::filesystem::path, int> deaths_;  ///< runs that died while they read a file
};

// When the ranks are to be told that the job is about to end. Pure: the time is given.

/// Keeps a request until the ranks can hear it, and repeats the notice until the record shows that it arrived: a signal
/// that comes while a launcher starts is lost, and one that comes before a rank watches it kills the job.
class NoticePlan {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param patience  how long to wait for a program that tells nothing; then it is sent the notice all the same. One
  /// that has opened its checkpoint directory is waited for without a limit: it may have much to restore, and what it
  /// restores is safe.
  explicit NoticePlan(std::chrono::milliseconds patience) : patience_(patience) {}

  /// The job is about to end, for all starts of the program to come too. Only the first call counts.
  void request(Clock::time_point now);
  [[nodiscard]] bool requested() const noexcept { return requested_.has_value(); }

  /// The program is started, again.
  void begin_run();

  /// Whether to send the notice at this moment. True is counted as sent.
  bool send_is_due(const RunProgress& progress, Clock::time_point now);

  /// How often it was sent since the program started.
  [[nodiscard]] int sent() const noexcept { return sent_; }

 private:
  std::chrono::milliseconds patience_;
  std::optional<Clock::time_point> requested_;
  int sent_ = 0;
  Clock::time_point last_sent_;
};

// A checkpoint that several runs died reading. That says little about it: whoever ran out of memory died so, too. Only
// what is found to be corrupt is quarantined.

/// What became of a checkpoint that runs died reading.
struct Suspicion {
  enum class Outcome {
    valid,       ///< it stays where it is
    quarantine,  ///< corrupt: the next start takes an older one
    needed,      ///< corrupt, and there is no older one
    unknown,     ///< it cannot be read
  };
  Outcome outcome = Outcome::unknown;
  std::string text{};  ///< the new name, or what is wrong
};

/// What is to be said about it.
[[nodiscard]] SupervisorEvent describe(const std::filesystem::path& suspect, const Suspicion& found);

}  // namespace reprieve::supervisor
