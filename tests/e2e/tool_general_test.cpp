// What holds for every subcommand of the tool: help, usage errors, and no MPI.

#include <gmock/gmock.h>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::HasSubstr;

class ToolGeneral : public ToolTest {};

TEST_F(ToolGeneral, HelpTeachesByExamples) {
  const Result help = tool({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const std::string command : {"ls", "show", "verify", "diff", "prune"}) {
    EXPECT_THAT(help.out, HasSubstr("reprieve " + command + " "));
    const Result of_command = tool({command, "--help"});
    EXPECT_EQ(of_command.code, 0);
    EXPECT_THAT(of_command.out, HasSubstr("Examples:\n  reprieve " + command + " "));
    EXPECT_THAT(of_command.out, HasSubstr("--json"));
  }
}

TEST_F(ToolGeneral, VersionIsShown) {
  const Result result = tool({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, ::testing::StartsWith("reprieve "));
}

TEST_F(ToolGeneral, WrongUsageGivesTwoAndPointsToHelp) {
  const std::vector<std::vector<std::string>> wrong{
      {}, {"lss"}, {"ls"}, {"show"}, {"verify"}, {"diff", "one"}, {"prune", "."}, {"ls", ".", "--colour"},
  };
  for (const auto& arguments : wrong) {
    const Result result = tool(arguments);
    EXPECT_EQ(result.code, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(result.err, HasSubstr("--help")) << ::testing::PrintToString(arguments);
  }
}

TEST_F(ToolGeneral, MissingPathsGiveTwoAndSayWhatToDo) {
  const std::string nothing = directory_ / "nothing";
  const std::vector<std::vector<std::string>> missing{
      {"ls", nothing},
      {"show", nothing},
      {"verify", nothing},
      {"diff", nothing, nothing},
      {"prune", nothing, "--keep=1"},
  };
  for (const auto& arguments : missing) {
    const Result result = tool(arguments);
    EXPECT_EQ(result.code, 2) << arguments[0];
    EXPECT_THAT(result.err, HasSubstr(nothing + " does not exist; check the spelling")) << arguments[0];
    EXPECT_EQ(result.out, "") << arguments[0];
  }
}

TEST_F(ToolGeneral, DirectoryInPlaceOfFileAndViceVersa) {
  const Result show = tool({"show", directory_.path()});
  EXPECT_EQ(show.code, 2);
  EXPECT_THAT(show.err, HasSubstr("is a directory; name one of its checkpoints"));
  const Result ls = tool({"ls", program("reprieve")});
  EXPECT_EQ(ls.code, 2);
  EXPECT_THAT(ls.err, HasSubstr("is not a directory"));
}

TEST_F(ToolGeneral, NeverStartsMpi) {
  write("a", "plain", {1}, 1);
  const Environment mpi_cannot_start{{"OMPI_MCA_pml", "no_such_component"}};
  // The control: what starts MPI fails in this environment.
  Process starts_mpi({{program("e2e_writer"), directory_ / "b", "plain", "1"}, mpi_cannot_start});
  EXPECT_NE(starts_mpi.wait(std::chrono::seconds(60)), 0);
  const std::string checkpoint = file("a", 1);
  EXPECT_EQ(tool({"ls", directory_ / "a"}, mpi_cannot_start).code, 0);
  EXPECT_EQ(tool({"show", checkpoint}, mpi_cannot_start).code, 0);
  EXPECT_EQ(tool({"verify", checkpoint}, mpi_cannot_start).code, 0);
  EXPECT_EQ(tool({"diff", checkpoint, checkpoint}, mpi_cannot_start).code, 0);
  EXPECT_EQ(tool({"prune", directory_ / "a", "--keep", "1"}, mpi_cannot_start).code, 0);
}

}  // namespace
}  // namespace reprieve::test
