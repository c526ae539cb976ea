// SPDX-License-Identifier: BSD-3-Clause
// A preempted job comes back and ends as if nothing had happened, whatever the launcher and the way it is told.
//
// Every cell of the matrix is a job of its own; all jobs of a suite run side by side in one Slurm. As root Slurm kills
// by control group, otherwise by parent process: these differ in which processes get its signals.

#include <gtest/gtest.h>

#include "slurm/stage.hpp"

namespace reprieve::test {
namespace {

constexpr int kRanksOfOneNode = 2;

enum class Cause {
  grace,           ///< a higher partition's job, with a grace period
  grace_at_start,  ///< the same while the batch script has not come to `reprieve run`
  no_grace,        ///< a higher partition's job, without a grace period
  time_limit,      ///< `--signal` before the end of the job's time
  cancel,          ///< scancel; the job must not come back
  requeue,         ///< scontrol requeue
  user_signal,     ///< scancel --signal=USR1 --batch
  at_start,        ///< the same before the ranks are ready
};

struct Cell {
  std::string launcher;
  Cause cause;
  int times;  ///< preemptions in a row
};

std::string name_of(const Cell& cell) {
  const std::map<Cause, std::string> names{{Cause::grace, "grace"},        {Cause::grace_at_start, "grace_at_start"},
                                           {Cause::no_grace, "no_grace"},  {Cause::time_limit, "time_limit"},
                                           {Cause::cancel, "cancel"},      {Cause::requeue, "requeue"},
                                           {Cause::user_signal, "signal"}, {Cause::at_start, "signal_at_start"}};
  return cell.launcher + "_" + names.at(cell.cause) + "_" + std::to_string(cell.times);
}

Training training_of(const Cell& cell) { return {.slow_starts = cell.times}; }

JobPlan plan_of(const Cell& cell) {
  JobPlan plan{name_of(cell), script_of_tree(cell.launcher + ".sbatch"), training_of(cell)};
  plan.arguments = {"--ntasks-per-node=" + std::to_string(kRanksOfOneNode),
                    cell.cause == Cause::no_grace ? "--partition=low0" : "--partition=low"};
  if (cell.cause == Cause::time_limit) {
    // Slurm looks every 30 s, and ahead by as much: the signal comes within 30 s of the start of a run of a minute, the
    // shortest that there is. The supervisor itself would speak up later.
    plan.arguments.insert(plan.arguments.end(), {"--time=1", "--signal=B:URG@30"});
    plan.script = with_run_options(plan.script, "--lead 20s");
  }
  if (cell.cause == Cause::grace_at_start) {
    plan.script = with_slow_modules(plan.script);
  }
  return plan;
}

/// Sees to it that the job is preempted, for the time after @p before others.
void preempt(Stage& stage, TrainingJob& job, Cause cause, int before) {
  switch (cause) {
    case Cause::grace_at_start:
      job.wait_until_running(before);
      break;
    case Cause::at_start:
      job.wait_until_started(before);
      break;
    case Cause::time_limit:
      return;  // whenever it comes
    default:
      job.wait_until_training(before);
  }
  const std::string id = std::to_string(job.id());
  if (cause == Cause::grace || cause == Cause::grace_at_start || cause == Cause::no_grace) {
    stage.preempt_together({&job});
    return;
  }
  job.note_cause();
  if (cause == Cause::cancel) {
    stage.slurm().command({"scancel", id});
  } else if (cause == Cause::requeue) {
    stage.slurm().command({"scontrol", "requeue", id});
  } else {
    stage.slurm().command({"scancel", "--signal=USR1", "--batch", id});
  }
}

/// Saved, cancelled, and not brought back to life: neither by Slurm nor by the supervisor, which has left.
void check_cancelled(TrainingJob& job, int saves) {
  job.wait_until_ended("CANCELLED");
  job.wait_until_said("not put back into the queue");
  check_equal("status", job.summary().at("status"), "preempted");
  check_equal("times saved", std::to_string(job.figures().size()), std::to_string(saves));
  check_equal("restarts", job.field("Restarts"), std::to_string(saves - 1));
  check_equal("state", job.field("JobState"), "CANCELLED");
}

std::vector<TrainingJob> play(Stage& stage, const Cell& cell) {
  const std::string digest = undisturbed_digest(training_of(cell), kRanksOfOneNode);
  TrainingJob job(stage.slurm(), plan_of(cell));
  for (int before = 0; before < cell.times; ++before) {
    const bool last = before + 1 == cell.times;
    preempt(stage, job, cell.cause == Cause::cancel && !last ? Cause::user_signal : cell.cause, before);
    if (cell.cause == Cause::cancel && last) {
      check_cancelled(job, cell.times);
      return {job};
    }
    job.wait_until_requeued(before + 1);
  }
  job.wait_until_ended("COMPLETED");
  if (cell.cause != Cause::time_limit) {  // which may have come once more
    job.check_restarts(cell.times);
  }
  check_equal("digest", job.summary().at("state_digest"), digest);
  return {job};
}

std::vector<Scenario> scenarios_of(const std::vector<Cause>& causes, const std::vector<int>& times) {
  std::vector<Scenario> scenarios;
  for (const Cause cause : causes) {
    for (const int each : times) {
      for (const auto* launcher : {"srun", "mpirun"}) {
        const Cell cell{launcher, cause, each};
        scenarios.push_back({name_of(cell), [cell](Stage& stage) { return play(stage, cell); }});
      }
    }
  }
  return scenarios;
}

/// One node with room for all.
SlurmOptions options_for(std::size_t jobs) {
  SlurmOptions options{.cpus = kRanksOfOneNode * static_cast<int>(jobs), .control_groups = true};
  options.control_groups = SlurmCluster::obstacle(options).empty();
  return options;
}

struct ByAnotherJob {
  static std::vector<Scenario> scenarios() { return scenarios_of({Cause::grace, Cause::no_grace}, {1, 2}); }
  static SlurmOptions options() { return options_for(scenarios().size()); }
};
struct ByAnotherJobAtStart {
  // Twice alone: a job that is to be preempted once would have to end before the second time, thus before the start.
  static std::vector<Scenario> scenarios() { return scenarios_of({Cause::grace_at_start}, {2}); }
  static SlurmOptions options() { return options_for(scenarios().size()); }
};
struct ByCommand {
  static std::vector<Scenario> scenarios() {
    return scenarios_of({Cause::time_limit, Cause::cancel, Cause::requeue, Cause::user_signal, Cause::at_start},
                        {1, 2});
  }
  static SlurmOptions options() { return options_for(scenarios().size()); }
};

REPRIEVE_STAGE_TEST(OneNodePreempted, ByAnotherJob);
REPRIEVE_STAGE_TEST(OneNodePreemptedAtStart, ByAnotherJobAtStart);
REPRIEVE_STAGE_TEST(OneNodeKnows, ByCommand);

}  // namespace
}  // namespace reprieve::test
