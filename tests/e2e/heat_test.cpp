// SPDX-License-Identifier: BSD-3-Clause
// The heat equation is preempted at random steps and continues with other numbers of ranks: the restored field is the
// saved one, and the final one that of a run that was left alone, bit by bit.

#include <gmock/gmock.h>
#include <signal.h>
#include <tinyxml2.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "e2e/limits.hpp"
#include "support/process.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using Options = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr int kSteps = 1200;
/// Of runs that nothing disturbs, on many ranks for each core: a wrong layer of a neighbour's is seen in the first
/// steps.
constexpr int kStepsOfComparison = 200;
/// Of a job that is to be stopped: left alone, it would last 6 s and more.
constexpr int kStepDelayMs = 5;

class HeatTest : public ::testing::Test {
 protected:
  struct Result {
    int code = -1;  ///< of mpirun; -1: it hung
    std::string text;
    Json summary;  ///< null if the run wrote none
  };

  /// Uneven in every dimension, so that the boxes of the ranks differ.
  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, const Options& options) const {
    fs::remove(summary_);
    Options words{program("reprieve-heat"), "--checkpoint-dir", checkpoints_, "--summary", summary_};
    words = joined(words, words_of("--steps " + std::to_string(steps_) + " --boundary " + boundary_));
    for (const auto& [name, value] : {std::pair("--grid", "19,17,23"), std::pair("--modes", "2,1,1")}) {
      if (std::find(options.begin(), options.end(), name) == options.end()) {
        words.insert(words.end(), {name, value});
      }
    }
    return std::make_unique<Mpirun>(MpiCommand{.ranks = ranks, .arguments = joined(words, options)});
  }

  [[nodiscard]] Result finish(Mpirun& job) const {
    const int code = job.wait(kHang).value_or(-1);
    const std::string summary = read_text(summary_);
    return {code, job.out() + job.err(), summary.empty() ? Json() : Json::parse(summary)};
  }

  [[nodiscard]] Result run(int ranks, const Options& options = {}) const { return finish(*start(ranks, options)); }

  /// Starts with so many ranks, and tells one of them that it will end, some time later.
  [[nodiscard]] Result run_and_preempt(int ranks, int told_rank, std::chrono::milliseconds after) const {
    const std::size_t before = times_ready(checkpoints_);
    const auto job = start(ranks, {"--step-delay-ms", std::to_string(kStepDelayMs)});
    static_cast<void>(wait_until([&] { return times_ready(checkpoints_) > before || !job->running(); }, kHang));
    std::this_thread::sleep_for(after);
    EXPECT_TRUE(job->send_to_rank(told_rank, SIGTERM)) << job->out() << job->err();
    return finish(*job);
  }

  void start_anew() const { fs::remove_all(checkpoints_); }

  TemporaryDirectory directory_;
  std::string checkpoints_ = directory_ / "checkpoints";
  std::string summary_ = directory_ / "summary.json";
  std::string boundary_ = "dirichlet";
  int steps_ = kSteps;
};

const std::vector<int> kRanks{1, 2, 3, 4, 6, 8};

TEST_F(HeatTest, EveryNumberOfRanksComesToTheSameBits) {
  steps_ = kStepsOfComparison;
  for (const std::string boundary : {"dirichlet", "periodic"}) {
    boundary_ = boundary;
    Json digest;
    for (const int ranks : kRanks) {
      start_anew();
      const Result result = run(ranks);
      ASSERT_EQ(result.code, 0) << result.text;
      EXPECT_EQ(result.summary["step"], steps_);
      EXPECT_NEAR(result.summary["error"].get<double>(), result.summary["expected_error"].get<double>(), 1e-13);
      digest = digest.is_null() ? result.summary["digest"] : digest;
      EXPECT_EQ(result.summary["digest"], digest) << boundary << ", " << ranks << " ranks";
    }
  }
}

TEST_F(HeatTest, AnotherSplitByHandComesToTheSameBits) {
  steps_ = kStepsOfComparison;
  const Json digest = run(1).summary["digest"];
  for (const std::string split : {"4,1,1", "1,4,1", "1,1,4", "0,2,1"}) {
    start_anew();
    const Result result = run(4, {"--ranks", split});
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_EQ(result.summary["digest"], digest) << split;
  }
}

// With one point or two in a dimension a rank's first layer is its last one too, and both neighbours may be the same
// rank.
TEST_F(HeatTest, ThinBoxesComeToTheSameBits) {
  steps_ = kStepsOfComparison;
  for (const std::string boundary : {"dirichlet", "periodic"}) {
    boundary_ = boundary;
    Json digest;
    for (const int ranks : {1, 6, 8}) {
      start_anew();
      const Result result = run(ranks, {"--grid", "3,3,3", "--modes", "1,1,1"});
      ASSERT_EQ(result.code, 0) << result.text;
      digest = digest.is_null() ? result.summary["digest"] : digest;
      EXPECT_EQ(result.summary["digest"], digest) << boundary << ", " << ranks << " ranks";
    }
  }
}

/// Preempted three times, each time on another number of ranks and at a random step, and then left to end.
class HeatChain : public HeatTest, public ::testing::WithParamInterface<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Heat, HeatChain, ::testing::Range(1U, 3U));

TEST_P(HeatChain, EndsInTheSameField) {
  boundary_ = GetParam() % 2 == 0 ? "periodic" : "dirichlet";
  const Json undisturbed = run(1).summary;
  start_anew();

  std::mt19937 random(GetParam());
  std::string story = "seed " + std::to_string(GetParam());
  std::vector<int> ranks = kRanks;
  std::shuffle(ranks.begin(), ranks.end(), random);
  Json saved;
  constexpr std::size_t kPreemptions = 3;
  for (std::size_t life = 0; life < kPreemptions; ++life) {
    const int size = ranks[life];
    const int told = std::uniform_int_distribution(0, size - 1)(random);
    const std::chrono::milliseconds after(std::uniform_int_distribution(0, 300)(random));
    story += "; " + std::to_string(size) + " ranks, rank " + std::to_string(told) + " told after " +
             std::to_string(after.count()) + " ms";
    const Result result = run_and_preempt(size, told, after);
    ASSERT_EQ(result.code, 42) << story << '\n' << result.text;
    ASSERT_EQ(result.summary["status"], "preempted") << story;
    EXPECT_EQ(result.summary["preemption"]["rank"], told) << story;
    EXPECT_EQ(result.summary["restored_digest"], saved.is_null() ? Json() : saved["digest"]) << story;
    saved = result.summary;
    story += " (saved at step " + saved["step"].dump() + ")";
  }
  std::cout << story << std::endl;
  const Result last = run(ranks[kPreemptions]);
  EXPECT_EQ(last.code, 0) << story << '\n' << last.text;
  EXPECT_EQ(last.summary["restored_digest"], saved["digest"]) << story;
  EXPECT_EQ(last.summary["step"], kSteps) << story;
  EXPECT_EQ(last.summary["digest"], undisturbed["digest"]) << story;
  EXPECT_EQ(last.summary["error"], undisturbed["error"]) << story;
}

TEST_F(HeatTest, RefusesToContinueAsAnotherRun) {
  ASSERT_EQ(run(2).code, 0);
  const Result other = run(2, {"--diffusivity", "2"});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.text.find("give the same options"), std::string::npos) << other.text;
}

TEST_F(HeatTest, WrongOptionsAreErrorsOfCode2ThatSayWhatIsWrong) {
  const std::vector<std::pair<Options, std::string>> wrong{
      {{"--grid", "1,1,1", "--modes", "1,1,1"}, "cannot be split over 1 x 2 x 2 ranks"},
      {{"--ranks", "3,0,0"}, "--ranks 3 x 0 x 0 cannot be made of 4 ranks"},
      {{"--modes", "20,1,1"}, "--modes: 20 along x is not between 1 and 19"},
      {{"--steps", "none"}, "--steps"}};
  for (const auto& [options, message] : wrong) {
    const Result result = run(4, options);
    EXPECT_EQ(result.code, 2) << result.text;
    EXPECT_NE(result.text.find(message), std::string::npos) << result.text;
    EXPECT_TRUE(result.summary.is_null());
  }
}

TEST_F(HeatTest, StartedAgainAfterItsEndHasNothingToDo) {
  const Result first = run(2);
  const Result again = run(3);
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(again.summary["digest"], first.summary["digest"]);
  EXPECT_NE(again.text.find("nothing left to do"), std::string::npos) << again.text;
}

// What reprieve-heat writes for ParaView, after every save. What stands there of a checkpoint: Xdmf.* and
// XdmfOfCheckpoints.*.

using testing::HasSubstr;

class HeatXdmf : public ::testing::Test {
 protected:
  [[nodiscard]] MpiCommand command(int ranks, const Options& options) const {
    const Options words{program("reprieve-heat"), "--grid", "5,7,9", "--checkpoint-dir", checkpoints_.string()};
    return {.ranks = ranks, .arguments = joined(words, options)};
  }

  void run(int ranks, const Options& options) const {
    Mpirun job(command(ranks, options));
    ASSERT_EQ(job.wait(kHang), 0) << job.out() << job.err();
  }

  /// The checkpoints in the file: by number, as `checkpoints_in` has them.
  [[nodiscard]] std::map<std::uint64_t, fs::path> described() const {
    tinyxml2::XMLDocument document;
    EXPECT_EQ(document.LoadFile((checkpoints_ / "heat.xdmf").c_str()), tinyxml2::XML_SUCCESS) << document.ErrorStr();
    const std::string text = read_text(checkpoints_ / "heat.xdmf");
    const std::regex place("(ckpt-([0-9]+).h5):/state/temperature<");
    std::map<std::uint64_t, fs::path> files;
    for (std::sregex_iterator found(text.begin(), text.end(), place); found != std::sregex_iterator(); ++found) {
      files[std::stoull((*found)[2])] = checkpoints_ / (*found)[1].str();
    }
    return files;
  }

  TemporaryDirectory directory_;
  fs::path checkpoints_ = directory_ / "checkpoints";
};

TEST_F(HeatXdmf, IsTrueWhileItRunsAndAfterAPreemption) {
  Mpirun job(command(2, words_of("--steps 100000 --checkpoint-every 5 --step-delay-ms 20 --max-to-keep 0")));
  const auto saved_three = [&] { return fs::exists(checkpoints_ / "ckpt-15.h5"); };
  ASSERT_TRUE(wait_until([&] { return saved_three() || !job.running(); }, kHang)) << job.err();
  EXPECT_GE(described().size(), 1U) << "while it runs";
  ASSERT_TRUE(job.send_to_rank(1, SIGTERM)) << job.out() << job.err();
  EXPECT_EQ(job.wait(kHang), 42) << job.out() << job.err();
  EXPECT_EQ(described(), checkpoints_in(checkpoints_));
}

TEST_F(HeatXdmf, TheToolWritesTheSame) {
  run(2, {"--steps", "20", "--checkpoint-every", "10"});
  const std::string written = read_text(checkpoints_ / "heat.xdmf");
  Process tool({{program("reprieve"), "xdmf", checkpoints_.string(), "--time", "progress/time", "--output",
                 (checkpoints_ / "heat.xdmf").string(), "--origin", "0.1,0.125,0.16666666666666666", "--spacing",
                 "0.1,0.125,0.16666666666666666"}});
  EXPECT_EQ(tool.wait(kHang), 0) << tool.err();
  EXPECT_EQ(tool.out(), (checkpoints_ / "heat.xdmf").string() + ": 2 checkpoints with 2 arrays\n");
  EXPECT_EQ(read_text(checkpoints_ / "heat.xdmf"), written);
}

TEST_F(HeatXdmf, TheToolSaysWhatIsWrong) {
  run(1, {"--steps", "5", "--xdmf", "none"});
  EXPECT_FALSE(fs::exists(checkpoints_ / "heat.xdmf"));
  Process wrong_time({{program("reprieve"), "xdmf", checkpoints_.string(), "--time", "tmie"}});
  EXPECT_EQ(wrong_time.wait(kHang), 2);
  EXPECT_THAT(wrong_time.err(), HasSubstr("no checkpoint in"));
  Process nowhere({{program("reprieve"), "xdmf", (directory_ / "nothing").string()}});
  EXPECT_EQ(nowhere.wait(kHang), 3);
  EXPECT_THAT(nowhere.err(), HasSubstr("does not exist"));
}

}  // namespace
}  // namespace reprieve::test
