// SPDX-License-Identifier: BSD-3-Clause
// The heat equation is preempted at random steps and continues with other numbers of ranks: the restored field is the
// saved one, and the final one that of a run that was left alone, bit by bit.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
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
    Options words{program("reprieve-heat"),
                  "--steps",
                  std::to_string(kSteps),
                  "--checkpoint-dir",
                  checkpoints_,
                  "--summary",
                  summary_,
                  "--boundary",
                  boundary_};
    for (const auto& [name, value] : {std::pair("--grid", "19,17,23"), std::pair("--modes", "2,1,1")}) {
      if (std::find(options.begin(), options.end(), name) == options.end()) {
        words.insert(words.end(), {name, value});
      }
    }
    words.insert(words.end(), options.begin(), options.end());
    return std::make_unique<Mpirun>(MpiCommand{.ranks = ranks, .arguments = words});
  }

  [[nodiscard]] Result finish(Mpirun& job) const {
    const int code = job.wait(kHang).value_or(-1);
    const std::string summary = read_text(summary_);
    return {code, job.out() + job.err(), summary.empty() ? Json() : Json::parse(summary)};
  }

  [[nodiscard]] Result run(int ranks, const Options& options = {}) const { return finish(*start(ranks, options)); }

  /// How often a run has been ready to step.
  [[nodiscard]] std::size_t times_ready() const {
    const std::string log = read_text(checkpoints_ + "/events.jsonl");
    std::size_t count = 0;
    for (auto at = log.find("\"event\":\"ready\""); at != std::string::npos;
         at = log.find("\"event\":\"ready\"", at + 1)) {
      ++count;
    }
    return count;
  }

  /// Starts with so many ranks, and tells one of them that it will end, some time later.
  [[nodiscard]] Result run_and_preempt(int ranks, int told_rank, std::chrono::milliseconds after) const {
    const std::size_t before = times_ready();
    const auto job = start(ranks, {"--step-delay-ms", std::to_string(kStepDelayMs)});
    static_cast<void>(wait_until([&] { return times_ready() > before || !job->running(); }, kHang));
    std::this_thread::sleep_for(after);
    EXPECT_TRUE(job->send_to_rank(told_rank, SIGTERM)) << job->out() << job->err();
    return finish(*job);
  }

  void start_anew() const { fs::remove_all(checkpoints_); }

  TemporaryDirectory directory_;
  std::string checkpoints_ = directory_ / "checkpoints";
  std::string summary_ = directory_ / "summary.json";
  std::string boundary_ = "dirichlet";
};

const std::vector<int> kRanks{1, 2, 3, 4, 6, 8};

TEST_F(HeatTest, EveryNumberOfRanksComesToTheSameBits) {
  for (const std::string boundary : {"dirichlet", "periodic"}) {
    boundary_ = boundary;
    Json digest;
    for (const int ranks : kRanks) {
      start_anew();
      const Result result = run(ranks);
      ASSERT_EQ(result.code, 0) << result.text;
      EXPECT_EQ(result.summary["step"], kSteps);
      EXPECT_NEAR(result.summary["error"].get<double>(), result.summary["expected_error"].get<double>(), 1e-13);
      digest = digest.is_null() ? result.summary["digest"] : digest;
      EXPECT_EQ(result.summary["digest"], digest) << boundary << ", " << ranks << " ranks";
    }
  }
}

TEST_F(HeatTest, AnotherSplitByHandComesToTheSameBits) {
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
INSTANTIATE_TEST_SUITE_P(Heat, HeatChain, ::testing::Range(1U, 7U));

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

}  // namespace
}  // namespace reprieve::test
