// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/replay_judgement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "supervisor/verdict.hpp"

namespace reprieve::supervisor {

namespace {

using Grade = Finding::Grade;
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
  std::copy_if(differences.begin(), differences.end(), std::back_inserter(found),
               [&](const StateDifference& each) { return each.kind == kind; });
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
  void add(Grade grade, const char* id, std::string text, std::string advice = "") {
    findings_.push_back({grade, id, std::move(text), std::move(advice)});
  }

  // False: there is nothing more to say.
  bool judge_undisturbed();
  bool judge_start();
  bool judge_resumed();
  void judge_end();
  void judge_differences(const Differences& values, const Differences& rounding);

  [[nodiscard]] bool on_other_ranks() const {
    return facts_.resumed && facts_.resumed->world_size != facts_.undisturbed.world_size;
  }
  /// "after 5 steps, at step 45"
  [[nodiscard]] std::string when() const;
  [[nodiscard]] std::string who() const;

  const ReplayFacts& facts_;
  std::vector<Finding> findings_;
};

std::string ReplayJudge::when() const {
  const std::uint64_t end = *facts_.undisturbed.stopped_at();
  std::string text = fmt::format("after {} steps, at step {}", end - facts_.from_step, end);
  if (end < facts_.to_step()) {
    text += fmt::format(" (the end of the program, before the {} steps that were asked for)", facts_.steps);
  } else if (end > facts_.to_step()) {
    text += fmt::format(" (the first after step {} at which the program can save)", facts_.to_step());
  }
  return text;
}

std::string ReplayJudge::who() const {
  return on_other_ranks() ? fmt::format("the run that resumed on {} ranks instead of {}", facts_.resumed->world_size,
                                        facts_.undisturbed.world_size)
                          : "the resumed run";
}

bool ReplayJudge::judge_undisturbed() {
  const auto stopped = facts_.undisturbed.stopped_at();
  if (!stopped) {
    add(Grade::unknown, "replay_undisturbed",
        fmt::format("the undisturbed run did not come to step {}: {}", facts_.to_step(), end_of(facts_.undisturbed)),
        "see what the program said above; --timeout if it needs longer");
    return false;
  }
  if (*stopped <= facts_.from_step) {
    add(Grade::unknown, "replay_too_long",
        fmt::format("the program ends at step {}: there is no step after the checkpoint of step {}", *stopped,
                    facts_.from_step),
        kSmallerReplay);
    return false;
  }
  return true;
}

bool ReplayJudge::judge_start() {
  if (!facts_.start) {
    add(Grade::unknown, "replay_undisturbed",
        fmt::format("the undisturbed run could not save at step {}, where the first start did", facts_.from_step),
        "send the notice at another moment: --after, --after-steps");
    return false;
  }
  if (!facts_.start->failure.empty()) {
    add(Grade::unknown, "replay_not_compared", "the replay could not be compared: " + facts_.start->failure);
    return false;
  }
  if (!facts_.start->different.empty()) {
    const StateDifference& first = facts_.start->different.front();
    add(Grade::unknown, "not_deterministic",
        fmt::format("two starts from the beginning differ at step {} already, before any restart: {} of {} variables; "
                    "{} differs {}. Whether a resumed run goes the same way cannot be told then",
                    facts_.from_step, facts_.start->different.size(), facts_.start->variables, first.variable,
                    first.what),
        kNotTheSameTwice);
    return false;
  }
  return true;
}

bool ReplayJudge::judge_resumed() {
  if (!facts_.resumed) {
    return false;
  }
  const ObservedStart& resumed = *facts_.resumed;
  if (facts_.ranks > 0 && resumed.opened && resumed.world_size != facts_.ranks) {
    add(Grade::unknown, "replay_ranks",
        fmt::format("the resumed run was to have {} ranks, and had {}", facts_.ranks, resumed.world_size),
        "write the number of ranks right behind the launcher, as in `mpirun -n 4 ./program`");
    return false;
  }
  const auto stopped = resumed.stopped_at();
  if (!stopped) {
    add(Grade::problem, "replay_failed",
        fmt::format("{} did not come to step {}, where the undisturbed one came: {}", who(), facts_.to_step(),
                    end_of(resumed)),
        on_other_ranks() ? "variables with one part for each rank need a function that shares them out anew" : "");
    return false;
  }
  if (resumed.restored_step != facts_.from_step) {
    add(Grade::problem, "replay_failed",
        fmt::format("{} did not begin at the checkpoint of step {}", who(), facts_.from_step));
    return false;
  }
  if (*stopped != *facts_.undisturbed.stopped_at()) {
    add(Grade::unknown, "replay_other_steps",
        fmt::format("the undisturbed run stopped at step {}, {} at step {}: nothing can be compared",
                    *facts_.undisturbed.stopped_at(), who(), *stopped),
        kSmallerReplay);
    return false;
  }
  return true;
}

void ReplayJudge::judge_end() {
  if (!facts_.end) {
    add(Grade::unknown, "replay_too_long",
        fmt::format("the program ends at step {}, and has no checkpoint of its end", *facts_.undisturbed.stopped_at()),
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

void ReplayJudge::judge_differences(const Differences& values, const Differences& rounding) {
  const StateComparison& end = *facts_.end;
  if (!values.empty()) {
    add(Grade::problem, "replay_differs",
        fmt::format("{} goes another way: {}, variable {} differs {}; {} of {} variables differ: {}", who(), when(),
                    values.front().variable, values.front().what, values.size(), end.variables, names_of(values)),
        (on_other_ranks() ? "a generator for each rank does that by design; else " : "") + std::string(kNotRegistered));
  } else if (!rounding.empty()) {
    const auto largest = std::max_element(rounding.begin(), rounding.end(), [](const auto& a, const auto& b) {
      return a.relative_error < b.relative_error;
    });
    add(Grade::warning, "replay_rounding",
        fmt::format(
            "{} differs by rounding only, {}: {} of {} variables, {} most ({:.2g} of the largest value that differs)",
            who(), when(), rounding.size(), end.variables, largest->variable, largest->relative_error),
        "sums in another order do that; look at it if you do not expect it");
  } else {
    add(Grade::good, "replay",
        fmt::format("{} goes the way of an undisturbed one: {}, {} of {} variables are equal bit by bit{} ({} bytes)",
                    who(), when(), end.variables - end.different.size() - end.ignored, end.variables, ignored_text(end),
                    end.bytes));
  }
}

}  // namespace

std::vector<Finding> judge_replay(const ReplayFacts& facts) { return ReplayJudge(facts).judge(); }

std::string ignored_text(const StateComparison& comparison) {
  return comparison.ignored > 0 ? fmt::format(", {} ignored", comparison.ignored) : "";
}

std::string names_of(const std::vector<StateDifference>& differences) {
  std::vector<std::string> names(differences.size());
  std::transform(differences.begin(), differences.end(), names.begin(),
                 [](const StateDifference& each) { return each.variable; });
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace reprieve::supervisor
