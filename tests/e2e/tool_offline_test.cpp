// SPDX-License-Identifier: BSD-3-Clause
// `reprieve` on a machine without MPI and HDF5, such as a login node before `module load`.

#include <gmock/gmock.h>

#include <filesystem>

#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::HasSubstr;

class ToolOffline : public TrainerTest {
 protected:
  /// The exit code of a program that finds neither library.
  static int code_of(std::vector<std::string> words, const std::string& expected) {
    words[0] = program(words[0]);
    Process process({.arguments = std::move(words), .environment = {{"LD_AUDIT", REPRIEVE_NO_MPI}}});
    const int code = process.wait(kHang).value_or(-1);
    EXPECT_THAT(process.out() + process.err(), HasSubstr(expected));
    return code;
  }
};

TEST_F(ToolOffline, AProgramThatLinksMpiDoesNotStart) {
  EXPECT_EQ(code_of({"reprieve-heat", "--help"}, "error while loading shared libraries"), 127);
}

TEST_F(ToolOffline, EachCommandExplainsItself) {
  EXPECT_EQ(code_of({"reprieve", "--version"}, "MPI      not used"), 0);
  for (const std::string command : {"status", "report", "ls", "show", "verify", "diff", "prune", "drain",
                                    "unquarantine", "run", "drill", "doctor", "advise", "xdmf", "sbatch-template"}) {
    EXPECT_EQ(code_of({"reprieve", command, "--help"}, "reprieve " + command), 0) << command;
  }
}

TEST_F(ToolOffline, EachCommandDoesItsWork) {
  ASSERT_EQ(run(2, {"--checkpoint-every", "50"}).code, 0);
  const std::string directory = checkpoints_.string();
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".h5") {
      file = entry.path().string();
    }
  }
  ASSERT_NE(file, "");
  const std::string name = std::filesystem::path(file).filename().string();
  EXPECT_EQ(code_of({"reprieve", "ls", directory}, name), 0);
  EXPECT_EQ(code_of({"reprieve", "show", file}, "float64"), 0);
  EXPECT_EQ(code_of({"reprieve", "verify", directory}, name), 0);
  EXPECT_EQ(code_of({"reprieve", "diff", file, file}, "equal"), 0);
  EXPECT_EQ(code_of({"reprieve", "status", directory}, "finished"), 0);
  EXPECT_EQ(code_of({"reprieve", "report", directory, "--json"}, "finished"), 0);
  EXPECT_EQ(code_of({"reprieve", "advise", directory}, "save"), 0);
  EXPECT_EQ(code_of({"reprieve", "xdmf", directory}, "checkpoints.xdmf"), 0);
  EXPECT_EQ(code_of({"reprieve", "drain", directory}, "no node-local copy"), 0);
  EXPECT_EQ(code_of({"reprieve", "unquarantine", directory}, "no checkpoint was quarantined"), 0);
  EXPECT_EQ(code_of({"reprieve", "doctor", directory}, "ok"), 0);
  EXPECT_EQ(code_of({"reprieve", "prune", directory, "--keep", "1"}, ""), 0);
  EXPECT_EQ(code_of({"reprieve", "sbatch-template"}, "#SBATCH"), 0);
  EXPECT_EQ(code_of({"reprieve", "run", "--", "true"}, "finished"), 0);
  EXPECT_EQ(code_of({"reprieve", "drill", "--", "true"}, "before the notice was sent"), 2);
}

}  // namespace
}  // namespace reprieve::test
