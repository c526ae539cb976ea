// SPDX-License-Identifier: BSD-3-Clause
// Which way to start a program survives which end of its job: the table of slurm/README.md, one job for each cell.

#include <gtest/gtest.h>

#include <future>
#include <iostream>
#include <map>
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
     "exec reprieve run --slurm -- srun --mpi=pmix sh -c 'trap : TERM; ./my-program; exit $?'"},
    {"exec srun", "exec srun --mpi=pmix ./my-program"},
    {"exec mpirun", "exec mpirun ./my-program"},
    {"srun, then a line", "srun --mpi=pmix ./my-program\necho after it"},
};

struct End {
  std::string name;
  std::vector<std::string> arguments;  ///< of sbatch
  std::vector<std::string> command;    ///< ends the job, before its number; empty: its time does, or another job
};

const std::vector<End> kPreemptions{
    {"preempted with GraceTime", {"--partition=low"}, {}},
    {"the same, `--signal=B:URG@60`", {"--partition=low", "--signal=B:URG@60"}, {}},
    {"the same, `--signal=USR1@60`", {"--partition=low", "--signal=USR1@60"}, {}},
    {"preempted without GraceTime", {"--partition=low0"}, {}},
};

std::vector<End> time_limits() {
  std::vector<End> ends{{"its time limit", {"--time=2"}, {}}};
  for (const std::string signal : {"B:URG", "URG", "USR1", "USR2", "INT", "TERM"}) {
    ends.push_back({"the same, `--signal=" + signal + "@60`", {"--time=2", "--signal=" + signal + "@60"}, {}});
  }
  return ends;
}

std::vector<End> commands() {
  std::vector<End> ends{{"`scontrol requeue`", {}, {"scontrol", "requeue"}},
                        {"`scancel`", {}, {"scancel"}},
                        {"`scancel --batch --signal=URG`", {}, {"scancel", "--batch", "--signal=URG"}}};
  for (const std::string signal : {"USR1", "USR2", "INT", "TERM"}) {
    ends.push_back({"`scancel --signal=" + signal + "`", {}, {"scancel", "--signal=" + signal}});
  }
  return ends;
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

  /// How the job went on: "back" if it continues by itself from what it has saved.
  static std::string outcome(SlurmCluster& slurm, const TrainingJob& job) {
    const std::set<std::string> running{"PENDING",  "RUNNING", "COMPLETING", "CONFIGURING",
                                        "REQUEUED", "STOPPED", "SUSPENDED",  "SIGNALING"};
    std::string state;
    std::string text;
    static_cast<void>(wait_until(
        [&] {
          state = slurm.job(job.id())["JobState"];
          text = job.output();
          return text.find(" info] restored ") != std::string::npos || starts_from_nothing(text) > 1 ||
                 !running.contains(state);
        },
        std::chrono::seconds(300)));
    if (text.find(" info] restored ") != std::string::npos) {
      return "back";
    }
    const bool is_saved = text.find("leaving with code 42") != std::string::npos;
    return (is_saved ? "saved" : "lost") + std::string(", ") + state;
  }

  static std::size_t starts_from_nothing(const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(": beginning at step 0", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  }

  static std::string table(const std::vector<End>& ends, bool preempts) {
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
      outcomes.push_back(std::async(std::launch::async, [&] { return outcome(slurm, job); }));
    }
    std::string table;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      table += (i % kWays.size() == 0 ? "\n| " + ends[i / kWays.size()].name : "") + " | " + outcomes[i].get();
    }
    return table;
  }
};

TEST_F(WaysAndEnds, Preemptions) {
  REPRIEVE_NEEDS_SLURM(options(1));
  std::cout << table(kPreemptions, true) << std::endl;
}

TEST_F(WaysAndEnds, TimeLimits) {
  REPRIEVE_NEEDS_SLURM(options(1));
  std::cout << table(time_limits(), false) << std::endl;
}

TEST_F(WaysAndEnds, Commands) {
  REPRIEVE_NEEDS_SLURM(options(1));
  std::cout << table(commands(), false) << std::endl;
}

}  // namespace
}  // namespace reprieve::test
