// SPDX-License-Identifier: BSD-3-Clause
// reprieve sbatch-template: scripts that a shell can read and that say what was asked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/process.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SbatchTemplate : public ::testing::Test {
 protected:
  /// The script; fails the test unless bash can read it.
  static std::string script(const std::vector<std::string>& options) {
    Command command{{program("reprieve"), "sbatch-template"}};
    command.arguments.insert(command.arguments.end(), options.begin(), options.end());
    Process process(command);
    EXPECT_EQ(process.wait(60s), 0) << process.err();
    const TemporaryDirectory directory;
    std::ofstream(directory / "job") << process.out();
    Process bash({{"bash", "-n", directory / "job"}});
    EXPECT_EQ(bash.wait(60s), 0) << bash.err();
    return process.out();
  }
};

TEST_F(SbatchTemplate, Defaults) {
  EXPECT_THAT(script({}),
              AllOf(StartsWith("#!/bin/bash\n#SBATCH "), HasSubstr("#SBATCH --requeue\n"),
                    HasSubstr("#SBATCH --open-mode=append\n"), HasSubstr("#SBATCH --signal=B:URG@120\n"),
                    HasSubstr("-- srun --mpi=pmix "), Not(HasSubstr("--array")), Not(HasSubstr("trap CONT"))));
}

TEST_F(SbatchTemplate, FitsTheOptions) {
  EXPECT_THAT(
      script({"--launcher", "mpirun", "--nodes", "3", "--grace", "45", "--array", "0-9%2", "--requeue", "requeue-exit",
              "--program", "./train --steps 5", "--directory", "checkpoints-$SLURM_ARRAY_TASK_ID"}),
      AllOf(HasSubstr("#SBATCH --nodes=3\n"), HasSubstr("#SBATCH --signal=B:URG@45\n"), HasSubstr("--lead 45"),
            HasSubstr("#SBATCH --array=0-9%2\n"), HasSubstr(" --requeue-exit "), HasSubstr("-- mpirun "),
            HasSubstr("\nprogram=(./train --steps 5)\n"), HasSubstr("\ndirectory=checkpoints-$SLURM_ARRAY_TASK_ID\n")));
}

TEST_F(SbatchTemplate, WithoutRequeue) {
  EXPECT_THAT(script({"--requeue", "none"}),
              AllOf(HasSubstr("#SBATCH --no-requeue\n"), Not(HasSubstr("--requeue\n#"))));
}

TEST_F(SbatchTemplate, RefusesLineBreaks) {
  Process process({{program("reprieve"), "sbatch-template", "--name", "a\nrm -rf /"}});
  EXPECT_EQ(process.wait(60s), 2);
}

}  // namespace
}  // namespace reprieve::test
