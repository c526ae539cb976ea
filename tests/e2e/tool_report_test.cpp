// SPDX-License-Identifier: BSD-3-Clause
// `reprieve report` of real runs of the trainer, and the files that it writes.

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
using ::testing::EndsWith;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ToolReport : public TrainerTest {
 protected:
  struct Answer {
    int code = -1;
    std::string out;
    std::string err;
  };

  [[nodiscard]] static Answer report(const Options& options) {
    Command command{{program("reprieve"), "report"}};
    command.arguments.insert(command.arguments.end(), options.begin(), options.end());
    Process tool(command);
    const int code = tool.wait(kHang).value_or(-1);
    return {code, tool.out(), tool.err()};
  }

  [[nodiscard]] nlohmann::json report_json() const {
    const Answer answer = report({checkpoints_.string(), "--json"});
    EXPECT_EQ(answer.code, 0) << answer.err;
    return nlohmann::json::parse(answer.out, nullptr, false);
  }

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

  const auto runs = report_json();
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
  const Answer refused = report({checkpoints_.string(), "--out", page});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("is not from an earlier report: it is left as it is"));
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
  const Answer both = report({checkpoints_.string(), "--json", "--out", "-"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("standard output takes one of"));
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

TEST_F(ToolReport, TooLittleToGoBy) {
  EXPECT_THAT(report({directory_ / "nothing"}).err, HasSubstr("does not exist"));
  const Answer empty = report({directory_.path()});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, HasSubstr("there is no run"));
  write_log();
  const Answer no_place = report({directory_.path(), "--out", directory_ / "no/such/page.html"});
  EXPECT_EQ(no_place.code, 2);
  EXPECT_THAT(no_place.err, HasSubstr("cannot write"));
}

}  // namespace
}  // namespace reprieve::test
