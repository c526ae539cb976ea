// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What saves, restarts and notices cost in past runs; how often to save, and how much grace that needs. Pure.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "handler/save_policy.hpp"
#include "text.hpp"

namespace reprieve::supervisor {

/// What the event log of a checkpoint directory says about past runs. Times in seconds; lists from the oldest to the
/// newest.
struct RunHistory {
  int runs = 0;           ///< that came to their first step
  int finished = 0;       ///< came to their end
  int preempted = 0;      ///< left after a notice, their state saved
  int failed = 0;         ///< ended in any other way; not the last one, which may still be working
  double observed_s = 0;  ///< all runs together, from the start to the last event of each
  std::vector<double> saves_s;
  std::vector<double>
      first_saves_s;              ///< those of them that were the first of a run: the only one, if a notice comes early
  std::vector<double> blocked_s;  ///< for how much of each save the program stood still: all, or less in the background
  std::vector<double> restores_s;
  std::vector<double> waits_s;         ///< from notices to the agreement of all ranks
  std::vector<double> notices_s;       ///< from notices to the exit
  std::vector<double> intervals_s;     ///< of work between periodic saves
  std::vector<double> local_copies_s;  ///< for how long a node-local copy stopped the program: means
  double stepping_s = 0;               ///< the time of `steps` steps
  std::uint64_t steps = 0;
  double longest_step_s = 0;
  std::uint64_t state_bytes = 0;  ///< in the newest save

  /// Adds the runs of another directory.
  void add(const RunHistory& other) {
    runs += other.runs;
    finished += other.finished;
    preempted += other.preempted;
    failed += other.failed;
    observed_s += other.observed_s;
    for (const auto list :
         {&RunHistory::saves_s, &RunHistory::first_saves_s, &RunHistory::blocked_s, &RunHistory::restores_s,
          &RunHistory::waits_s, &RunHistory::notices_s, &RunHistory::intervals_s, &RunHistory::local_copies_s}) {
      (this->*list).insert((this->*list).end(), (other.*list).begin(), (other.*list).end());
    }
    stepping_s += other.stepping_s;
    steps += other.steps;
    longest_step_s = std::max(longest_step_s, other.longest_step_s);
    state_bytes = std::max(state_bytes, other.state_bytes);
  }
};

// How often to save against failures that come without notice. Pure; all times in seconds.
//
// Failures come at random with a mean time M between them; a save costs d, and a restart R. Too many saves cost time,
// too few lose work.

/// sqrt(2 d M) [1 + 1/3 sqrt(d / 2M) + 1/9 (d / 2M)] - d for d < 2M, else M: J. T. Daly, A higher order estimate of the
/// optimum checkpoint interval for restart dumps, Future Generation Computer Systems 22(3), 2006, 303-312, equation 37.
/// Work between two saves.
inline double daly_interval_s(double save_s, double mtbf_s) {
  if (save_s >= 2 * mtbf_s) {
    return mtbf_s;
  }
  const double ratio = save_s / (2 * mtbf_s);
  return handler::young_interval_s(save_s, mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save_s;
}

/// The part of the time, 0 to 1, that goes into saves, restarts and work that is lost, with @p interval_s of work
/// between saves: 1 - Ts / Tw, from the expected wall clock time Tw = M exp(R/M) (exp((interval + d)/M) - 1) Ts /
/// interval for Ts of work (Daly 2006, equation 20).
inline double lost_fraction(double interval_s, double save_s, double restart_s, double mtbf_s) {
  const double wall_clock_per_work =
      mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1((interval_s + save_s) / mtbf_s) / interval_s;
  return 1 - 1 / wall_clock_per_work;
}

/// With no failure in @p observed_s, the mean time between failures is longer than that divided by -ln(0.05), about
/// three, with a confidence of 95 %: the rule of three; J. A. Hanley and A. Lippman-Hand, If nothing goes wrong, is
/// everything all right?, JAMA 249(13), 1983, 1743-1745.
inline double shortest_mtbf_s(double observed_s) { return observed_s / -std::log(0.05); }

/// What the time from a notice to the end of a job is made of, in seconds.
struct GraceCosts {
  double wait_s = 0;   ///< until all ranks agree: the longest step, since the notice may come at the beginning of one
  double save_s = 0;   ///< longest save
  double leave_s = 0;  ///< from the commit to the end of the launcher
};

/// The longest that it takes, as measured, in seconds: the wait, a save, and the way out.
inline double grace_needed_s(const GraceCosts& costs) { return costs.wait_s + costs.save_s + costs.leave_s; }

/// With a margin of half as much again, since a file system is busiest when many jobs are preempted at once, and a
/// second on top, for what is short.
inline double grace_with_margin_s(const GraceCosts& costs) { return 1.5 * grace_needed_s(costs) + 1.0; }

/// N in `#SBATCH --signal=B:USR1@N`: `grace_with_margin_s`, and 30 s since Slurm gives its signals up to so much late;
/// up to the next ten.
inline int signal_lead_s(const GraceCosts& costs) {
  constexpr double kSlurmLateness = 30.0;
  constexpr double kRounding = 10.0;
  return static_cast<int>(std::ceil((grace_with_margin_s(costs) + kSlurmLateness) / kRounding) * kRounding);
}

}  // namespace reprieve::supervisor

namespace reprieve::tool {

/// What the user knows; seconds.
struct AdviceQuestion {
  std::optional<double> mtbf_s{};        ///< mean time between failures that come without notice
  std::optional<double> node_mtbf_s{};   ///< of those that node-local copies do not survive: nodes, power
  std::optional<double> grace_s{};       ///< of the queue
  std::optional<double> time_limit_s{};  ///< of one job
};

/// Where the mean time between failures is from.
enum class MtbfSource {
  given,     ///< the user knows it
  measured,  ///< runs failed
  at_least,  ///< none failed: the 95 % bound of the rule of three
};

struct IntervalAdvice {
  double mtbf_s = 0;
  MtbfSource source = MtbfSource::given;
  double young_s = 0;
  double daly_s = 0;                ///< what to take
  std::optional<double> steps;      ///< the same in steps, at least 1
  double lost = 0;                  ///< part of the time that goes into saves, restarts and lost work, 0 to 1
  std::optional<double> present_s;  ///< what past runs did, on average
  std::optional<double> present_lost;
};

/// Node-local copies against crashes of the program, checkpoints against the loss of nodes: each as if it were alone.
struct TwoLevelAdvice {
  double copy_s = 0;        ///< for which a node-local copy stops the program
  double local_s = 0;       ///< between two of them
  double checkpoint_s = 0;  ///< between two checkpoints
  double node_mtbf_s = 0;
  double lost = 0;                 ///< by both together, 0 to 1
  std::uint64_t memory_bytes = 0;  ///< of all nodes, for two copies
};

struct NoticeAdvice {
  supervisor::GraceCosts costs;
  double needed_s = 0;
  double with_margin_s = 0;
  int signal_lead_s = 0;
  double two_saves_s = 0;  ///< grace in which the handler saves at once, continues, and saves again
};

struct Advice {
  AdviceQuestion question;
  supervisor::RunHistory history;
  double save_mean_s = 0;         ///< for which the program stands still
  double save_upper_s = 0;        ///< 90th percentile of the last 16
  double first_save_upper_s = 0;  ///< the same of saves that were the first of a run
  std::optional<double> step_mean_s;
  std::optional<IntervalAdvice> interval;
  std::optional<TwoLevelAdvice> two_levels;
  std::optional<NoticeAdvice> notice;
  std::string too_little_data;       ///< that there is too little to rely on; empty if there is enough
  std::vector<std::string> missing;  ///< what is not known, and how to come to know it

  /// The state can be saved within the grace of the question, with a margin; true if none was asked for.
  [[nodiscard]] bool grace_is_enough() const;
};

Advice advise(const supervisor::RunHistory& history, const AdviceQuestion& question);

/// What the time from a notice to the end was made of, and what that means for a grace.
Json to_json(const supervisor::GraceCosts& costs);
Json to_json(const Advice& advice);
void print_text(std::ostream& out, const Advice& advice);

}  // namespace reprieve::tool
