// SPDX-License-Identifier: BSD-3-Clause
// What holds for every subcommand of the tool: help and usage errors.

#include <gmock/gmock.h>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::HasSubstr;

class ToolGeneral : public ToolTest {};

TEST_F(ToolGeneral, HelpTeachesByExamples) {
  const Result help = tool({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const std::string command : {"report", "ls", "show", "verify", "diff", "prune"}) {
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
  EXPECT_THAT(result.out, ::testing::MatchesRegex("reprieve [0-9.]+\ncommit   [^\n]+\nMPI      [^\n]+\n"
                                                  "HDF5     [0-9.]+\noptions  [^\n]+\n"));
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

TEST_F(ToolGeneral, ACommandThatIsNotThereNamesTheNearest) {
  EXPECT_THAT(tool({"lss"}).err, HasSubstr("did you mean \"ls\"?"));
  EXPECT_THAT(tool({"verfy", "x"}).err, HasSubstr("did you mean \"verify\"?"));
  EXPECT_THAT(tool({"frobnicate"}).err, ::testing::Not(HasSubstr("did you mean")));
}

TEST_F(ToolGeneral, WithoutAnythingItShowsItsHelp) { EXPECT_THAT(tool({}).err, HasSubstr("Examples:")); }

TEST_F(ToolGeneral, NamesThatAreNotThereComeWithThoseThatAre) {
  EXPECT_THAT(tool({"sbatch-template", "--launcher", "aprun"}).err,
              HasSubstr("found \"aprun\"; allowed: mpirun, srun"));
  EXPECT_THAT(tool({"drill", "--as", "email", "--", "true"}).err, HasSubstr("allowed: command, rank, slurm-grace"));
}

TEST_F(ToolGeneral, UsageShowsWhereTheProgramStands) {
  EXPECT_THAT(tool({"run", "--help"}).out, HasSubstr("reprieve run [OPTIONS] -- COMMAND..."));
  EXPECT_THAT(tool({"drill", "--help"}).out, HasSubstr("reprieve drill [OPTIONS] -- COMMAND..."));
}

TEST_F(ToolGeneral, BatchScriptsWithTimesThatMakeNoSenseAreRefused) {
  for (const std::string time : {"abc", "1:2:3:4", "", "-5", "4h"}) {
    const Result result = tool({"sbatch-template", "--time", time});
    EXPECT_EQ(result.code, 2) << time;
    EXPECT_THAT(result.err, HasSubstr("--time")) << time;
  }
  EXPECT_THAT(tool({"sbatch-template", "--time", "2", "--grace", "120"}).err, HasSubstr("gives it only 120 s in all"));
  for (const std::string time : {"3", "2:01", "1:00:00", "1-0", "1-2:03", "1-2:03:04", "UNLIMITED"}) {
    EXPECT_EQ(tool({"sbatch-template", "--time", time, "--grace", "120"}).code, 0) << time;
  }
}

TEST_F(ToolGeneral, StatusNamesTheRunsBelow) {
  write("deep/er/a", "plain", {1}, 1);
  const Result shown = tool({"status", directory_.path(), "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const auto runs = nlohmann::json::parse(shown.out);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0]["directory"], (directory_ / "deep/er/a").string());
  EXPECT_EQ(runs[0]["checkpoint"]["number"], 1);
  const Result none = tool({"status", program("")});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("there is no run"));
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

}  // namespace
}  // namespace reprieve::test
