// SPDX-License-Identifier: BSD-3-Clause
// What a new user does: copies a batch script, or has one printed, puts his program beside it, and submits it as it is.

#include <gtest/gtest.h>

#include "slurm/stage.hpp"

namespace reprieve::test {
namespace {

constexpr int kRanksOfScripts = 4;  // as the scripts have it
const Training kShortTraining{.steps = 400};

/// Whether all of the jobs survive one preemption.
void survive(Stage& stage, std::vector<TrainingJob>& jobs) {
  const std::string digest = undisturbed_digest(kShortTraining, kRanksOfScripts);
  std::vector<TrainingJob*> all;
  for (TrainingJob& job : jobs) {
    all.push_back(&job);
  }
  for_all(all, [](TrainingJob& job) { job.wait_until_training(0); });
  stage.preempt_together(all);
  for_all(all, [&](TrainingJob& job) {
    job.wait_until_requeued(1);
    job.check_completed(digest, 1);
  });
}

/// Made when the test begins.
using Script = std::function<std::string()>;

Script from_tree(const std::string& name) {
  return [=] { return script_of_tree(name); };
}
Script from_template(const std::vector<std::string>& options) {
  return [=] { return script_of_template(options); };
}

Scenario one_job(const std::string& name, const Script& script) {
  return {name, [=](Stage& stage) {
            std::vector<TrainingJob> jobs{TrainingJob(stage.slurm(), {name, script(), kShortTraining})};
            survive(stage, jobs);
            return jobs;
          }};
}

Scenario array(const std::string& name, const Script& script, int tasks, const TrainingJob::FilesOfTask& files_of) {
  return {name, [=](Stage& stage) {
            std::vector<TrainingJob> jobs =
                TrainingJob::array(stage.slurm(), {name, script(), kShortTraining}, tasks, files_of);
            survive(stage, jobs);
            return jobs;
          }};
}

struct Scripts {
  static std::vector<Scenario> scenarios() {
    const auto in_one_directory = [](const std::filesystem::path& directory, int task) {
      const std::string number = std::to_string(task);
      return TrainingJob::Files{directory / ("checkpoints-" + number), directory / ("summary" + number + ".json")};
    };
    return {one_job("srun", from_tree("srun.sbatch")), one_job("mpirun", from_tree("mpirun.sbatch")),
            array("array", from_tree("array.sbatch"), 4, files_of_task),
            one_job("template_srun", from_template({"--program", "./my-program"})),
            one_job("template_mpirun", from_template({"--program", "./my-program", "--launcher", "mpirun"})),
            // The program is told of its directory by `reprieve run` alone.
            array("template_array",
                  from_template({"--array", "0-1", "--directory", "checkpoints-$SLURM_ARRAY_TASK_ID", "--program",
                                 "./my-program"}),
                  2, in_one_directory)};
  }
  static SlurmOptions options() { return {.cpus = kRanksOfScripts * 10}; }
};
REPRIEVE_STAGE_TEST(NewUser, Scripts);

}  // namespace
}  // namespace reprieve::test
