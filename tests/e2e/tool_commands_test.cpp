// SPDX-License-Identifier: BSD-3-Clause
// What holds for every subcommand of the tool: help and usage errors.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "support/process.hpp"
#include "tool_test.hpp"

namespace reprieve::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ToolGeneral : public ToolTest {};

TEST_F(ToolGeneral, HelpTeachesByExamplesAndNamesTheExitCodes) {
  const Result help = tool({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("3 missing, 4 a run uses the directory"));
  for (const std::string command : {"status", "report", "ls", "show", "verify", "diff", "prune", "unquarantine",
                                    "drain", "xdmf", "drill", "doctor", "advise", "sbatch-template"}) {
    const Result of_command = tool({command, "--help"});
    EXPECT_EQ(of_command.code, 0);
    EXPECT_THAT(of_command.out, HasSubstr("Examples:\n  reprieve " + command + " "));
    EXPECT_THAT(of_command.out,
                AllOf(HasSubstr("--json"), HasSubstr("3 missing, 4 a run uses the directory,\n5 corrupt.")));
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
      {}, {"lss"}, {"show"}, {"diff", "one"}, {"prune", "."}, {"ls", ".", "--colour"}, {"ls", "--color", "red"},
  };
  for (const auto& arguments : wrong) {
    const Result result = tool(arguments);
    EXPECT_EQ(result.code, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(result.err, HasSubstr("--help")) << ::testing::PrintToString(arguments);
  }
}

TEST_F(ToolGeneral, ACommandThatIsNotThereNamesTheNearest) {
  EXPECT_THAT(tool({}).err, HasSubstr("Examples:"));
  EXPECT_THAT(tool({"lss"}).err, HasSubstr("did you mean \"ls\"?"));
  EXPECT_THAT(tool({"verfy", "x"}).err, HasSubstr("did you mean \"verify\"?"));
  EXPECT_THAT(tool({"frobnicate"}).err, ::testing::Not(HasSubstr("did you mean")));
}

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
  std::filesystem::create_directories(directory_ / "deep/er");
  write("deep/er/a", "plain", {1}, 1);
  const auto runs = tool_json({"status", directory_.path()})["runs"];
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0]["directory"], (directory_ / "deep/er/a").string());
  EXPECT_EQ(runs[0]["checkpoint"]["number"], 1);
  expect_trouble({"status", program("")}, "there is no run", 3);
}

/// What stands in the directory `checkpoints`, else in this one.
TEST_F(ToolGeneral, AllCommandsTakeTheSameDirectoryIfNoneIsNamed) {
  write("checkpoints", "plain", {1});
  const std::vector<std::vector<std::string>> commands{{"ls", "--latest"}, {"verify"}, {"prune", "--keep=1"},
                                                       {"unquarantine"},   {"drain"},  {"xdmf"},
                                                       {"doctor"},         {"status"}, {"report"},
                                                       {"advise"}};
  for (const auto& command : commands) {
    for (const std::string directory : {"", "checkpoints"}) {
      Process process({joined({program("reprieve")}, command), {}, directory_ / directory});
      EXPECT_LE(process.wait(kToolLimit).value_or(-1), command[0] == "advise" ? 2 : 0) << command[0] << process.err();
      EXPECT_THAT(process.err(), Not(HasSubstr("there is no"))) << command[0];
    }
    EXPECT_THAT(tool({command[0], "--help"}).out, HasSubstr("default: checkpoints if it is here")) << command[0];
  }
}

TEST_F(ToolGeneral, ExitCodesAreApart) {
  const std::string directory = write("run", "plain", {1, 2});
  corrupt_value(file("run", 2), kRareWeight);
  expect_trouble({"diff", file("run", 1), file("run", 2)}, "is corrupt", 5);
  expect_trouble({"show", directory + "/none"}, "does not exist", 3);
  expect_trouble({"show"}, "required", 2);
}

TEST_F(ToolGeneral, ErrorsAreJsonWhereJsonIsAskedFor) {
  const std::string nothing = directory_ / "nothing";
  const json missing = tool_json({"show", nothing}, 3);
  EXPECT_EQ(missing["error"]["exit_code"], 3);
  EXPECT_THAT(missing["error"]["message"].get<std::string>(), HasSubstr(nothing + " does not exist"));
  EXPECT_TRUE(missing["error"]["message_code"].is_null());
  const json known = tool_json({"show", "/dev/null"}, 2);
  EXPECT_THAT(known["error"]["message"].get<std::string>(), testing::EndsWith(" [RPV-0107]"));
  EXPECT_EQ(known["error"]["message_code"], "RPV-0107");
  EXPECT_EQ(tool_json({"ls", "--none"}, 2)["error"]["exit_code"], 2);
  EXPECT_EQ(tool_json({"lss"}, 2)["error"]["exit_code"], 2);
  const Result run = tool({"run", "--json"});
  EXPECT_EQ(run.out, "") << "that of the program";
  EXPECT_THAT(run.err, HasSubstr(R"({"version":1,"error":{"message":"the program)"));
  EXPECT_THAT(tool({"run", "--", "false", "--json"}).err, Not(HasSubstr(R"("error")")));
}

TEST_F(ToolGeneral, ColoursAreForTerminalsUnlessAskedFor) {
  const std::string directory = write("run", "plain", {1}, 1);
  const std::string escape = "\x1b[";
  for (const std::string command : {"ls", "verify", "doctor"}) {
    EXPECT_THAT(tool({command, directory, "--color", "always"}).out, HasSubstr(escape)) << command;
    EXPECT_THAT(tool({command, directory}).out, Not(HasSubstr(escape))) << command;
  }
  EXPECT_THAT(tool({"ls", directory, "--color", "always"}, {{"NO_COLOR", "1"}}).out, HasSubstr(escape));
  EXPECT_THAT(tool({"verify", directory, "--color", "always", "--color", "never"}).err, HasSubstr("--color"));
}

TEST_F(ToolGeneral, MissingPathsGiveThreeAndSayWhatToDo) {
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
    EXPECT_EQ(result.code, 3) << arguments[0];
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

// reprieve ls, reprieve show

namespace fs = std::filesystem;
using ::testing::MatchesRegex;

class ToolLs : public ToolTest {};
class ToolShow : public ToolTest {};

TEST_F(ToolLs, ListsOldestFirst) {
  const std::string directory = write("run", "plain", {9, 10, 100});
  const json list = tool_json({"ls", directory});
  ASSERT_EQ(list["checkpoints"].size(), 3U);
  const std::vector<int> numbers{9, 10, 100};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const json& entry = list["checkpoints"][i];
    EXPECT_EQ(entry["number"], numbers[i]);
    EXPECT_EQ(entry["step"], 10 * numbers[i]);
    EXPECT_EQ(entry["ranks"], 2);
    EXPECT_EQ(entry["size_bytes"], std::filesystem::file_size(file("run", numbers[i])));
    EXPECT_EQ(entry["reason"]["kind"], "user");
    EXPECT_EQ(entry["state"], "committed");
    EXPECT_GE(entry["age_s"], 0.0);
    EXPECT_LT(entry["age_s"], 300.0);
  }
  const Result text = tool({"ls", directory});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, MatchesRegex("FILE +NUMBER +STEP +SIZE +AGE +REASON +STATE\n"
                                     "ckpt-9.h5 +9 +90 +[0-9.]+ KiB +[0-9]+ (s|min) +user: by the test +committed\n"
                                     "ckpt-10.h5 +10 +100 .*\nckpt-100.h5 +100 +1000 .*\n"));
}

TEST_F(ToolLs, EmptyDirectory) {
  EXPECT_EQ(tool({"ls", directory_.path()}).out, "no checkpoints in " + directory_.path().string() + "\n");
  EXPECT_EQ(tool_json({"ls", directory_.path()})["checkpoints"], json::array());
}

TEST_F(ToolLs, SaysWhatIsNoCheckpointWithoutReadingTheData) {
  const std::string directory = write("run", "plain", {1, 2});
  corrupt_value(file("run", 1), kRareWeight);
  std::fstream(file("run", 2), std::ios::in | std::ios::out | std::ios::binary).seekp(16) << "rubbish";
  std::ofstream(directory_ / "run" / "ckpt-3.h5") << "not a checkpoint";
  std::ofstream(directory_ / "run" / "ckpt-4.h5.corrupt") << "quarantined";
  std::ofstream(directory_ / "run" / "notes-on-h5") << "somebody's";
  const json list = tool_json({"ls", directory});
  ASSERT_EQ(list["checkpoints"].size(), 3U);
  EXPECT_EQ(list["checkpoints"][0]["state"], "committed") << "`reprieve verify` finds it";
  EXPECT_EQ(list["checkpoints"][0]["problem"], nullptr);
  EXPECT_EQ(list["checkpoints"][1]["state"], "CORRUPT");
  EXPECT_THAT(list["checkpoints"][1]["problem"].get<std::string>(), HasSubstr("commit record is corrupt"));
  EXPECT_EQ(list["checkpoints"][2]["state"], "NOT A CHECKPOINT");
  EXPECT_EQ(list["checkpoints"][2]["number"], 3);
  EXPECT_EQ(list["quarantined"], json::array({(directory_ / "run" / "ckpt-4.h5.corrupt").string()}));
  const Result text = tool({"ls", directory});
  EXPECT_THAT(text.out, HasSubstr("NOT A CHECKPOINT: "));
  EXPECT_THAT(text.out, HasSubstr("quarantined as corrupt: ckpt-4.h5.corrupt\n"));
  EXPECT_THAT(text.out, Not(HasSubstr("notes")));
  EXPECT_EQ(tool({"ls", "--latest", directory}).out, file("run", 1) + "\n") << "the newest that can be read";
}

TEST_F(ToolLs, TheLatestIsOnePathForScripts) {
  const std::string directory = write("run", "plain", {9, 10, 100});
  const std::string other = write("other", "plain", {1});
  EXPECT_EQ(tool({"ls", "--latest", directory}).out, file("run", 100) + "\n");
  EXPECT_EQ(tool({"ls", "--latest", directory, other}).out, file("run", 100) + "\n" + file("other", 1) + "\n");
  EXPECT_EQ(tool_json({"ls", "--latest", directory})["checkpoints"].size(), 1U);
  fs::copy(file("other", 1), directory_ / "run" / "again-7.h5");
  EXPECT_EQ(tool({"ls", "--latest", directory}).out, file("run", 100) + "\n") << "a copy from elsewhere is older";
  const Result none = tool({"ls", "--latest", directory_.path()});
  EXPECT_EQ(none.code, 3);
  EXPECT_EQ(none.out, "");
  EXPECT_THAT(none.err, HasSubstr("there is no checkpoint in "));
}

TEST_F(ToolLs, TakesSeveralDirectories) {
  const std::string a = write("a", "plain", {1}, 1);
  const std::string b = write("b", "plain", {2}, 1);
  const json list = tool_json({"ls", a, b});
  EXPECT_EQ(list["directories"], json::array({a, b}));
  EXPECT_EQ(list["checkpoints"][1]["file"], file("b", 2));
  EXPECT_THAT(tool({"ls", a, b}).out,
              MatchesRegex(a + ":\nFILE(.|\n)*ckpt-1(.|\n)*\n\n" + b + ":\nFILE(.|\n)*ckpt-2.*\n"));
}

TEST_F(ToolLs, QuickIsGoneAndSaysWhatToDo) {
  expect_trouble({"ls", "--quick", directory_.path()}, "`reprieve verify` reads the data");
  EXPECT_THAT(tool({"ls", "--help"}).out, Not(HasSubstr("--quick")));
}

/// The file may be another user's alone: nobody else knows whether it is valid.
TEST_F(ToolLs, WhatCannotBeReadIsNotCalledInvalid) {
  const std::string directory = write("checkpoints", "plain", {1});
  std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(directory, std::filesystem::perms(0755));
  std::filesystem::permissions(file("checkpoints", 1), std::filesystem::perms::none);
  const auto as_other = [&](const std::string& command) {
    std::vector<std::string> words{program("reprieve"), command, directory};
    if (::geteuid() == 0) {
      words = joined({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, words);
    }
    Process process({words, {}});
    const std::optional<int> code = process.wait(kToolLimit);
    return Result{code.value_or(-1), process.out(), process.err()};
  };
  const Result listed = as_other("ls");
  if (listed.code == 126 || listed.code == 127) {
    GTEST_SKIP() << "another user cannot reach the build: " << listed.err;
  }
  EXPECT_THAT(listed.out, AllOf(HasSubstr("UNREADABLE: cannot open"), Not(HasSubstr("CORRUPT")))) << listed.err;
  const Result verified = as_other("verify");
  EXPECT_EQ(verified.code, 2);
  EXPECT_THAT(verified.out, AllOf(HasSubstr("ckpt-1.h5: UNREADABLE"), Not(HasSubstr("CORRUPT"))));
}

TEST_F(ToolShow, ShowsEveryKindOfVariable) {
  write("run", "plain", {5});
  const json shown = tool_json({"show", file("run", 5)});
  EXPECT_EQ(shown["number"], 5);
  EXPECT_EQ(shown["step"], 50);
  EXPECT_EQ(shown["ranks"], 2);
  EXPECT_EQ(shown["reason"]["message"], "by the test");
  EXPECT_EQ(shown["files_directory"], nullptr);
  EXPECT_THAT(tool({"--version"}).out,
              ::testing::StartsWith("reprieve " + shown["library_version"].get<std::string>() + "\n"));
  EXPECT_THAT(shown["mpi_version"].get<std::string>(), HasSubstr("MPI"));
  EXPECT_THAT(shown["hdf5_version"].get<std::string>(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  std::map<std::string, json> variables;
  for (const json& variable : shown["variables"]) {
    variables[variable["name"]] = variable;
  }
  ASSERT_EQ(variables.size(), 8U);
  EXPECT_EQ(variables["model/weights"],
            json::parse(R"({"name": "model/weights", "kind": "replicated", "type": "float64", "shape": [1000],
                            "bytes": 8000})"));
  EXPECT_EQ(variables["field"]["kind"], "distributed");
  EXPECT_EQ(variables["field"]["shape"], json::parse("[8, 100]"));
  EXPECT_EQ(variables["counts"]["kind"], "per_rank");
  EXPECT_EQ(variables["counts"]["rank_shapes"], json::parse("[[3], [4]]"));
  EXPECT_EQ(variables["position"]["shape"], json::array());
  EXPECT_EQ(variables["done"]["type"], "bool");
  EXPECT_EQ(variables["name"]["type"], "text");
  EXPECT_EQ(variables["spectrum"]["type"], "complex128");
  EXPECT_EQ(variables["engine"]["type"], "opaque");
}

TEST_F(ToolShow, IsReadable) {
  write("run", "plain", {5});
  const Result text = tool({"show", file("run", 5)});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("  step        50 (calls of run)\n"));
  EXPECT_THAT(text.out, HasSubstr("  reason      user: by the test\n"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("field +distributed +float64 +\\[8, 100\\] +6.2 KiB\n"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("counts +per_rank +int32 +\\[7\\] in all, differs by rank +28 B\n"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("position +replicated +int64 +scalar +8 B\n"));
}

// reprieve verify

class ToolVerify : public ToolTest {};

TEST_F(ToolVerify, ValidFileAndDirectory) {
  const std::string directory = write("run", "plain", {1, 2});
  const Result one = tool({"verify", file("run", 1)});
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(one.out, file("run", 1) + ": valid\n");
  EXPECT_EQ(one.err, "");  // no progress where there is no terminal
  EXPECT_EQ(tool({"verify", directory}).out, file("run", 1) + ": valid\n" + file("run", 2) + ": valid\n");
  const json all = tool_json({"verify", directory});
  EXPECT_EQ(all["valid"], true);
  EXPECT_EQ(all["files"].size(), 2U);
}

TEST_F(ToolVerify, NamesCorruptVariableAndRegion) {
  const std::string directory = write("run", "plain", {1, 2});
  corrupt_value(file("run", 1), kRareWeight);
  const Result text = tool({"verify", file("run", 1)});
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out, HasSubstr(": CORRUPT in 1 place\n  model/weights, "));
  const json all = tool_json({"verify", directory}, 1);
  EXPECT_EQ(all["valid"], false);
  EXPECT_EQ(all["files"][0]["valid"], false);
  ASSERT_EQ(all["files"][0]["corruptions"].size(), 1U);
  EXPECT_EQ(all["files"][0]["corruptions"][0]["variable"], "model/weights");
  EXPECT_NE(all["files"][0]["corruptions"][0]["region"], "");
  EXPECT_EQ(all["files"][1]["valid"], true);
}

/// Text, an HDF5 file of another program, and nothing at all: said once, and not called corrupt.
TEST_F(ToolVerify, AFileOfAnotherKindIsNoCheckpoint) {
  const std::string checkpoint = write("run", "plain", {1}, 1) + "/ckpt-1.h5";
  const std::string foreign = directory_ / "ckpt-7.h5";
  for (const std::string& content : {std::string(100'000, 'x'), "\x89HDF\r\n\x1a\n" + std::string(10'000, '\x01'),
                                     std::string("short"), std::string()}) {
    std::ofstream(foreign, std::ios::binary) << content;
    const std::string message = foreign + " is not a checkpoint";
    expect_trouble({"show", foreign}, message);
    expect_trouble({"diff", foreign, checkpoint}, message);
    expect_trouble({"diff", checkpoint, foreign}, message);
    const Result verified = tool({"verify", foreign});
    EXPECT_EQ(verified.code, 2);
    EXPECT_THAT(verified.out,
                AllOf(HasSubstr(foreign + ": NOT A CHECKPOINT: it is empty, or"), Not(HasSubstr("CORRUPT"))));
    EXPECT_EQ(std::ranges::count(verified.out, '\n'), 1);
    EXPECT_EQ(tool_json({"verify", foreign}, 2)["files"][0]["state"], "NOT A CHECKPOINT");
    expect_trouble({"xdmf", directory_.path(), "--output", directory_ / "x.xdmf"}, message);
  }
}

/// Its head is gone or wrong, or it was cut: it was a checkpoint all the same.
TEST_F(ToolVerify, AHeadThatIsCorruptIsNotAnotherKindOfFile) {
  write("run", "plain", {1}, 1);
  const std::string whole = read_text(file("run", 1));
  const auto expect_corrupt = [&](const std::string& content) {
    std::ofstream(file("run", 1), std::ios::binary) << content;
    const Result verified = tool({"verify", file("run", 1)});
    EXPECT_EQ(verified.code, 1);
    EXPECT_THAT(verified.out, HasSubstr("CORRUPT in 1 place"));
    EXPECT_EQ(tool({"show", file("run", 1)}).code, 5);
  };
  expect_corrupt(std::string(4096, '\0') + whole.substr(4096));
  expect_corrupt(std::string(4096, 'x') + whole.substr(4096));
  expect_corrupt(std::string(whole.size(), '\0'));
  expect_corrupt(whole.substr(0, 100));
  expect_corrupt(whole.substr(0, whole.size() / 2));
  expect_corrupt(whole.substr(0, 4000) + std::string(200, 'x') + whole.substr(4200));
}

TEST_F(ToolVerify, TakesFilesAndDirectories) {
  const std::string a = write("a", "plain", {1}, 1);
  write("b", "plain", {1, 2}, 1);
  corrupt_value(file("b", 2), kRareWeight);
  EXPECT_EQ(tool({"verify", a, file("b", 1)}).out, file("a", 1) + ": valid\n" + file("b", 1) + ": valid\n");
  EXPECT_EQ(tool_json({"verify", file("b", 2), a}, 1)["files"].size(), 2U);
  expect_trouble({"verify", a, directory_ / "none"}, "does not exist", 3);
}

TEST_F(ToolVerify, DirectoryWithoutCheckpointsGivesThree) {
  expect_trouble({"verify", directory_.path()}, "there is no checkpoint in " + directory_.path().string(), 3);
}

/// Somebody else may have chosen them: they must neither steer the terminal nor look like a line of the tool.
TEST_F(ToolVerify, NamesOfFilesAreEscaped) {
  write("checkpoints", "plain", {1});
  const std::string evil = "a\x1b[2J\u009b\nckpt-99.h5: valid";
  const std::string directory = directory_ / evil;
  fs::rename(directory_ / "checkpoints", directory);
  const std::string checkpoint = directory + "/" + evil + "-1.h5";
  fs::rename(directory + "/ckpt-1.h5", checkpoint);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"verify", directory},
                                             {"verify", checkpoint},
                                             {"show", checkpoint},
                                             {"diff", checkpoint, checkpoint},
                                             {"ls", directory},
                                             {"status", directory},
                                             {"prune", directory, "--keep", "1", "--dry-run"},
                                             {"ls", directory + "/none"},
                                             {"verify", directory + "/none"},
                                             {"show", directory}}) {
    const Result result = tool(command);
    const std::string text = result.out + result.err;
    EXPECT_THAT(text, Not(AnyOf(HasSubstr("\x1b"), HasSubstr("\u009b"), HasSubstr("\nckpt-99")))) << command[0];
    if (command[0] != "status") {  // it cuts long names at the front
      EXPECT_THAT(text, HasSubstr("a\\x1b[2J\\xc2\\x9b\\x0ackpt-99")) << command[0];
    }
  }
}

TEST_F(ToolVerify, WhatIsNoFileGivesTwo) { EXPECT_EQ(tool({"verify", "/dev/null"}).code, 2); }

// reprieve diff

class ToolDiff : public ToolTest {
 protected:
  /// Compares the plain state, or another one, with a variant; both the JSON and the text are kept.
  void compare(const std::string& variant, int code, const std::string& other = "plain") {
    if (!std::filesystem::exists(file("of_" + other, 1))) {
      write("of_" + other, other, {1});
    }
    write(variant, variant, {2});
    report_ = tool_json({"diff", file("of_" + other, 1), file(variant, 2)}, code);
    text_ = tool({"diff", file("of_" + other, 1), file(variant, 2)}).out;
  }

  /// The only difference found.
  json only_difference() {
    EXPECT_EQ(report_["differences"].size(), 1U) << report_;
    return report_["differences"][0];
  }

  json report_;
  std::string text_;
};

TEST_F(ToolDiff, EqualStatesOfDifferentSaves) {
  compare("plain", 0);
  EXPECT_EQ(report_["equal"], true);
  EXPECT_EQ(report_["variables"], 8);
  EXPECT_EQ(report_["differences"], json::array());
  EXPECT_THAT(text_, HasSubstr("equal: 8 variables, "));
}

TEST_F(ToolDiff, SaysWhereAndHowMuchNumbersDiffer) {
  compare("weights", 1);
  EXPECT_EQ(report_["equal"], false);
  const json difference = only_difference();
  EXPECT_EQ(difference["variable"], "model/weights");
  EXPECT_EQ(difference["problem"], "values");
  EXPECT_EQ(difference["elements"], 1000);
  EXPECT_EQ(difference["different_elements"], 2);
  EXPECT_EQ(difference["first_index"], json::array({7}));
  EXPECT_EQ(difference["first_rank"], nullptr);
  EXPECT_EQ(difference["max_abs_difference"], 1.5);
  EXPECT_EQ(difference["max_rel_difference"], 1.5 / 4.5);
  EXPECT_EQ(difference["not_finite"], 0);
  EXPECT_THAT(text_, HasSubstr("different: 1 of 8 variables\n"));
  EXPECT_THAT(text_, HasSubstr("2 of 1000 elements, first at [7]; max abs 1.5, max rel 0.333\n"));
}

TEST_F(ToolDiff, IndicesAreGlobalOrNameTheRankAndNaNIsCountedApart) {
  compare("field", 1);
  EXPECT_EQ(only_difference()["first_index"], json::array({7, 17}));
  EXPECT_NEAR(only_difference()["max_abs_difference"], 1e-6, 1e-9);
  compare("counts", 1);
  EXPECT_EQ(only_difference()["first_rank"], 1);
  EXPECT_EQ(only_difference()["first_index"], json::array({2}));
  EXPECT_EQ(only_difference()["max_abs_difference"], 10.0);
  EXPECT_THAT(text_, HasSubstr("1 of 7 elements, first at rank 1 [2]"));
  compare("nan", 1);
  EXPECT_EQ(only_difference()["different_elements"], 1);
  EXPECT_EQ(only_difference()["not_finite"], 1);
  EXPECT_EQ(only_difference()["max_abs_difference"], nullptr);
  EXPECT_THAT(text_, HasSubstr("1 by NaN or infinity"));
}

TEST_F(ToolDiff, OtherTypesThanRealNumbers) {
  compare("several", 1);
  std::map<std::string, json> found;
  for (const json& difference : report_["differences"]) {
    found[difference["variable"]] = difference;
  }
  ASSERT_EQ(found.size(), 4U) << report_;
  EXPECT_EQ(found["done"]["different_elements"], 1);
  EXPECT_EQ(found["done"]["first_index"], json::array());
  EXPECT_EQ(found["done"]["max_abs_difference"], nullptr);
  EXPECT_EQ(found["name"]["first_index"], json::array({5}));
  EXPECT_EQ(found["spectrum"]["max_abs_difference"], 5.0);
  EXPECT_EQ(found["engine"]["problem"], "values");
  EXPECT_EQ(found["engine"]["first_rank"], 0);
  EXPECT_THAT(found["engine"]["hint"].get<std::string>(), testing::MatchesRegex("bytes [0-9, -]+"));
}

TEST_F(ToolDiff, SaysWhichBytesOfARecordDiffer) {
  compare("nodes_elsewhere", 1, "nodes");
  EXPECT_EQ(only_difference()["hint"], "bytes 1, 8-15 (look like a pointer) of records of 16 bytes");
  EXPECT_THAT(text_, HasSubstr("first at rank 0 [0]; bytes 1, 8-15 (look like a pointer)"));
}

TEST_F(ToolDiff, SaysThatAListIsInAnotherOrder) {
  compare("nodes_in_other_order", 1, "nodes");
  EXPECT_EQ(only_difference()["hint"], "the same values in another order: sort them by a key");
}

TEST_F(ToolDiff, WhatIsOfAnotherForm) {
  const std::vector<std::array<std::string, 3>> forms{
      {"shape", "shape", "shape: [1000] in A, [999] in B"},
      {"rank_shape", "shape", "shape: [4] on rank 1 in A, [5] on rank 1 in B"},
      {"type", "type", "type: float64 in A, float32 in B"},
      {"kind", "kind", "kind: replicated in A, per_rank in B"},
  };
  for (const auto& [variant, problem, text] : forms) {
    compare(variant, 1);
    EXPECT_EQ(only_difference()["problem"], problem) << variant;
    EXPECT_THAT(text_, HasSubstr(text)) << variant;
  }
}

TEST_F(ToolDiff, OnlyInOne) {
  compare("missing", 1);
  EXPECT_EQ(only_difference()["problem"], "only_in_a");
  const json other_way = tool_json({"diff", file("missing", 2), file("of_plain", 1)}, 1);
  EXPECT_EQ(other_way["differences"][0]["problem"], "only_in_b");
}

TEST_F(ToolDiff, NumberOfRanksCountsForPerRankVariablesOnly) {
  write("a", "plain", {1}, 2);
  write("b", "plain", {1}, 3);
  const json report = tool_json({"diff", file("a", 1), file("b", 1)}, 1);
  std::vector<std::string> names;
  for (const json& difference : report["differences"]) {
    EXPECT_EQ(difference["problem"], "shape");
    EXPECT_EQ(difference["a"], "2 ranks");
    EXPECT_EQ(difference["b"], "3 ranks");
    names.push_back(difference["variable"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"counts", "engine"}));
}

TEST_F(ToolDiff, ACorruptFileIsNotCompared) {
  write("a", "plain", {1, 2});
  corrupt_value(file("a", 2), kRareWeight);
  expect_trouble({"diff", file("a", 1), file("a", 2)}, "is corrupt, so it cannot be compared: model/weights", 5);
}

// reprieve prune

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class ToolPrune : public ToolTest {
 protected:
  /// The names of the checkpoints and of what belongs to them, sorted.
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_ / "run")) {
      if (const std::string name = entry.path().filename(); name.find('-') != std::string::npos) {
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(ToolPrune, KeepsTheNewest) {
  const std::string directory = write("run", "plain", {1, 2, 3, 10});
  const Result result = tool({"prune", directory, "--keep", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(left(), ElementsAre("ckpt-10.h5", "ckpt-3.h5"));
  EXPECT_THAT(result.out, HasSubstr("removed       ckpt-1.h5\nremoved       ckpt-2.h5\n"));
  EXPECT_EQ(tool({"verify", directory}).code, 0);
}

TEST_F(ToolPrune, DryRunRemovesNothing) {
  const std::string directory = write("run", "plain", {1, 2, 3});
  const std::uintmax_t size = fs::file_size(file("run", 1)) + fs::file_size(file("run", 2));
  const json plan = tool_json({"prune", directory, "--keep", "1", "--dry-run"});
  EXPECT_EQ(plan["removed"], json::array({file("run", 1), file("run", 2)}));
  EXPECT_EQ(plan["kept"], json::array({file("run", 3)}));
  EXPECT_EQ(plan["dry_run"], true);
  EXPECT_EQ(plan["freed_bytes"], size);
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5", "ckpt-3.h5"));
  EXPECT_THAT(tool({"prune", directory, "--keep", "1", "--dry-run"}).out, HasSubstr("would remove  ckpt-1.h5"));
}

TEST_F(ToolPrune, NeverRemovesTheNewestValid) {
  const std::string directory = write("run", "plain", {1, 2, 3, 4});
  corrupt_value(file("run", 3), kRareWeight);
  std::ofstream(file("run", 4), std::ios::trunc) << "cut";
  const json done = tool_json({"prune", directory, "--keep", "1"});
  EXPECT_EQ(done["kept"], json::array({file("run", 2)}));
  EXPECT_EQ(done["removed"], json::array({file("run", 1)}));
  EXPECT_EQ(done["corrupt"], json::array({file("run", 3), file("run", 4)}));
  EXPECT_THAT(left(), ElementsAre("ckpt-2.h5", "ckpt-3.h5", "ckpt-4.h5"));
}

TEST_F(ToolPrune, RemovesNothingIfNothingIsValid) {
  const std::string directory = write("run", "plain", {1, 2});
  corrupt_value(file("run", 1), kRareWeight);
  corrupt_value(file("run", 2), kRareWeight);
  expect_trouble({"prune", directory, "--keep", "1"}, "is valid, so none is removed", 5);
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5"));
}

TEST_F(ToolPrune, RefusesWhileARunUsesTheDirectory) {
  const std::string directory = directory_ / "run";
  Mpirun run({.ranks = 2, .arguments = {program("e2e_writer"), directory, "hold", "1", "2", "3"}});
  ASSERT_TRUE(wait_until([&] { return run.out().find("holding") != std::string::npos; }, 120s)) << run.err();
  expect_trouble({"prune", directory, "--keep", "1"}, "is in use by the run of process", 4);
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5", "ckpt-3.h5"));
  EXPECT_EQ(tool({"prune", directory, "--keep", "1", "--dry-run"}).code, 0);
  run.send_to_ranks(SIGKILL);
  ASSERT_TRUE(run.wait(60s) && run.wait_for_descendants(60s));
  EXPECT_EQ(tool({"prune", directory, "--keep", "1"}).code, 0);
  EXPECT_THAT(left(), ElementsAre("ckpt-3.h5"));
}

TEST_F(ToolPrune, RemovesTheFilesOfACheckpointWithIt) {
  const std::string directory = write("run", "plain", {1, 2});
  fs::create_directory(directory_ / "run" / "ckpt-1.files");
  std::ofstream(directory_ / "run" / "ckpt-1.files" / "notes") << "of the save function";
  EXPECT_EQ(tool({"prune", directory, "--keep", "1"}).code, 0);
  EXPECT_THAT(left(), ElementsAre("ckpt-2.h5"));
}

TEST_F(ToolPrune, AsksWhichKindIfThereAreSeveral) {
  const std::string directory = write("run", "plain", {1, 2, 3});
  fs::rename(file("run", 3), directory_ / "run" / "other-3.h5");
  expect_trouble({"prune", directory, "--keep", "1"}, "choose one with --prefix: ckpt, other");
  EXPECT_EQ(tool({"prune", directory, "--keep", "1", "--prefix", "ckpt"}).code, 0);
  EXPECT_THAT(left(), ElementsAre("ckpt-2.h5", "other-3.h5"));
}

TEST_F(ToolPrune, KeepMustBePositive) {
  const std::string directory = write("run", "plain", {1}, 1);
  for (const std::string keep : {"0", "-1", "all"}) {
    EXPECT_EQ(tool({"prune", directory, "--keep=" + keep}).code, 2) << keep;
  }
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5"));
}

// reprieve unquarantine

class ToolUnquarantine : public ToolTest {
 protected:
  void quarantine(int number, const std::string& suffix) const {
    fs::rename(file("run", number), file("run", number) + suffix);
  }
};

TEST_F(ToolUnquarantine, TakesBackWhatIsValidAndLeavesTheRest) {
  const std::string directory = write("run", "plain", {1, 2, 3});
  corrupt_value(file("run", 2), kRareWeight);
  quarantine(2, ".corrupt");
  quarantine(3, ".corrupt.2");
  const Result plan = tool({"unquarantine", directory, "--dry-run"});
  EXPECT_EQ(plan.code, 1) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("valid       ckpt-3.h5.corrupt.2: ckpt-3.h5\n"));
  EXPECT_FALSE(fs::exists(file("run", 3)));

  const Result done = tool({"unquarantine", directory});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_THAT(done.out, HasSubstr("taken back  ckpt-3.h5.corrupt.2: ckpt-3.h5\n"));
  EXPECT_THAT(done.out, HasSubstr("stays       ckpt-2.h5.corrupt: model/weights"));
  EXPECT_TRUE(fs::exists(file("run", 3)));
  EXPECT_TRUE(fs::exists(file("run", 2) + ".corrupt"));
  EXPECT_EQ(tool({"verify", directory}).code, 0);
}

TEST_F(ToolUnquarantine, NeverReplacesACheckpoint) {
  const std::string directory = write("run", "plain", {1, 2});
  fs::copy(file("run", 1), file("run", 2) + ".corrupt");
  const auto result = tool_json({"unquarantine", directory}, 1);
  EXPECT_EQ(result["files"][0]["valid"], false);
  EXPECT_THAT(result["files"][0]["problem"].get<std::string>(), HasSubstr("is there already"));
  EXPECT_TRUE(fs::exists(file("run", 2) + ".corrupt"));
  EXPECT_EQ(tool({"unquarantine", directory, "--prefix", "other"}).code, 0);
}

TEST_F(ToolUnquarantine, FilesOfASaveFunctionComeBackToo) {
  const std::string directory = write("run", "plain", {1});
  quarantine(1, ".corrupt");
  fs::create_directory(directory + "/ckpt-1.files.corrupt");
  std::ofstream(directory + "/ckpt-1.files.corrupt/notes.txt") << "x";
  EXPECT_EQ(tool({"unquarantine", directory}).code, 0);
  EXPECT_TRUE(fs::exists(file("run", 1)));
  EXPECT_TRUE(fs::exists(directory + "/ckpt-1.files/notes.txt"));
  EXPECT_THAT(tool({"unquarantine", directory}).out, HasSubstr("no checkpoint was quarantined"));
}

// reprieve sbatch-template: scripts that a shell can read and that say what was asked for.

using ::testing::StartsWith;

class SbatchTemplate : public ToolTest {
 protected:
  /// The script; fails the test unless bash can read it.
  static std::string script(std::vector<std::string> options) {
    options.insert(options.begin(), "sbatch-template");
    const Result printed = tool(options);
    EXPECT_EQ(printed.code, 0) << printed.err;
    const TemporaryDirectory directory;
    std::ofstream(directory / "job") << printed.out;
    Process bash({{"bash", "-n", directory / "job"}});
    EXPECT_EQ(bash.wait(60s), 0) << bash.err();
    return printed.out;
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

TEST_F(SbatchTemplate, IsAlsoJson) { EXPECT_EQ(tool_json({"sbatch-template"})["script"], script({})); }

TEST_F(SbatchTemplate, WithoutRequeue) {
  EXPECT_THAT(script({"--requeue", "none"}),
              AllOf(HasSubstr("#SBATCH --no-requeue\n"), Not(HasSubstr("--requeue\n#"))));
}

TEST_F(SbatchTemplate, RefusesLineBreaks) { EXPECT_EQ(tool({"sbatch-template", "--name", "a\nrm -rf /"}).code, 2); }

}  // namespace
}  // namespace reprieve::test
