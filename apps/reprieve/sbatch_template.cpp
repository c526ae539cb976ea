// SPDX-License-Identifier: BSD-3-Clause
// reprieve sbatch-template

#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <regex>

#include "command.hpp"
#include "reprieve/error.hpp"

namespace reprieve::tool::sbatch_template_command {

namespace {

constexpr const char* kFooter =
    R"(Prints a batch script for Slurm. The job saves itself and goes back into the queue when it is preempted and when its
time limit is near, until the program has finished.

Examples:
  reprieve sbatch-template --nodes 2 --tasks-per-node 8 --time 4:00:00 --program ./train > job.sbatch && sbatch job.sbatch
  reprieve sbatch-template --launcher mpirun --grace 60          the partition's GraceTime is 60 s
  reprieve sbatch-template --array 0-9 --directory 'checkpoints-$SLURM_ARRAY_TASK_ID'
  reprieve sbatch-template --requeue requeue-exit                the site has RequeueExit=42

Exit codes: 0 printed,)";

enum class Launcher { srun, mpirun };
enum class Requeue { scontrol, requeue_exit, none };

struct Options {
  Launcher launcher = Launcher::srun;
  Requeue requeue = Requeue::scontrol;
  int nodes = 1;
  int tasks_per_node = 4;
  int cpus_per_task = 1;
  std::string time = "24:00:00";
  int grace_s = 120;
  std::string partition;
  std::string name = "train";
  std::string array;
  std::string directory = "checkpoints";
  std::string program_line = "./program";
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_choice<Launcher>(command, "--launcher", options.launcher,
                       {{"srun", Launcher::srun}, {"mpirun", Launcher::mpirun}}, "srun (default) or mpirun");
  add_choice<Requeue>(
      command, "--requeue", options.requeue,
      {{"scontrol", Requeue::scontrol}, {"requeue-exit", Requeue::requeue_exit}, {"none", Requeue::none}},
      "scontrol (default), requeue-exit (the site has RequeueExit), or none");
  const auto add_number = [&](const char* name, int& number, int most, const char* meaning) {
    command.add_option(name, number, meaning)
        ->check(CLI::Range(1, most).description(""))
        ->type_name("N")
        ->capture_default_str();
  };
  add_number("--nodes", options.nodes, 1'000'000, "Number of nodes");
  add_number("--tasks-per-node", options.tasks_per_node, 1'000'000, "Ranks on each node");
  add_number("--cpus-per-task", options.cpus_per_task, 1'000'000, "Cores for each rank");
  command.add_option("--time", options.time, "Time limit of one run of the job")->capture_default_str();
  add_number("--grace", options.grace_s, 86'400,
             "Seconds that a save and a step take at most, with a margin; the partition's GraceTime if it has one");
  command.add_option("--partition", options.partition, "Partition");
  command.add_option("--name", options.name, "Name of the job")->capture_default_str();
  command.add_option("--array", options.array, "Indices of a job array: 0-9, 1,3,5, 0-99%10");
  command.add_option("--directory", options.directory, "Checkpoint directory, on a file system that all nodes share")
      ->capture_default_str();
  command.add_option("--program", options.program_line, "The program and its arguments, as in a shell")
      ->capture_default_str();
  add_json(command, options.json);
}

/// Slurm's forms of a time limit: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
/// Nothing for one without a limit. @throws UsageError if it is none of them
std::optional<double> time_limit_s(const std::string& text) {
  static const std::regex forms(R"((?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?)");
  std::smatch part;
  if (text == "UNLIMITED" || text == "INFINITE") {
    return std::nullopt;
  }
  if (!std::regex_match(text, part, forms)) {
    throw UsageError(fmt::format(
        "--time: found \"{}\"; allowed: what Slurm takes, as in 90 (minutes), 4:00:00 or 1-12:00:00", text));
  }
  const auto number = [&](std::size_t index) { return part[index].matched ? std::stod(part[index]) : 0.0; };
  if (part[1].matched) {
    return 86'400 * number(1) + 3600 * number(2) + 60 * number(3) + number(4);
  }
  if (part[4].matched) {
    return 3600 * number(2) + 60 * number(3) + number(4);
  }
  return 60 * number(2) + number(3);
}

void check_times(const Options& options) {
  const auto limit = time_limit_s(options.time);
  if (limit && *limit <= options.grace_s) {
    throw UsageError(
        fmt::format("--grace: the job would be told to save {} s before its end, but --time {} gives it only {:.0f} s "
                    "in all; ask for "
                    "a longer time",
                    options.grace_s, options.time, *limit));
  }
}

std::string head(const Options& options) {
  std::string text = "#!/bin/bash\n";
  const auto add = [&](const std::string& option) { text += "#SBATCH " + option + '\n'; };
  add("--job-name=" + options.name);
  if (!options.partition.empty()) {
    add("--partition=" + options.partition);
  }
  if (!options.array.empty()) {
    add("--array=" + options.array);
  }
  add(fmt::format("--nodes={}", options.nodes));
  add(fmt::format("--ntasks-per-node={}", options.tasks_per_node));
  add(fmt::format("--cpus-per-task={}", options.cpus_per_task));
  add("--time=" + options.time);
  add(options.requeue == Requeue::none ? "--no-requeue" : "--requeue");
  add(options.array.empty() ? "--output=%x-%j.out" : "--output=%x-%A_%a.out");
  add("--open-mode=append");
  text +=
      "# SIGURG to this script alone, that many seconds before the time limit, and at the start of the grace time\n"
      "# where the site has SlurmctldParameters=preempt_send_user_signal. SIGURG because it ends no program that does\n"
      "# not know it: what comes before `reprieve run` listens does no harm, and is not missed, since `reprieve run`\n"
      "# asks Slurm as well.\n";
  add(fmt::format("--signal=B:URG@{}", options.grace_s));
  return text;
}

std::string body(const Options& options) {
  // `exec` makes the supervisor the process that Slurm signals; no shell stands between that could lose a signal.
  std::string run = fmt::format("exec reprieve run --slurm --restarts 5 --lead {}", options.grace_s);
  if (options.requeue == Requeue::requeue_exit) {
    run += " --requeue-exit";
  }
  return fmt::format(R"(
# What your site needs to find the program and the launcher:
#   module load openmpi
#   program=(apptainer exec image.sif ./program)       # Apptainer/Singularity, with srun or with mpirun outside
#   srun --container-image=image.sqsh ...              # Enroot with Pyxis
directory={}
program=({})

# To preempt the job by hand: touch "$directory/PREEMPT", or scancel --batch --signal=URG JOBID
#
# `exec` is needed: Slurm signals this shell alone, and a shell that waits for a command dies of it. Where more lines
# must follow, replace `exec` by the background, and pass the signals on:
#   reprieve run ... & run=$!
#   trap 'kill -TERM $run' TERM; trap 'kill -URG $run' URG
#   while wait $run; code=$?; kill -0 $run 2>/dev/null; do :; done
#   ...                                                # more lines
#   exit $code
{} --directory "$directory" -- {} "${{program[@]}}"
)",
                     options.directory, options.program_line, run,
                     options.launcher == Launcher::srun ? "srun --mpi=pmix" : "mpirun -n \"$SLURM_NTASKS\"");
}

int run(const Options& options) {
  for (const auto& [option, value] : std::map<std::string, std::string>{{"--name", options.name},
                                                                        {"--partition", options.partition},
                                                                        {"--array", options.array},
                                                                        {"--time", options.time},
                                                                        {"--directory", options.directory},
                                                                        {"--program", options.program_line}}) {
    // A word of a comment line of sbatch cannot hold a line break, which would begin a command.
    if (value.find_first_of("\r\n") != std::string::npos) {
      throw UsageError(option + " must be one line");
    }
  }
  check_times(options);
  const std::string script = head(options) + body(options);
  print_answer(options.json, {{"script", script}}, [&] { std::cout << script; });
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command<Options>(tool, "sbatch-template", "Print a batch script for Slurm", kFooter, define, run);
}

}  // namespace reprieve::tool::sbatch_template_command
