// SPDX-License-Identifier: BSD-3-Clause
#include "advise.hpp"

#include <iostream>
#include <numeric>

#include "command.hpp"
#include "core/events.hpp"
#include "core/log.hpp"
#include "files.hpp"
#include "manager/checkpoint_directory.hpp"
#include "reprieve/termination_config.hpp"
#include "timeline.hpp"

namespace reprieve::tool {

namespace {

using supervisor::RunHistory;
using Seconds = std::chrono::duration<double>;

/// mpirun needs up to that to end after its ranks; the event log does not see it.
constexpr double kLauncherEnd = 2.0;

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double longest(const std::vector<double>& values) { return values.empty() ? 0 : std::ranges::max(values); }

double upper_estimate(const std::vector<double>& values) {
  handler::DurationHistory recent;
  for (const double value : values) {
    recent.add(Seconds(value));
  }
  return recent.upper_estimate().count();
}

/// "21.3 ms", "42 s", "3 min 20 s".
std::string time_text(double seconds) {
  return seconds < 60 ? core::seconds_text(seconds) : core::duration_text(Seconds(seconds));
}

std::string percent(double fraction) { return fmt::format("{:.2g} %", 100 * fraction); }

/// Nothing if the user does not know it and no run was long enough.
std::optional<IntervalAdvice> with_mtbf(const RunHistory& history, const AdviceQuestion& question) {
  IntervalAdvice advice;
  if (question.mtbf_s) {
    advice.mtbf_s = *question.mtbf_s;
  } else if (history.failed > 0) {
    advice.mtbf_s = history.observed_s / history.failed;
    advice.source = MtbfSource::measured;
  } else {
    advice.mtbf_s = supervisor::shortest_mtbf_s(history.observed_s);
    advice.source = MtbfSource::at_least;
  }
  return advice.mtbf_s > 0 ? std::optional(advice) : std::nullopt;
}

std::optional<IntervalAdvice> advise_interval(const Advice& known) {
  auto advice = with_mtbf(known.history, known.question);
  if (!advice || known.save_mean_s <= 0) {
    return std::nullopt;
  }
  const double save_s = known.save_mean_s;
  const double restart_s = mean(known.history.restores_s);
  advice->young_s = handler::young_interval_s(save_s, advice->mtbf_s);
  advice->daly_s = supervisor::daly_interval_s(save_s, advice->mtbf_s);
  advice->lost = supervisor::lost_fraction(advice->daly_s, save_s, restart_s, advice->mtbf_s);
  if (known.step_mean_s && *known.step_mean_s > 0) {
    advice->steps = std::max(1.0, std::round(advice->daly_s / *known.step_mean_s));
  }
  if (const double present = mean(known.history.intervals_s); present > 0) {
    advice->present_s = present;
    advice->present_lost = supervisor::lost_fraction(present, save_s, restart_s, advice->mtbf_s);
  }
  return advice;
}

/// Source of the two intervals: A. Moody, G. Bronevetsky, K. Mohror and B. R. de Supinski, Design, modeling, and
/// evaluation of a scalable multi-level checkpointing system, SC 2010; here without its model of what overlaps.
std::optional<TwoLevelAdvice> advise_two_levels(const Advice& known) {
  if (!known.interval || !known.question.node_mtbf_s || known.history.local_copies_s.empty()) {
    return std::nullopt;
  }
  const double restart_s = mean(known.history.restores_s);
  TwoLevelAdvice advice;
  advice.copy_s = mean(known.history.local_copies_s);
  advice.node_mtbf_s = *known.question.node_mtbf_s;
  advice.local_s = supervisor::daly_interval_s(advice.copy_s, known.interval->mtbf_s);
  advice.checkpoint_s = supervisor::daly_interval_s(known.save_mean_s, advice.node_mtbf_s);
  advice.lost = supervisor::lost_fraction(advice.local_s, advice.copy_s, restart_s, known.interval->mtbf_s) +
                supervisor::lost_fraction(advice.checkpoint_s, known.save_mean_s, restart_s, advice.node_mtbf_s);
  advice.memory_bytes = 2 * known.history.state_bytes;
  return advice;
}

/// The handler trains on after the first save if there is room for more (handler/save_policy.hpp).
double two_saves_need(double wait_s, double save_s) {
  constexpr std::chrono::seconds kMargin{1};  // without the end of mpirun
  const double fixed = Seconds(kMargin + cluster::kCheckInterval).count();
  return (wait_s + save_s) + (fixed + save_s + 3 * wait_s);
}

NoticeAdvice advise_notice(const Advice& known) {
  const double wait_s =
      std::max({known.history.longest_step_s, longest(known.history.waits_s), known.step_mean_s.value_or(0)});
  NoticeAdvice advice;
  const double save_s = std::max(known.save_upper_s, known.first_save_upper_s);  // a notice can come before any other
  advice.costs = {wait_s, save_s, kLauncherEnd};
  advice.needed_s = supervisor::grace_needed_s(advice.costs);
  advice.with_margin_s = supervisor::grace_with_margin_s(advice.costs);
  advice.signal_lead_s = supervisor::signal_lead_s(advice.costs);
  advice.two_saves_s = two_saves_need(wait_s, save_s);
  return advice;
}

/// Runs that were short tell little: they start, warm up and end. So do the first saves.
std::string too_little_text(const RunHistory& history) {
  constexpr double kLeastS = 60;
  constexpr std::size_t kFewestSaves = 3;
  return history.observed_s >= kLeastS && history.saves_s.size() >= kFewestSaves
             ? ""
             : fmt::format(
                   "Too little data: {} in {} of work on record; a minute with {} saves is the least. Ask again later.",
                   count_text(history.saves_s.size(), "save"), time_text(history.observed_s), kFewestSaves);
}

std::vector<std::string> find_missing(const Advice& known) {
  std::vector<std::string> missing;
  if (known.history.saves_s.empty()) {
    missing.emplace_back(
        "no save is on record: let the program save, by save_every_steps, save_every_s, a notice, or `reprieve drill`");
  }
  if (!known.step_mean_s) {
    missing.emplace_back("no step is on record between two saves: how many steps an interval has is not known");
  }
  if (known.question.node_mtbf_s && known.history.local_copies_s.empty()) {
    missing.emplace_back("no node-local copy is on record: set local_directory, and ask again");
  }
  if (!known.question.mtbf_s && known.history.failed == 0) {
    missing.push_back(fmt::format("no run failed in {}: how often they do is not known; give --mtbf if you know it",
                                  time_text(known.history.observed_s)));
  }
  return missing;
}

Json history_json(const Advice& advice) {
  const RunHistory& history = advice.history;
  return {{"runs", history.runs},
          {"finished", history.finished},
          {"preempted", history.preempted},
          {"failed", history.failed},
          {"observed_s", history.observed_s},
          {"saves", history.saves_s.size()},
          {"save_mean_s", advice.save_mean_s},
          {"save_upper_s", advice.save_upper_s},
          {"first_save_upper_s", advice.first_save_upper_s},
          {"state_bytes", history.state_bytes},
          {"restore_mean_s", mean(history.restores_s)},
          {"steps", history.steps},
          {"step_mean_s", or_null(advice.step_mean_s)},
          {"step_longest_s", history.longest_step_s},
          {"notice_to_exit_longest_s", longest(history.notices_s)}};
}

Json interval_json(const IntervalAdvice& interval) {
  return {{"mtbf_s", interval.mtbf_s},
          {"mtbf_source", name_of(interval.source, {"given", "measured", "at_least"})},
          {"interval_s", interval.daly_s},
          {"young_s", interval.young_s},
          {"daly_s", interval.daly_s},
          {"steps", or_null(interval.steps)},
          {"lost_fraction", interval.lost},
          {"present_s", or_null(interval.present_s)},
          {"present_lost_fraction", or_null(interval.present_lost)}};
}

Json two_levels_json(const TwoLevelAdvice& advice) {
  return {
      {"copy_s", advice.copy_s},           {"local_every_s", advice.local_s}, {"save_every_s", advice.checkpoint_s},
      {"node_mtbf_s", advice.node_mtbf_s}, {"lost_fraction", advice.lost},    {"memory_bytes", advice.memory_bytes}};
}

void print_history(std::ostream& out, const Advice& advice) {
  const RunHistory& history = advice.history;
  out << fmt::format("runs      {} in {}: {} finished, {} left after a notice, {} failed\n", history.runs,
                     time_text(history.observed_s), history.finished, history.preempted, history.failed);
  if (!history.saves_s.empty()) {
    const std::string first =
        history.first_saves_s.empty() ? "" : ", " + time_text(advice.first_save_upper_s) + " the first of a run";
    out << fmt::format("save      {} on average, {} at the slow end{}; {} of state\n", time_text(advice.save_mean_s),
                       time_text(advice.save_upper_s), first, core::size_text(history.state_bytes));
  }
  if (advice.step_mean_s) {
    out << fmt::format("step      {} on average{}\n", time_text(*advice.step_mean_s),
                       history.longest_step_s > 0 ? ", the longest " + time_text(history.longest_step_s) : "");
  }
  if (!history.notices_s.empty()) {
    out << fmt::format("notice    {} on record, at most {} to the exit\n", history.notices_s.size(),
                       time_text(longest(history.notices_s)));
  }
}

void print_interval(std::ostream& out, const IntervalAdvice& interval) {
  out << "\nAgainst failures without notice\n"
      << fmt::format("  save every {}{}   (Daly 2006; Young 1974: {})\n", time_text(interval.daly_s),
                     interval.steps ? fmt::format(", which is {:.0f} steps", *interval.steps) : std::string(),
                     time_text(interval.young_s));
  out << fmt::format("  \"save_every_s\": {:.3g}{}\n", interval.daly_s,
                     interval.steps ? fmt::format(" or \"save_every_steps\": {:.0f}", *interval.steps) : std::string());
  const char* const source = name_of(
      interval.source, {"as given", "as measured", "which is as often as it can be (95 %) when none came so far"});
  out << fmt::format("  with a failure every {}, {}: saves, restarts and lost work take {} of the time\n",
                     time_text(interval.mtbf_s), source, percent(interval.lost));
  if (interval.present_s) {
    out << fmt::format("  past runs saved every {}: {}\n", time_text(*interval.present_s),
                       percent(*interval.present_lost));
  }
}

void print_two_levels(std::ostream& out, const TwoLevelAdvice& advice) {
  out << "\nWith node-local copies, which survive all but the loss of a node\n"
      << fmt::format("  copy every {}, which takes {} each; save every {}, with a node lost every {}\n",
                     time_text(advice.local_s), time_text(advice.copy_s), time_text(advice.checkpoint_s),
                     time_text(advice.node_mtbf_s))
      << fmt::format("  \"local_every_s\": {:.3g}, \"save_every_s\": {:.3g}\n", advice.local_s, advice.checkpoint_s)
      << fmt::format(
             "  copies, saves, restarts and lost work take {} of the time; {} of memory, twice that with partners\n",
             percent(advice.lost), core::size_text(advice.memory_bytes));
}

void print_grace(std::ostream& out, const NoticeAdvice& notice, double grace_s) {
  const std::string grace = time_text(grace_s);
  if (notice.needed_s > grace_s) {
    out << fmt::format("  a grace of {} is TOO SHORT: shorten the steps, save less, or ask for more\n", grace);
  } else if (notice.with_margin_s > grace_s) {
    out << fmt::format("  a grace of {} is tight: there is no margin for a busy file system\n", grace);
  } else if (notice.two_saves_s > grace_s) {
    out << fmt::format("  a grace of {} is enough for one save: leave grace_period_s at 0; two take {}\n", grace,
                       time_text(notice.two_saves_s));
  } else {
    out << fmt::format(
        "  a grace of {} is enough for two saves: with \"grace_period_s\": {:.3g} the program continues in between\n",
        grace, grace_s);
  }
}

void print_notice(std::ostream& out, const Advice& advice) {
  const NoticeAdvice& notice = *advice.notice;
  out << "\nFor notices\n"
      << fmt::format("  from the notice to the end: {} ({} until all ranks agree, {} to save, {} for the launcher)\n",
                     time_text(notice.needed_s), time_text(notice.costs.wait_s), time_text(notice.costs.save_s),
                     time_text(notice.costs.leave_s))
      << fmt::format("  #SBATCH --signal=B:URG@{}    (half as much again, 1 s, and 30 s for Slurm's clock)\n",
                     notice.signal_lead_s);
  if (advice.question.grace_s) {
    print_grace(out, notice, *advice.question.grace_s);
  }
  if (advice.question.time_limit_s) {
    const double part = notice.signal_lead_s / *advice.question.time_limit_s;
    out << fmt::format("  of a job of {} that lead is {}{}\n", time_text(*advice.question.time_limit_s), percent(part),
                       part > 0.1 ? ": ask for longer jobs" : "");
  }
}

}  // namespace

bool Advice::grace_is_enough() const {
  return !question.grace_s || !notice || notice->with_margin_s <= *question.grace_s;
}

Advice advise(const RunHistory& history, const AdviceQuestion& question) {
  Advice advice;
  advice.question = question;
  advice.history = history;
  advice.save_mean_s = mean(history.blocked_s);
  advice.save_upper_s = upper_estimate(history.saves_s);
  advice.first_save_upper_s = upper_estimate(history.first_saves_s);
  if (history.steps > 0) {
    advice.step_mean_s = history.stepping_s / static_cast<double>(history.steps);
  }
  advice.too_little_data = too_little_text(history);
  advice.missing = find_missing(advice);
  if (!history.saves_s.empty()) {
    advice.interval = advise_interval(advice);
    advice.two_levels = advise_two_levels(advice);
    advice.notice = advise_notice(advice);
  }
  return advice;
}

Json to_json(const supervisor::GraceCosts& costs) {
  return {{"wait_s", costs.wait_s},
          {"save_s", costs.save_s},
          {"leave_s", costs.leave_s},
          {"needed_s", supervisor::grace_needed_s(costs)},
          {"with_margin_s", supervisor::grace_with_margin_s(costs)},
          {"signal_lead_s", supervisor::signal_lead_s(costs)}};
}

Json to_json(const Advice& advice) {
  Json grace;
  if (advice.question.grace_s && advice.notice) {
    grace = {{"grace_s", *advice.question.grace_s},
             {"one_save_fits", advice.notice->needed_s <= *advice.question.grace_s},
             {"with_margin", advice.grace_is_enough()},
             {"two_saves_fit", advice.notice->two_saves_s <= *advice.question.grace_s}};
  }
  Json notice;
  if (advice.notice) {
    notice = to_json(advice.notice->costs);
    notice["two_saves_s"] = advice.notice->two_saves_s;
  }
  return {{"too_little_data", advice.too_little_data.empty() ? Json() : Json(advice.too_little_data)},
          {"measured", history_json(advice)},
          {"checkpoint_interval", advice.interval ? interval_json(*advice.interval) : Json()},
          {"two_levels", advice.two_levels ? two_levels_json(*advice.two_levels) : Json()},
          {"notice", notice},
          {"grace", grace},
          {"missing", advice.missing}};
}

void print_text(std::ostream& out, const Advice& advice) {
  if (!advice.too_little_data.empty()) {
    out << advice.too_little_data << (advice.notice ? " What follows is a first guess.\n\n" : "\n\n");
  }
  print_history(out, advice);
  if (advice.interval) {
    print_interval(out, *advice.interval);
  }
  if (advice.two_levels) {
    print_two_levels(out, *advice.two_levels);
  }
  if (advice.notice) {
    print_notice(out, advice);
  }
  if (!advice.missing.empty()) {
    out << "\nNot known\n";
  }
  for (const std::string& text : advice.missing) {
    out << "  " << text << '\n';
  }
}

}  // namespace reprieve::tool

// reprieve advise [DIR...]

namespace reprieve::tool::advise_command {

namespace {

constexpr const char* kFooter =
    R"(Reads the event logs (events.jsonl) that past runs have left in their checkpoint directories, and says

  how often to save, against failures that come without notice: the interval that loses the least time, from the
  measured cost of a save and the mean time between failures (Young 1974, Daly 2006);
  how long before the end Slurm should give notice: --signal=B:URG@N, from the longest step and the slow saves;
  whether a queue's grace is long enough, for one save or for two (--grace).

The mean time between failures is that of --mtbf; else it is counted from runs that ended without a word; else it is the
shortest that fits with so much time without a failure. Notices are no failures: they lose nothing.

Examples:
  reprieve advise checkpoints
  reprieve advise checkpoints --mtbf 6h --grace 2min          what the site says of its nodes and its partition
  reprieve advise checkpoints --node-mtbf 30d                 how often to take node-local copies, and to save besides?
  reprieve advise run1 run2 run3 --time-limit 4h              of several runs of one program
  export REPRIEVE_TERMINATION_SAVE_EVERY_S=$(reprieve advise checkpoints --json | jq .checkpoint_interval.interval_s)

Exit codes: 0 done, 1 the grace of --grace is too short or tight,)";

struct Options {
  std::vector<std::filesystem::path> directories;
  AdviceQuestion question;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directories, "Checkpoint directories of one program");
  add_duration(command, "--mtbf", options.question.mtbf_s,
               "Mean time between failures of the whole job, all its nodes together")
      ->default_str("as measured");
  add_duration(command, "--node-mtbf", options.question.node_mtbf_s,
               "The same of losses that node-local copies do not survive: of a node, of power")
      ->default_str("not asked");
  add_duration(command, "--grace", options.question.grace_s, "Time from the notice to the kill, as the queue has it")
      ->default_str("not asked");
  add_duration(command, "--time-limit", options.question.time_limit_s, "Time limit of one job")
      ->default_str("not asked");
}

supervisor::RunHistory read_histories(const Options& options) {
  supervisor::RunHistory history;
  for (const auto& directory : options.directories) {
    require_directory(directory);
    const auto log = directory / manager::kEventLogName;
    if (!std::filesystem::exists(log)) {
      throw MissingError(fmt::format("{} has no event log ({}): the setting checkpoints.event_log writes one",
                                     directory.string(), manager::kEventLogName));
    }
    history.add(Timeline(core::read_events(log, core::kLongestLog)).history());
  }
  return history;
}

int run(const Options& options) {
  const Advice advice = advise(read_histories(options), options.question);
  print_answer(options.json, to_json(advice), [&] { print_text(std::cout, advice); });
  if (!advice.notice) {
    return kTrouble;
  }
  return advice.grace_is_enough() ? kGood : kBad;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "advise", "How often to save, and how much grace to ask for, from past runs", kFooter, define, run);
}

}  // namespace reprieve::tool::advise_command
