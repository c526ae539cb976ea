// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// From what past runs measured to what to set. Pure.

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "supervisor/costs.hpp"
#include "text.hpp"

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
