// SPDX-License-Identifier: BSD-3-Clause
// Which way to start a program survives which end of its job: the table of slurm/README.md, one job for each cell.

#include <gmock/gmock.h>

#include <future>
#include <set>
#include <string>
#include <vector>

#include "slurm/slurm_cluster.hpp"
#include "slurm/training_job.hpp"

namespace reprieve::test {
namespace {

constexpr int kRanksOfWays = 2;

struct Way {
  std::string name;
  std::string launch;  ///< the end of the batch script
};

const std::vector<Way> kWays{
    {"reprieve run, srun", "exec reprieve run --slurm -- srun --mpi=pmix ./my-program"},
    {"reprieve run, mpirun", "exec reprieve run --slurm -- mpirun ./my-program"},
    {"srun and a wrapper", "exec reprieve run --slurm -- srun --mpi=pmix sh -c './my-program; exit $?'"},
    {"srun and a wrapper with `trap`",
     "exec reprieve run --slurm -- srun --mpi=pmix sh -c 'trap : TERM USR1 USR2; ./my-program; exit $?'"},
    {"exec srun", "exec srun --mpi=pmix ./my-program"},
    {"exec mpirun", "exec mpirun ./my-program"},
    {"srun, then a line", "srun --mpi=pmix ./my-program\necho after it"},
};

using Words = std::vector<std::string>;

struct End {
  std::string name;
  Words arguments;  ///< of sbatch
  Words command;    ///< ends the job, before its number; empty: its time does, or another job
  /// For each way: "back" (continues by itself from its checkpoint), "saved" (continues if it is submitted again),
  /// "lost", "by chance" (lost or back), or "runs on" (nothing that could save gets the signal).
  Words expected;
};

const std::vector<End> kPreemptions{
    {"preempted with GraceTime", {"--partition=low"}, {}, {"back", "back", "lost", "back", "saved", "saved", "saved"}},
    {"preempted with GraceTime, `--signal=B:URG@60`",
     {"--partition=low", "--signal=B:URG@60"},
     {},
     {"back", "back", "back", "back", "saved", "saved", "saved"}},
    {"preempted with GraceTime, `--signal=USR1@60`",
     {"--partition=low", "--signal=USR1@60"},
     {},
     {"back", "back", "lost", "back", "saved", "saved", "saved"}},
    {"preempted without GraceTime",
     {"--partition=low0"},
     {},
     {"back", "back", "by chance", "back", "back", "back", "back"}},
};

End time_limit(const std::string& signal, Words expected) {
  return {
      "time limit, `--signal=" + signal + "@60`", {"--time=2", "--signal=" + signal + "@60"}, {}, std::move(expected)};
}

const std::vector<End> kTimeLimits{
    {"time limit", {"--time=2"}, {}, {"back", "back", "back", "back", "saved", "saved", "saved"}},
    time_limit("B:URG", {"back", "back", "back", "back", "saved", "saved", "saved"}),
    time_limit("URG", {"back", "back", "back", "back", "saved", "saved", "saved"}),
    time_limit("USR1", {"back", "back", "lost", "back", "saved", "saved", "saved"}),
    time_limit("USR2", {"back", "back", "lost", "back", "saved", "saved", "saved"}),
    time_limit("INT", {"back", "back", "back", "back", "saved", "saved", "saved"}),
    time_limit("TERM", {"back", "back", "lost", "back", "saved", "saved", "saved"}),
};

End signal_to_steps(const std::string& signal, Words expected) {
  return {"`scancel --signal=" + signal + "`", {}, {"scancel", "--signal=" + signal}, std::move(expected)};
}

const std::vector<End> kCommands{
    {"`scontrol requeue`", {}, {"scontrol", "requeue"}, {"back", "back", "by chance", "back", "back", "back", "back"}},
    {"`scancel`", {}, {"scancel"}, {"saved", "saved", "lost", "saved", "saved", "lost", "lost"}},
    {"`scancel --batch --signal=URG`",
     {},
     {"scancel", "--batch", "--signal=URG"},
     {"back", "back", "back", "back", "runs on", "runs on", "runs on"}},
    signal_to_steps("USR1", {"back", "runs on", "lost", "runs on", "saved", "runs on", "saved"}),
    signal_to_steps("USR2", {"back", "runs on", "lost", "runs on", "saved", "runs on", "saved"}),
    signal_to_steps("INT", {"back", "runs on", "runs on", "runs on", "saved", "runs on", "saved"}),
    signal_to_steps("TERM", {"back", "runs on", "lost", "runs on", "saved", "runs on", "saved"}),
};

MATCHER(IsAsExpected, "") {
  const auto& [outcome, expected] = arg;
  return outcome == expected || (expected == "by chance" && (outcome == "lost" || outcome == "back"));
}

/// One cell: whether the steps before the end were saved, and whether the job continues by itself.
class WaysAndEnds : public ::testing::Test {
 protected:
  static SlurmOptions options(std::size_t jobs) {
    SlurmOptions options{.cpus = kRanksOfWays * static_cast<int>(jobs), .grace = std::chrono::seconds(60)};
    options.control_groups = true;
    options.control_groups = SlurmCluster::obstacle(options).empty();
    return options;
  }

  static JobPlan plan(const Way& way, const End& end, std::size_t number) {
    JobPlan plan{"job" + std::to_string(number),
                 "#!/bin/bash\n#SBATCH --requeue\n#SBATCH --open-mode=append\n" + way.launch + "\n",
                 {.steps = 2000}};
    plan.arguments = end.arguments;
    plan.arguments.push_back("--ntasks-per-node=" + std::to_string(kRanksOfWays));
    return plan;
  }

  /// Until the fate of the job can be seen, or @p limit.
  static std::string outcome(SlurmCluster& slurm, const TrainingJob& job, std::chrono::seconds limit) {
    const std::set<std::string> running{"PENDING",  "RUNNING", "COMPLETING", "CONFIGURING",
                                        "REQUEUED", "STOPPED", "SUSPENDED",  "SIGNALING"};
    std::string text;
    const bool is_seen = wait_until(
        [&] {
          const std::string state = slurm.job(job.id())["JobState"];
          text = job.output();
          return text.find(" info] restored ") != std::string::npos || starts_from_nothing(text) > 1 ||
                 !running.contains(state);
        },
        limit);
    if (text.find(" info] restored ") != std::string::npos) {
      return "back";
    }
    return text.find("leaving with code 42") != std::string::npos ? "saved" : is_seen ? "lost" : "runs on";
  }

  static std::size_t starts_from_nothing(const std::string& text) {
    const std::string said = ": beginning at step 0";
    const auto first = text.find(said);
    return first == std::string::npos ? 0 : text.find(said, first + 1) == std::string::npos ? 1 : 2;
  }

  static void check(const std::vector<End>& ends, std::chrono::seconds limit, bool preempts) {
    SlurmCluster slurm(options(ends.size() * kWays.size()));
    std::vector<TrainingJob> jobs;
    for (const End& end : ends) {
      for (const Way& way : kWays) {
        jobs.emplace_back(slurm, plan(way, end, jobs.size()));
      }
    }
    std::vector<TrainingJob*> pointers;
    for (TrainingJob& job : jobs) {
      pointers.push_back(&job);
    }
    for_all(pointers, [](TrainingJob& job) { job.wait_until_said("\nepoch "); });
    if (preempts) {
      static_cast<void>(
          slurm.submit({"--partition=high", "--exclusive", "--nodes=1", "--output=/dev/null", "--wrap", "sleep 1"}));
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (std::vector<std::string> command = ends[i / kWays.size()].command; !command.empty()) {
        command.push_back(std::to_string(jobs[i].id()));
        slurm.command(command);
      }
    }
    std::vector<std::future<std::string>> outcomes;
    for (const TrainingJob& job : jobs) {
      outcomes.push_back(std::async(std::launch::async, [&] { return outcome(slurm, job, limit); }));
    }
    for (std::size_t i = 0; i < ends.size(); ++i) {
      std::vector<std::string> row;
      for (std::size_t way = 0; way < kWays.size(); ++way) {
        row.push_back(outcomes[i * kWays.size() + way].get());
      }
      EXPECT_THAT(row, testing::Pointwise(IsAsExpected(), ends[i].expected)) << ends[i].name;
    }
  }
};

TEST_F(WaysAndEnds, Preemptions) {
  REPRIEVE_NEEDS_SLURM(options(1));
  check(kPreemptions, std::chrono::seconds(300), true);
}

TEST_F(WaysAndEnds, TimeLimits) {
  REPRIEVE_NEEDS_SLURM(options(1));
  check(kTimeLimits, std::chrono::seconds(300), false);
}

TEST_F(WaysAndEnds, Commands) {
  REPRIEVE_NEEDS_SLURM(options(1));
  check(kCommands, std::chrono::seconds(90), false);
}

}  // namespace
}  // namespace reprieve::test
