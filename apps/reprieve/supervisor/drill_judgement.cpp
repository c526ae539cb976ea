// SPDX-License-Identifier: BSD-3-Clause
// What the facts of a drill mean.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/log.hpp"
#include "supervisor/drill.hpp"
#include "supervisor/launcher.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

namespace {

using Grade = Finding::Grade;

constexpr const char* kUseRun =
    "start it under `reprieve run`, which keeps the platform's signals from the launcher and notifies the ranks";
constexpr const char* kSeeAbove = "see what the program said above; --timeout if it needs longer";
constexpr const char* kEarlierNotice = "let it work longer, or send the notice earlier: --after, --after-steps";
constexpr const char* kRepairFirst = "repair this first; what the program said stands above";
constexpr int kSignalled = 128;

using core::seconds_text;

/// "3, 4 and 7"
std::string list_of(const std::set<int>& numbers) { return fmt::format("{}", fmt::join(numbers, ", ")); }

/// ", 2 ignored", or nothing.
std::string ignored_text(const StateComparison& comparison) {
  return comparison.ignored > 0 ? fmt::format(", {} ignored", comparison.ignored) : "";
}

std::string names_of(const std::vector<StateDifference>& differences) {
  return tool::joined(differences, &StateDifference::variable);
}

using Differences = std::vector<StateDifference>;

constexpr const char* kSmallerReplay =
    "choose a smaller --replay or an earlier --after, or give the program more steps to make";
constexpr const char* kNotTheSameTwice =
    "give generators a fixed seed, and take sums in a fixed order (no atomics, no dynamic schedules), at least for the "
    "drill; variables that may differ, such as a time of day, with --ignore";
constexpr const char* kNotRegistered =
    "something that the program needs is not registered, or is restored wrongly: look for ghost layers that are "
    "exchanged before the save and not after the restore, generators, counters, and callbacks that run after the "
    "restore. --replay 1 tells which variable is the first to differ";

Differences of_kind(const Differences& differences, StateDifference::Kind kind) {
  Differences found;
  std::ranges::copy_if(
      differences, std::back_inserter(found), [&](auto each) { return each == kind; }, &StateDifference::kind);
  return found;
}

/// What a start did instead of coming to its last step.
std::string end_of(const ObservedStart& start) {
  if (!start.error.empty()) {
    return "it failed: " + start.error;
  }
  if (start.timed_out) {
    return "it did not come there in time";
  }
  if (!start.in_scratch) {
    return "it did not use the drill's directory";
  }
  return start.code ? fmt::format("the command ended with {}", code_text(*start.code)) : "it did not end";
}

class ReplayJudge {
 public:
  explicit ReplayJudge(const ReplayFacts& facts) : facts_(facts) {}

  std::vector<Finding> judge() {
    if (judge_undisturbed() && judge_start() && judge_resumed()) {
      judge_end();
    }
    return std::move(findings_);
  }

 private:
  /// @return false, as a judgement that ends here
  bool add(Grade grade, const char* id, std::string text, std::string advice = "") {
    findings_.push_back({grade, id, std::move(text), std::move(advice)});
    return false;
  }

  [[nodiscard]] bool on_other_ranks() const {
    return facts_.resumed && facts_.resumed->world_size != facts_.undisturbed.world_size;
  }

  /// "after 5 steps, at step 45"
  std::string when() const {
    const std::uint64_t end = *facts_.undisturbed.stopped_at();
    std::string text = fmt::format("after {}, at step {}", core::count_text(end - facts_.from_step, "step"), end);
    if (end < facts_.to_step()) {
      text += fmt::format(" (the end of the program, before the {} asked for)", core::count_text(facts_.steps, "step"));
    } else if (end > facts_.to_step()) {
      text += fmt::format(" (the first after step {} at which the program can save)", facts_.to_step());
    }
    return text;
  }

  std::string who() const {
    return on_other_ranks()
               ? fmt::format("the run that resumed on {} instead of {}",
                             core::count_text(facts_.resumed->world_size, "rank"), facts_.undisturbed.world_size)
               : "the resumed run";
  }

  // False: there is nothing more to say.
  bool judge_undisturbed() {
    const auto stopped = facts_.undisturbed.stopped_at();
    if (!stopped) {
      return add(
          Grade::unknown, "replay_undisturbed",
          fmt::format("the undisturbed run did not come to step {}: {}", facts_.to_step(), end_of(facts_.undisturbed)),
          kSeeAbove);
    }
    if (*stopped <= facts_.from_step) {
      return add(Grade::unknown, "replay_too_long",
                 fmt::format("the program ends at step {}: there is no step after the checkpoint of step {}", *stopped,
                             facts_.from_step),
                 kSmallerReplay);
    }
    return true;
  }

  bool judge_start() {
    if (!facts_.start) {
      return add(
          Grade::unknown, "replay_undisturbed",
          fmt::format("the undisturbed run could not save at step {}, where the first start did", facts_.from_step),
          "send the notice at another moment: --after, --after-steps");
    }
    if (!facts_.start->failure.empty()) {
      return add(Grade::unknown, "replay_not_compared", "the replay could not be compared: " + facts_.start->failure);
    }
    if (!facts_.start->different.empty()) {
      const StateDifference& first = facts_.start->different.front();
      return add(Grade::unknown, "not_deterministic",
                 fmt::format("two starts from the beginning differ at step {} already, before any restart: {} of {}; "
                             "{} differs {}. Whether a resumed run goes the same way cannot be known then",
                             facts_.from_step, facts_.start->different.size(),
                             core::count_text(facts_.start->variables, "variable"), first.variable, first.what),
                 kNotTheSameTwice);
    }
    return true;
  }

  bool judge_resumed() {
    if (!facts_.resumed) {
      return false;
    }
    const ObservedStart& resumed = *facts_.resumed;
    if (facts_.ranks > 0 && resumed.opened && resumed.world_size != facts_.ranks) {
      return add(Grade::unknown, "replay_ranks",
                 fmt::format("the resumed run was to have {}, and had {}", core::count_text(facts_.ranks, "rank"),
                             resumed.world_size),
                 "write the number of ranks right behind the launcher, as in `mpirun -n 4 ./program`");
    }
    const auto stopped = resumed.stopped_at();
    if (!stopped) {
      return add(
          Grade::problem, "replay_failed",
          fmt::format("{} did not come to step {}, where the undisturbed one came: {}", who(), facts_.to_step(),
                      end_of(resumed)),
          on_other_ranks() ? "variables with one part for each rank need a function that shares them out again" : "");
    }
    if (resumed.restored_step != facts_.from_step) {
      return add(Grade::problem, "replay_failed",
                 fmt::format("{} did not begin at the checkpoint of step {}", who(), facts_.from_step));
    }
    if (*stopped != *facts_.undisturbed.stopped_at()) {
      return add(Grade::unknown, "replay_other_steps",
                 fmt::format("the undisturbed run stopped at step {}, {} at step {}: nothing can be compared",
                             *facts_.undisturbed.stopped_at(), who(), *stopped),
                 kSmallerReplay);
    }
    return true;
  }

  void judge_end() {
    if (!facts_.end) {
      add(Grade::unknown, "replay_too_long",
          fmt::format("the program ends at step {}, and has no checkpoint of its end",
                      *facts_.undisturbed.stopped_at()),
          kSmallerReplay);
      return;
    }
    if (!facts_.end->failure.empty()) {
      add(Grade::unknown, "replay_not_compared", "the replay could not be compared: " + facts_.end->failure);
      return;
    }
    Differences values = of_kind(facts_.end->different, StateDifference::Kind::values);
    Differences rounding = of_kind(facts_.end->different, StateDifference::Kind::rounding);
    if (!on_other_ranks()) {
      values.insert(values.end(), rounding.begin(), rounding.end());
      rounding.clear();
    }
    judge_differences(values, rounding);
    const Differences others = of_kind(facts_.end->different, StateDifference::Kind::other_ranks);
    if (!others.empty()) {
      add(Grade::warning, "replay_not_comparable",
          fmt::format("not compared, since they have one part for each rank: {}", names_of(others)));
    }
  }

  void judge_differences(const Differences& values, const Differences& rounding) {
    const StateComparison& end = *facts_.end;
    if (!values.empty()) {
      add(Grade::problem, "replay_differs",
          fmt::format("{} goes another way: {}, variable {} differs {}; {} of {} differ: {}", who(), when(),
                      values.front().variable, values.front().what, values.size(),
                      core::count_text(end.variables, "variable"), names_of(values)),
          (on_other_ranks() ? "a generator for each rank does that by design; else " : "") +
              std::string(kNotRegistered));
    } else if (!rounding.empty()) {
      const auto largest = std::ranges::max_element(rounding, {}, &StateDifference::relative_error);
      add(Grade::warning, "replay_rounding",
          fmt::format("{} differs by rounding only, {}: {} of {}, {} most ({:.2g} of the largest value that differs)",
                      who(), when(), rounding.size(), core::count_text(end.variables, "variable"), largest->variable,
                      largest->relative_error),
          "sums in another order do that; look at it if you do not expect it");
    } else {
      add(Grade::good, "replay",
          fmt::format("{} goes the way of an undisturbed one: {}, {} of {} equal bit by bit{} ({})", who(), when(),
                      end.variables - end.different.size() - end.ignored, core::count_text(end.variables, "variable"),
                      ignored_text(end), core::count_text(end.bytes, "byte")));
    }
  }

  const ReplayFacts& facts_;
  std::vector<Finding> findings_;
};

std::vector<Finding> judge_outputs(const EndFacts& facts) {
  if (!facts.resumed.finished_at) {
    return {{Grade::problem, "no_end", "the resumed run did not come to its end: " + end_of(facts.resumed), kSeeAbove}};
  }
  if (!facts.undisturbed.finished_at) {
    return {{Grade::unknown, "no_end", "the undisturbed run did not come to its end: " + end_of(facts.undisturbed),
             kSeeAbove}};
  }
  std::vector<Finding> findings;
  for (const EndFacts::File& file : facts.files) {
    if (!file.difference.empty()) {
      findings.push_back({Grade::problem, "output_differs", file.path + ": " + file.difference,
                          "register what the program gathers for this file, and cut the file back to the restored "
                          "step at a start; a time of day in it differs by itself"});
    }
  }
  if (findings.empty()) {
    findings.push_back({Grade::good, "output",
                        fmt::format("the resumed run ended at step {}, and its output is that of an undisturbed run "
                                    "({} compared)",
                                    *facts.resumed.finished_at, core::count_text(facts.files.size(), "file"))});
  }
  return findings;
}

/// "counts (8192 bytes), 2 heap blocks of 80008 bytes each", the first ones.
std::string list_of(const std::vector<events::MemoryChanges::Object>& objects) {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> texts;
  for (auto each = objects.begin(); each != objects.end();) {
    const auto same = [&](const auto& other) { return other.name == each->name && other.bytes == each->bytes; };
    const auto next = std::find_if_not(each, objects.end(), same);
    const auto count = static_cast<std::uint64_t>(next - each);
    texts.push_back(!each->name.empty() ? fmt::format("{} ({} bytes)", each->name, each->bytes)
                    : count == 1        ? fmt::format("a heap block of {} bytes", each->bytes)
                                        : fmt::format("{} heap blocks of {} bytes each", count, each->bytes));
    each = next;
  }
  const std::size_t shown = std::min(kMost, texts.size());
  const std::string more = texts.size() > shown ? fmt::format(", and {} more", texts.size() - shown) : "";
  return fmt::format("{}{}", fmt::join(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(shown), ", "), more);
}

std::vector<Finding> judge_memory(const MemoryFacts& facts) {
  if (!facts.changes) {
    return {{Grade::unknown, "no_memory", "no look at the memory: the run made too few steps: " + end_of(facts.start),
             "let the program make at least 6 steps"}};
  }
  const events::MemoryChanges& changes = *facts.changes;
  std::vector<Finding> findings;
  if (!changes.uncovered.empty()) {
    findings.push_back({Grade::warning, "uncovered_memory",
                        fmt::format("{} steps changed memory of rank 0 in which no registered variable lies: {}",
                                    changes.steps, list_of(changes.uncovered)),
                        "register what later steps or the output need; buffers that each step fills from the beginning "
                        "need it not"});
  }
  if (!changes.unchanged.empty()) {
    findings.push_back(
        {Grade::warning, "unchanged_variables",
         fmt::format("{} steps changed nothing in {}", changes.steps, fmt::join(changes.unchanged, ", ")),
         "where the program swaps or moves its memory, register the address of the pointer"});
  }
  if (findings.empty()) {
    findings.push_back({Grade::good, "memory",
                        fmt::format("{} steps changed registered variables alone, of {} blocks and globals of rank 0",
                                    changes.steps, changes.objects)});
  }
  return findings;
}

std::vector<Finding> judge_death(const DeathFacts& facts) {
  if (!facts.rank) {
    return {{Grade::unknown, "no_death", "no rank was killed: no two ranks worked on this host: " + end_of(facts.start),
             "drill a command that starts two ranks or more on this host"}};
  }
  const std::string killed = fmt::format("rank {} was killed at step {}: ", *facts.rank, facts.last_step);
  if (!facts.recovery_s) {
    return {{Grade::warning, "job_ends_at_death", killed + "the others did not continue: " + end_of(facts.start),
             "with run_resilient and `mpirun --with-ft ulfm` they continue in place; `reprieve run --restarts` starts "
             "the job again"}};
  }
  return {{Grade::good, "recovered_in_place",
           fmt::format("{}{} continued in place, {} later, at step {}", killed,
                       core::count_text(facts.start.world_size, "rank"), seconds_text(*facts.recovery_s),
                       facts.start.begins_at.value_or(0))}};
}

class Judge {
 public:
  explicit Judge(const DrillFacts& facts) : facts_(facts) {}

  std::vector<Finding> judge() {
    if (facts_.interrupted) {
      add(Grade::unknown, "interrupted", "the drill was interrupted");
    } else if (!facts_.notice) {
      judge_start();
    } else if (!first_.opened) {
      judge_without_library();
    } else {
      judge_notice();
    }
    take(facts_.asked.replay_steps > 0, facts_.replay, judge_replay, "no_replay",
         "there was no replay: it begins where a restart resumes with exactly the state that was saved");
    take(facts_.asked.to_end, facts_.to_end, judge_outputs, "no_end",
         "no output was compared: that needs a restart with exactly the state that was saved");
    take(facts_.asked.watch_memory, facts_.memory, judge_memory, "no_memory",
         "the memory was not looked at: that needs a restart with exactly the state that was saved");
    take(facts_.asked.kill_rank, facts_.death, judge_death, "no_death",
         "no rank was killed: that needs a restart with exactly the state that was saved");
    return std::move(findings_);
  }

 private:
  void add(Grade grade, const char* id, std::string text, std::string advice = "") {
    findings_.push_back({grade, id, std::move(text), std::move(advice)});
  }

  /// What further runs have shown. @param missing  said where there were none, unless the reason is reported already
  template <class Facts>
  void take(bool is_asked, const std::optional<Facts>& facts, std::vector<Finding> (*judged)(const Facts&),
            const char* id, const char* missing) {
    if (facts_.interrupted || !is_asked) {
      return;
    }
    if (facts) {
      std::ranges::copy(judged(*facts), std::back_inserter(findings_));
    } else if (verdict_of(findings_) == DrillVerdict::would_survive) {
      add(Grade::unknown, id, missing);
    }
  }

  void judge_start() {
    if (!first_.in_scratch) {
      add(Grade::unknown, "real_directory",
          fmt::format("the program did not use the drill's directory inside {}: nothing was sent to it, to keep your "
                      "checkpoints safe",
                      first_.directory.string()),
          "build it with the version of the library that this tool belongs to");
    } else if (!first_.error.empty()) {
      add(Grade::problem, "start_failed", "the program does not start: " + first_.error, kRepairFirst);
    } else if (first_.code) {
      add(Grade::unknown, "ended_early",
          fmt::format("the command ended with {} before the notice was sent", code_text(*first_.code)),
          *first_.code == 0 ? kEarlierNotice : kRepairFirst);
    } else if (!first_.ready) {
      add(Grade::problem, "not_ready", "the program has opened its checkpoint directory, but watches for no notice",
          "make a PreemptionCheckpointHandler, and call its run() for every step; if the restore takes long, "
          "--timeout");
    } else {
      add(Grade::unknown, "no_steps", "the program did not come to the step at which the notice was to be sent",
          "lower --after-steps, or raise --timeout");
    }
  }

  void judge_without_library() {
    const std::string seen =
        fmt::format("no rank opened a checkpoint directory within {}",
                    core::seconds_text(std::chrono::duration<double>(facts_.asked.ready_timeout).count()));
    const std::string advice =
        "make a PreemptionCheckpointHandler and call its run() for every step. If the program has one: raise "
        "--ready-timeout if it takes longer to start, and see that the ranks get REPRIEVE_RUN_DIR";
    const int code = first_.code.value_or(0);
    if (notice_.killed_s) {
      add(Grade::problem, "no_handler",
          fmt::format("{}, and {} changed nothing: the program continued until it was killed", seen,
                      facts_.signal_name()),
          advice);
    } else if (code > kSignalled || !notice_.ranks_survive_signal) {
      add(Grade::problem, "no_handler",
          fmt::format("{}, and the program has no handler for {}: the command ended with {} after {}", seen,
                      facts_.signal_name(), code_text(code), seconds_text(notice_.ended_s.value_or(0))),
          advice);
    } else {
      add(Grade::unknown, "no_handler",
          fmt::format("{}; the command ended with {}, {} after {}: whether it saved, only you can see", seen,
                      code_text(code), seconds_text(notice_.ended_s.value_or(0)), facts_.signal_name()),
          advice);
    }
  }

  void judge_notice() {
    judge_arrival();
    if (notice_.saved_s) {
      judge_save();
      judge_exit_code();
      judge_grace();
      judge_restart();
    } else {
      judge_missing_save();
    }
  }

  void judge_arrival() {
    if (notice_.sent.empty()) {
      add(Grade::problem, "no_notice_sent",
          facts_.asked.way == NoticeWay::slurm_grace
              ? "at the start of the grace time Slurm signals the tasks of srun alone, and there are none: the notice "
                "reaches nobody before its end"
              : "there is no process to send the notice to",
          facts_.asked.way == NoticeWay::slurm_grace
              ? std::string("#SBATCH --signal=B:URG@N, SlurmctldParameters=preempt_send_user_signal, and ") + kUseRun
              : std::string());
      return;
    }
    if (notice_.arrivals.empty()) {
      return;
    }
    std::set<int> ranks;
    double last = 0;
    for (const Arrival& arrival : notice_.arrivals) {
      ranks.insert(arrival.rank);
      last = std::max(last, arrival.seconds);
    }
    const bool all = std::cmp_equal(ranks.size(), first_.world_size);
    add(Grade::good, "arrived",
        fmt::format("the notice arrived at {} of {}{}, within {} ({})", ranks.size(),
                    core::count_text(first_.world_size, "rank"),
                    all ? "" : fmt::format(" ({}; one is enough)", list_of(ranks)), seconds_text(last),
                    notice_.arrivals.front().source));
  }

  void judge_save() {
    add(Grade::good, "saved",
        fmt::format("step {} was saved {} after the notice; the save itself took {}", notice_.saved_step.value_or(0),
                    seconds_text(*notice_.saved_s), seconds_text(notice_.save_s)));
    judge_killed_ranks();
  }

  /// The state is safe, but something ended the ranks before they left by themselves.
  void judge_killed_ranks() {
    if (notice_.left_s || (notice_.ended_s && !notice_.killed_s)) {
      return;
    }
    const std::string killed = seconds_text(notice_.killed_s.value_or(facts_.grace_s()));
    if (notice_.trained_on_s) {
      add(Grade::problem, "grace_period",
          fmt::format(
              "after that save the program continued, counting on {} more, and was killed {} after the notice: what "
              "it did in between is lost, and the command ends without the restart code",
              seconds_text(*notice_.trained_on_s), killed),
          "set termination.grace_period_s to the platform's grace or less; 0: save once, and leave");
      return;
    }
    add(Grade::warning, "did_not_leave",
        fmt::format("the state was saved, but the command had not ended {} after the notice, and was killed", killed),
        notice_.blocked_ranks.empty() ? "see what the program does after its last save"
                                      : "ranks hang in a write to their output, which nobody reads: send it to a file");
  }

  std::string lost_work() const {
    return notice_.older_step ? fmt::format("a restart would go back to the checkpoint of step {}", *notice_.older_step)
                              : std::string("there is no checkpoint, and a restart would start from the beginning");
  }

  void judge_missing_save() {
    if (!notice_.save_error.empty()) {
      add(Grade::problem, "save_failed", fmt::format("the save failed: {}; {}", notice_.save_error, lost_work()),
          "remove the cause that the error names; `df` and `df -i` tell whether the file system is full");
    } else if (!notice_.blocked_ranks.empty()) {
      add(Grade::problem, "output_blocked",
          fmt::format("rank {} hung in a write to its output, which nobody read; {}", list_of(notice_.blocked_ranks),
                      lost_work()),
          "send the output to a file, not into a pipe whose reader may stop; mpirun stops reading once it got SIGTERM: "
          "there, " +
              std::string(kUseRun));
    } else if (notice_.killed_s && notice_.agreed_s) {
      add(Grade::problem, "save_too_slow",
          fmt::format("the ranks agreed after {}, but the save was not over when the grace of {} was; {}",
                      seconds_text(*notice_.agreed_s), seconds_text(facts_.grace_s()), lost_work()),
          "ask for a longer grace, or save less");
    } else if (notice_.killed_s && notice_.ranks_survive_signal) {
      add(Grade::problem, "step_too_long",
          fmt::format("no step ended within the grace of {}{}; {}", seconds_text(facts_.grace_s()),
                      notice_.longest_step_s > 0
                          ? fmt::format(" (the longest before took {})", seconds_text(notice_.longest_step_s))
                          : std::string(),
                      lost_work()),
          "make the steps shorter, put save_checkpoint_if_preempted() between their parts, or ask for a longer grace");
    } else if (notice_.killed_s) {
      add(Grade::problem, "not_watched",
          fmt::format("the notice had no effect until the grace of {} was over; {}", seconds_text(facts_.grace_s()),
                      lost_work()),
          notice_.sent.empty()
              ? ""
              : fmt::format("add {} to termination.signals, or send another signal", facts_.signal_name()));
    } else {
      judge_early_end();
    }
  }

  /// Everything ended within the grace, but nothing was saved.
  void judge_early_end() {
    const std::string code = code_text(first_.code.value_or(0));
    if (!first_.error.empty()) {
      add(Grade::problem, "error", fmt::format("the ranks ended with an error: {}; {}", first_.error, lost_work()));
    } else if (first_.code == 0) {
      add(Grade::unknown, "finished", "the program came to its end before it could save", kEarlierNotice);
    } else if (notice_.command_died_first) {
      add(Grade::problem, "script_died",
          fmt::format("the command itself was ended by the notice after {} ({}), while its ranks worked on and got "
                      "nothing: a platform ends them with it; {}",
                      seconds_text(notice_.ended_s.value_or(0)), code, lost_work()),
          std::string("a shell without a trap dies of the signal: write `exec` before the launcher, or ") + kUseRun);
    } else {
      const double end = notice_.rank_ends.empty() ? notice_.ended_s.value_or(0) : notice_.rank_ends.begin()->second;
      add(Grade::problem, "killed_early",
          fmt::format("the ranks were ended {} after the notice, before a save, although the grace is {}; the command "
                      "ended with {}; {}",
                      seconds_text(end), seconds_text(facts_.grace_s()), code, lost_work()),
          fmt::format("a launcher that gets SIGTERM kills its ranks ({}), and so does a script that stops it: {}",
                      kill_times(), kUseRun));
    }
  }

  void judge_exit_code() {
    const int code = first_.code.value_or(0);
    if (notice_.killed_s || notice_.restart_code == 0) {
      return;
    }
    if (code == notice_.restart_code) {
      add(Grade::good, "exit_code", fmt::format("the command ended with the restart code, {}", code));
      return;
    }
    std::string advice =
        "whoever starts jobs again by their exit code does not start this one: end the script with `exec` before the "
        "launcher or with `exit $?` right after it, and write `set -o pipefail` where its output goes through a pipe";
    if (code == 1 && facts_.asked.way != NoticeWay::command && facts_.asked.way != NoticeWay::rank) {
      advice = std::string("mpirun returns 1 once it got SIGTERM, whatever its ranks return: ") + kUseRun;
    }
    add(Grade::problem, "exit_code",
        fmt::format("the ranks left with code {}, but the command ended with {}", notice_.restart_code,
                    code_text(code)),
        std::move(advice));
  }

  void judge_grace() {
    const auto costs = grace_costs(facts_);
    if (!costs || notice_.sent.empty() || notice_.killed_s) {
      return;
    }
    const double needed = grace_needed_s(*costs);
    const double with_margin = grace_with_margin_s(*costs);
    const std::string sum =
        fmt::format("needed at worst: {} ({} until all ranks agree, {} to save, {} to leave); with a margin {}",
                    seconds_text(needed), seconds_text(costs->wait_s), seconds_text(costs->save_s),
                    seconds_text(costs->leave_s), seconds_text(with_margin));
    if (needed > facts_.grace_s()) {
      add(Grade::problem, "grace_too_short",
          fmt::format("it fitted this time, but the grace is {}: {}", seconds_text(facts_.grace_s()), sum),
          "make the steps shorter, save less, or ask for a longer grace");
    } else if (with_margin > facts_.grace_s()) {
      add(Grade::warning, "grace_is_tight",
          fmt::format("the grace of {} is tight: {}", seconds_text(facts_.grace_s()), sum), "ask for a longer grace");
    } else {
      add(Grade::good, "grace", fmt::format("the grace of {} is enough: {}", seconds_text(facts_.grace_s()), sum));
    }
  }

  void judge_restart() {
    if (!facts_.second) {
      add(Grade::unknown, "no_restart", "there was no second start");
      return;
    }
    if (!second_.error.empty()) {
      add(Grade::problem, "restart_failed", "the second start failed: " + second_.error,
          "register the same variables, of the same types and shapes, in every start");
    } else if (!second_.opened || !second_.ready) {
      add(Grade::problem, "restart_failed",
          second_.code
              ? fmt::format("the second start ended with {} before the ranks were ready", code_text(*second_.code))
              : "the second start did not come to its first step in time",
          kSeeAbove);
    } else {
      judge_restored();
    }
  }

  void judge_restored() {
    const std::uint64_t saved = notice_.saved_step.value_or(0);
    if (second_.directory != first_.directory) {
      add(Grade::problem, "directory_changed",
          fmt::format("the restart starts from the beginning: the first start saved in {}, the second looks in {}",
                      first_.directory.string(), second_.directory.string()),
          "give every start of the job the same directory: no date, process or counter in its name");
    } else if (!second_.restored_step) {
      add(Grade::problem, "begins_anew", "the restart starts from the beginning, although the checkpoint is there",
          "the program, or its script, may empty its directory at the start, or use another prefix each time");
    } else if (*second_.restored_step != saved) {
      add(Grade::problem, "another_step",
          fmt::format("step {} was saved, but the restart resumes at step {}", saved, *second_.restored_step));
    } else {
      add(Grade::good, "resumed",
          fmt::format("the restart resumed at step {}, restored in {}", saved, seconds_text(second_.restore_s)));
      if (!second_.saves.empty()) {
        add(Grade::good, "first_save",
            fmt::format("the first save after the restart took {}: a notice that comes early waits for it",
                        seconds_text(second_.saves.front().seconds)));
      }
      judge_state();
    }
  }

  void judge_state() {
    if (!facts_.state || !facts_.state->failure.empty()) {
      add(Grade::warning, "state_not_compared",
          "the state after the restore was not compared: " +
              (facts_.state ? facts_.state->failure : std::string("there is no checkpoint of it")));
    } else if (facts_.state->equal()) {
      add(Grade::good, "state",
          fmt::format("the state before the first step is bit by bit the one that was saved: {}{}, {}",
                      core::count_text(facts_.state->variables, "variable"), ignored_text(*facts_.state),
                      core::count_text(facts_.state->bytes, "byte")));
    } else {
      add(Grade::problem, "state_differs",
          fmt::format("{} of {} not as saved when the steps continue: {}", facts_.state->different.size(),
                      core::count_text(facts_.state->variables, "variable"), names_of(facts_.state->different)),
          "the constructor of the handler restores: initialise the state before it, not after. Name variables that are "
          "meant to change with --ignore");
    }
  }

  const DrillFacts& facts_;
  const ObservedStart& first_ = facts_.first;
  const ObservedNotice notice_ = facts_.notice.value_or(ObservedNotice());
  const ObservedStart second_ = facts_.second.value_or(ObservedStart());
  std::vector<Finding> findings_;
};

}  // namespace

std::optional<GraceCosts> grace_costs(const DrillFacts& facts) {
  if (!facts.notice || !facts.notice->saved_s) {
    return std::nullopt;
  }
  const ObservedNotice& notice = *facts.notice;
  const double end = notice.killed_s ? *notice.saved_s : notice.ended_s.value_or(*notice.saved_s);
  const double wait = std::max(notice.longest_step_s, notice.agreed_s.value_or(0));
  // A notice may come before any other save of a start: the first one must fit into the grace too.
  const bool saved_again = facts.second && !facts.second->saves.empty();
  const double first_save = saved_again ? facts.second->saves.front().seconds : 0.0;
  return GraceCosts{wait, std::max(notice.save_s, first_save), std::max(0.0, end - *notice.saved_s)};
}

std::vector<Finding> judge_replay(const ReplayFacts& facts) { return ReplayJudge(facts).judge(); }

std::vector<Finding> judge_drill(const DrillFacts& facts) { return Judge(facts).judge(); }

DrillVerdict verdict_of(const std::vector<Finding>& findings) {
  const auto has = [&](Grade grade) { return std::ranges::find(findings, grade, &Finding::grade) != findings.end(); };
  if (has(Grade::problem)) {
    return DrillVerdict::would_lose_work;
  }
  return has(Grade::unknown) || findings.empty() ? DrillVerdict::unknown : DrillVerdict::would_survive;
}

}  // namespace reprieve::supervisor
