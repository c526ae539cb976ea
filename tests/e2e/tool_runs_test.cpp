// SPDX-License-Identifier: BSD-3-Clause
// `reprieve advise` and `reprieve report` with the event logs of real runs of the trainer.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <tinyxml2.h>

#include <filesystem>
#include <fstream>

#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

/// The tool with a directory in which the trainer has run.
class ToolOnRuns : public TrainerTest {
 protected:
  struct Answer {
    int code = -1;
    std::string out;
    std::string err;
  };

  static Answer tool(const std::string& subcommand, const Options& options) {
    Process process({joined({program("reprieve"), subcommand}, options)});
    const int code = process.wait(kHang).value_or(-1);
    return {code, process.out(), process.err()};
  }

  /// The tool refuses: with this code, and these words on standard error.
  static void expect_trouble(const std::string& subcommand, const Options& options, const std::string& words,
                             int code = 2) {
    const Answer answer = tool(subcommand, options);
    EXPECT_EQ(answer.code, code) << answer.out;
    EXPECT_THAT(answer.err, HasSubstr(words));
  }

  [[nodiscard]] nlohmann::json tool_json(const std::string& subcommand, Options options = {}) const {
    options.insert(options.end(), {checkpoints_.string(), "--json"});
    const Answer answer = tool(subcommand, options);
    EXPECT_EQ(answer.code, 0) << answer.out << answer.err;
    auto parsed = nlohmann::json::parse(answer.out, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << answer.out;
    return parsed;
  }

  [[nodiscard]] Answer advise(Options options) const {
    options.insert(options.begin(), checkpoints_.string());
    return tool("advise", options);
  }

  void expect_advice() const {
    const auto answer = tool_json("advise");
    const auto& measured = answer["measured"];
    EXPECT_EQ(measured["runs"], 3);
    EXPECT_EQ(measured["preempted"], 1);
    EXPECT_EQ(measured["failed"], 1);
    EXPECT_EQ(measured["finished"], 1);
    EXPECT_EQ(measured["saves"], events("save_finished").size());
    // The delay of 100 ms in each step of the slow runs, and more.
    EXPECT_GE(measured["step_longest_s"].get<double>(), 0.1);
    EXPECT_GT(measured["step_mean_s"].get<double>(), 0);
    EXPECT_GE(measured["steps"], 16) << "two runs saved twice, every 4 steps";

    const auto& interval = answer["checkpoint_interval"];
    EXPECT_EQ(interval["mtbf_source"], "measured");
    EXPECT_EQ(interval["mtbf_s"], measured["observed_s"]);
    EXPECT_GT(interval["interval_s"].get<double>(), 0);
    EXPECT_THAT(interval["lost_fraction"].get<double>(), AllOf(Ge(0), Lt(1)));
    EXPECT_GE(interval["present_s"].get<double>(), 0.4);

    const auto& notice = answer["notice"];
    EXPECT_GE(notice["wait_s"], measured["step_longest_s"]);
    EXPECT_GE(notice["signal_lead_s"], 40);
  }
};

using ToolAdvise = ToolOnRuns;

TEST_F(ToolAdvise, GraceAndTextForPeople) {
  ASSERT_EQ(run(2, {"--checkpoint-every", "50"}).code, 0);
  EXPECT_TRUE(tool_json("advise", {"--grace", "1h", "--mtbf", "1d"})["grace"]["two_saves_fit"]);
  const Answer enough = advise({"--grace", "1h", "--mtbf", "1d"});
  EXPECT_EQ(enough.code, 0);
  EXPECT_THAT(enough.out, AllOf(HasSubstr("enough for two saves"), HasSubstr("#SBATCH --signal=B:URG@"),
                                HasSubstr("\"save_every_steps\""), HasSubstr("Daly 2006")));
  const Answer short_grace = advise({"--grace", "1s"});
  EXPECT_EQ(short_grace.code, 1);
  EXPECT_THAT(short_grace.out, HasSubstr("TOO SHORT"));
  EXPECT_THAT(short_grace.out, HasSubstr("give --mtbf"));
}

TEST_F(ToolAdvise, TooLittleToGoBy) {
  const Answer no_directory = advise({});
  EXPECT_EQ(no_directory.code, 3);
  EXPECT_THAT(no_directory.err, HasSubstr("does not exist"));
  std::filesystem::create_directory(checkpoints_);
  const Answer no_log = advise({});
  EXPECT_EQ(no_log.code, 3);
  EXPECT_THAT(no_log.err, HasSubstr("has no event log"));
  std::ofstream(checkpoints_ / "events.jsonl") << "{\"event\":\"start\"}\nno JSON\n";
  const Answer no_save = advise({});
  EXPECT_EQ(no_save.code, 2);
  EXPECT_THAT(no_save.out, HasSubstr("no save is on record"));
}

// `reprieve report` of real runs of the trainer, and the files that it writes.

using ::testing::EndsWith;
using ::testing::StartsWith;

class ToolReport : public ToolOnRuns {
 protected:
  [[nodiscard]] static Answer report(const Options& options) { return tool("report", options); }

  /// An event log in place of a run, for tests of what is done with the page.
  void write_log() const {
    std::filesystem::create_directories(checkpoints_);
    std::ofstream(checkpoints_ / "events.jsonl")
        << R"({"event":"start","time":"2026-03-01T12:00:00.000000Z","monotonic_s":1,"host":"<script>"})" << '\n'
        << R"({"event":"ready","time":"2026-03-01T12:00:01.000000Z","monotonic_s":2,"run_calls":0})" << '\n'
        << R"({"event":"fini)";
  }
};

TEST_F(ToolReport, OfARunThatWasPreemptedKilledAndFinished) {
  const auto preempted = start_and_wait(2, 2);
  ASSERT_TRUE(preempted->send_to_rank(1, SIGTERM));
  static_cast<void>(expect_preempted(*preempted));
  const auto killed = start_and_wait(2, 2);
  ASSERT_TRUE(killed->send_to_rank(0, SIGKILL));
  static_cast<void>(finish(*killed));
  ASSERT_EQ(run(2).code, 0);
  expect_advice();
  const auto runs = tool_json("report").at("runs");
  ASSERT_EQ(runs.size(), 1U);
  const auto& told = runs[0];
  EXPECT_EQ(told["status"]["state"], "finished");
  ASSERT_EQ(told["starts"].size(), 3U);
  EXPECT_EQ(told["starts"][0]["ending"], "saved");
  EXPECT_THAT(told["starts"][0]["why"].get<std::string>(), HasSubstr("SIGTERM"));
  EXPECT_EQ(told["starts"][1]["ending"], "killed");
  EXPECT_EQ(told["starts"][2]["ending"], "finished");
  EXPECT_EQ(told["starts"][1]["step_from"], told["starts"][0]["step_to"]);
  EXPECT_EQ(told["starts"][2]["step_to"], 200);
  EXPECT_EQ(told["kept_steps"], 200) << "every step was kept once";
  EXPECT_EQ(told["saves"].size(), events("save_finished").size());
  ASSERT_EQ(told["notices"].size(), 1U);
  EXPECT_GT(told["notices"][0]["committed_s"].get<double>(), 0);
  // Two slow starts of eight steps and more, 100 ms each.
  EXPECT_THAT(told["times"]["kept_s"].get<double>(), Ge(1.6));
  EXPECT_GT(told["times"]["queue_s"].get<double>() + told["times"]["unknown_s"].get<double>(), 0);

  const std::string page = directory_ / "page.html";
  const Answer answer = report({checkpoints_.string(), "--out", page});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, page + ": the report of 1 run\n");
  tinyxml2::XMLDocument document;
  EXPECT_EQ(document.LoadFile(page.c_str()), tinyxml2::XML_SUCCESS) << document.ErrorStr();
  const auto* const data = document.RootElement()->FirstChildElement("body")->FirstChildElement("script");
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(nlohmann::json::parse(data->GetText())[0]["starts"], told["starts"]);
}

TEST_F(ToolReport, WritesOverItsOwnPagesOnly) {
  write_log();
  const std::string page = directory_ / "page.html";
  ASSERT_EQ(report({checkpoints_.string(), "--out", page}).code, 0);
  const std::string first = read_text(page);
  EXPECT_THAT(first, AllOf(HasSubstr("\\u003cscript\\u003e"), EndsWith("</html>\n")));
  EXPECT_EQ(report({checkpoints_.string(), "--out", page}).code, 0);
  std::ofstream(page) << "my notes\n";
  expect_trouble("report", {checkpoints_.string(), "--out", page},
                 "is not from an earlier report: it is left as it is");
  EXPECT_EQ(read_text(page), "my notes\n");
  // A page is no file of numbers, and a device is neither.
  EXPECT_EQ(report({checkpoints_.string(), "--prometheus", page}).code, 2);
  EXPECT_EQ(report({checkpoints_.string(), "--out", "/dev/null"}).code, 2);
  std::error_code error;
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null", error));
  // Nothing temporary is left, and the page may be read by whoever may read other new files.
  std::filesystem::remove(page);
  ASSERT_EQ(report({checkpoints_.string(), "--out", page}).code, 0);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    files += entry.is_regular_file() ? 1U : 0U;
  }
  EXPECT_EQ(files, 1U);
  struct stat status {};
  ASSERT_EQ(::stat(page.c_str(), &status), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(status.st_mode & 0777U, 0666U & ~mask);
}

TEST_F(ToolReport, ToStandardOutput) {
  write_log();
  EXPECT_THAT(report({checkpoints_.string(), "--out", "-"}).out, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(report({checkpoints_.string(), "--prometheus", "-"}).out, StartsWith("# HELP reprieve_run_state"));
  EXPECT_THAT(report({checkpoints_.string(), "--openmetrics", "-"}).out, EndsWith("# EOF\n"));
  expect_trouble("report", {checkpoints_.string(), "--json", "--out", "-"}, "standard output takes one of");
}

TEST_F(ToolReport, NumbersAloneMakeNoPage) {
  write_log();
  const std::string numbers = directory_ / "reprieve.prom";
  const Answer answer = report({checkpoints_.string(), "--prometheus", numbers});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, "");
  EXPECT_THAT(read_text(numbers), HasSubstr("reprieve_starts_total{directory=\"" + checkpoints_.string() + "\"} 1\n"));
  EXPECT_FALSE(std::filesystem::exists("report.html"));
}

TEST_F(ToolReport, StatusIsWatchedByKeysOnATerminal) {
  write_log();
  // Each key comes after a picture: the next order, and Ctrl-C for the end.
  const std::string keys = "(sleep 1; printf s; sleep 1; printf '\\003'; sleep 1)";
  const std::string watch = program("reprieve") + " status " + checkpoints_.string() + " --watch --interval 10min";
  Process process({.arguments = {"sh", "-c", keys + " | script -qec '" + watch + "' /dev/null"}});
  EXPECT_EQ(process.wait(kHang), 0);
  EXPECT_THAT(process.out(), AllOf(HasSubstr(", by name"), HasSubstr(", by state"), HasSubstr("AT RISK")));
}

TEST_F(ToolReport, TooLittleToGoBy) {
  EXPECT_THAT(report({directory_ / "nothing"}).err, HasSubstr("does not exist"));
  expect_trouble("report", {directory_.path()}, "there is no run", 3);
  write_log();
  expect_trouble("report", {directory_.path(), "--out", directory_ / "no/such/page.html"}, "cannot write");
}

// `reprieve` on a machine without MPI and HDF5, such as a login node before `module load`.

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
