// SPDX-License-Identifier: BSD-3-Clause
// What users see of node-local copies: the commands that tell of them, the supervisor that flushes them home, and a
// place that is full.

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <set>

#include "local_run.hpp"

namespace reprieve::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class LocalTools : public LocalRun {
 protected:
  [[nodiscard]] Json status() const { return tool_json({"status", checkpoints_}).at("runs").at(0); }

  /// Of a rank, of the newest copy or the one before it.
  [[nodiscard]] fs::path part_of(int rank) const {
    for (const auto& entry : fs::recursive_directory_iterator(local_.path())) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".part") && name.find('-' + std::to_string(rank) + '.') != std::string::npos &&
          tool({"show", entry.path()}).code == 0) {
        return entry.path();
      }
    }
    return {};
  }
};

/// Each checkpoint goes when the next one comes, and its file becomes that of a later one; parts of copies come and go.
TEST_F(LocalTools, AnswerBesideARunThatSavesAllTheTime) {
  Environment environment = with_local_copies();
  environment["REPRIEVE_CHECKPOINTS_MAX_TO_KEEP"] = "1";
  Mpirun job({.ranks = 2,
              .arguments = heat(checkpoints_, {.save_every_steps = 1, .step_delay_ms = 1}),
              .environment = environment});
  ASSERT_TRUE(wait_until(
      [&] {
        return (fs::exists(checkpoints_) && !tool_json({"ls", checkpoints_}).at("checkpoints").empty());
      },
      kHang));
  const std::string directory = checkpoints_;
  int rounds = 0;
  constexpr int kRounds = 15;  // of many saves each
  for (; job.running() && rounds < kRounds; ++rounds) {
    for (const Json& checkpoint : tool_json({"ls", directory, "--local", local_.path()}).at("checkpoints")) {
      EXPECT_EQ(checkpoint.at("state"), "committed") << checkpoint;
    }
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"verify", directory},
                                               {"prune", directory, "--keep", "1", "--dry-run"},
                                               {"status", directory},
                                               {"report", directory, "--json"}}) {
      const Result result = tool(command);
      EXPECT_EQ(result.code, 0) << command.front() << '\n' << result.out << result.err;
    }
  }
  EXPECT_GE(rounds, 1);
  if (job.running()) {
    job.send_to_ranks(SIGKILL);
    EXPECT_TRUE(job.wait(kHang)) << job.out() << job.err();
  } else {
    EXPECT_EQ(job.wait(kHang), 0) << job.out() << job.err();
  }
}

TEST_F(LocalTools, TellOfTheCopiesOfARunAndOfWhatItLeaves) {
  const auto job = start(2, {.step_delay_ms = 5});
  const auto newest = [&] { return status().at("local_copy"); };
  ASSERT_TRUE(wait_until(
      [&] { return (fs::exists(checkpoints_ + "/events.jsonl") && !newest().is_null()) || !job->running(); }, kHang));
  const Json running = status();
  EXPECT_EQ(running.at("local_copy").at("directory"), local_.path().string()) << running;
  EXPECT_GT(running.at("local_copy").at("memory_bytes"), 0);
  EXPECT_EQ(running.at("local_copy").at("partners"), false);
  EXPECT_LE(running.at("at_risk_s"), running.at("at_risk_with_nodes_s"));
  EXPECT_THAT(tool({"status", checkpoints_}).out, HasSubstr("if a node is lost"));

  const int step = kill_after(*job, 30);
  EXPECT_EQ(status().at("state"), "gone");
  EXPECT_EQ(status().at("local_copy").at("step"), step) << "what a start would resume from";
  EXPECT_THAT(tool({"status", checkpoints_}).out, HasSubstr("a start on the same nodes continues there"));
  const Result list = tool({"ls", checkpoints_});  // which knows by itself where they lie
  EXPECT_THAT(list.out, AllOf(HasSubstr(local_.path().string()), HasSubstr("left by a run that is gone"))) << list.err;
  const Json part = tool_json({"show", part_of(0)});
  EXPECT_EQ(part.at("ranks"), 2);
  EXPECT_FALSE(part.at("variables").empty()) << "rank 0's tells of the whole state";
  EXPECT_THAT(tool({"show", part_of(1)}).out, HasSubstr("rank 1 of 2"));

  expect_same_end(*start(2));
  const Json report = tool_json({"report", checkpoints_}).at("runs").at(0);
  EXPECT_EQ(report.at("starts").at(1).at("restored"), "local_copy") << report.at("starts");
  EXPECT_GT(report.at("starts").at(1).at("saved_by_local_copy"), 0);
  EXPECT_TRUE(status().at("local_copy").is_null()) << "it came to its end";
}

TEST_F(LocalTools, TheBenchmarkMeasuresThem) {
  Mpirun job({.ranks = 2,
              .arguments = {program("reprieve-bench"), "--json", "local", "--directory", directory_.path(), "--local",
                            local_.path(), "--sizes-mib", "1", "--rounds", "1", "--loop-seconds", "0.01"}});
  EXPECT_EQ(job.wait(kHang), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("a node-local copy"), HasSubstr("restore from the node-local copy")));
  EXPECT_TRUE(fs::is_empty(local_.path()));
}

TEST(Benchmark, RestoresLargeArraysOnAnotherNumberOfRanks) {
  const TemporaryDirectory directory;
  Mpirun job({.ranks = 3,
              .arguments = {program("reprieve-bench"), "--json", "restore", "--directory", directory.path(), "--ranks",
                            "3", "--saved-by", "2", "--sizes-mib", "1", "--rounds", "1"}});
  EXPECT_EQ(job.wait(kHang), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("saved by 2 ranks, on 3 ranks"), Not(HasSubstr("grid"))));
}

class LocalSupervised : public LocalTools {
 protected:
  [[nodiscard]] std::unique_ptr<Mpirun> start_supervised(std::vector<std::string> options) const {
    options.insert(options.begin(), {program("reprieve"), "run"});
    options.push_back("--");
    return std::make_unique<Mpirun>(MpiCommand{.ranks = 2,
                                               .arguments = heat(checkpoints_, {.step_delay_ms = 5}),
                                               .launch_prefix = options,
                                               .environment = with_local_copies()});
  }
};

TEST_F(LocalSupervised, ARunThatIsGivenUpLeavesACheckpoint) {
  const auto job = start_supervised({});
  const int step = kill_after(*job, 30);
  EXPECT_THAT(job->err(), HasSubstr("has become")) << job->err();
  EXPECT_EQ(step, 0) << "the memory was given back";
  const Json made = tool_json({"ls", checkpoints_}).at("checkpoints");
  ASSERT_EQ(made.size(), 1U) << made;
  EXPECT_GT(made.at(0).at("step"), 30);
  expect_same_end_without_copies(3);
  EXPECT_EQ(last_restore().at("number"), made.at(0).at("number"));
}

TEST_F(LocalSupervised, ItLeavesThemOnRequest) {
  const auto job = start_supervised({"--no-drain"});
  EXPECT_GT(kill_after(*job, 30), 30);
  EXPECT_THAT(job->err(), Not(HasSubstr("node-local copies:")));
}

/// The place is a tmpfs of that size, which no other process sees.
using LocalRoomAfterACrash = LocalRun;

class LocalRoom : public LocalRun, public testing::WithParamInterface<const char*> {};

TEST_P(LocalRoom, APlaceThatIsFullCostsTheCopiesAndNothingElse) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to mount a tmpfs";
  }
  const std::string mount = std::string("mount -t tmpfs -o size=") + GetParam() + " none " + local_.path().string();
  Mpirun job({.ranks = 2,
              .arguments = heat(checkpoints_, {.step_delay_ms = 1}),
              .launch_prefix = {"unshare", "--mount", "--propagation", "private", "sh", "-c",
                                mount + R"( && exec "$@")", "sh"},
              .environment = with_local_copies()});
  expect_same_end(job);
  EXPECT_THAT(job.err(), AnyOf(HasSubstr("no node-local copy was taken"), HasSubstr("copies of the state need")));
  std::ifstream log(fs::path(checkpoints_) / "events.jsonl");
  const std::string events{std::istreambuf_iterator<char>(log), {}};
  EXPECT_THAT(events, Not(HasSubstr(R"("event":"local_copies")"))) << "one that stays alone is worse than none";
}

/// What the dead launch left takes half of the room. It goes when the first copy of the next one is complete.
TEST_F(LocalRoomAfterACrash, LeftOversDoNotKeepTheNextLaunchFromItsCopies) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to mount a tmpfs";
  }
  const std::string mount = "mount -t tmpfs -o size=480k none " + local_.path().string();
  Mpirun job({.ranks = 2,
              .arguments = heat(checkpoints_, {.step_delay_ms = 5}),
              .launch_prefix = {"unshare", "--mount", "--propagation", "private", "sh", "-c",
                                mount + R"( && { "$@" & while kill -0 $! && ! grep -qs local_copies )" + checkpoints_ +
                                    R"(/events.jsonl; do sleep 0.1; done; kill -9 $!; "$@"; })",
                                "sh"},
              .environment = with_local_copies()});
  expect_same_end(job);
  EXPECT_THAT(job.err(), Not(HasSubstr("copies of the state need")));
  EXPECT_THAT(job.err(), HasSubstr("that is a node-local copy"));
  std::vector<std::string> copying;  // which launches have taken copies
  for (const Json& event : events_of(read_text(checkpoints_ + "/events.jsonl"))) {
    if (event.at("event") == "start" || event.at("event") == "local_copies") {
      copying.push_back(event.at("event"));
    }
  }
  EXPECT_EQ(copying.back(), "local_copies") << job.err();
}

// A part has about 30 KB of data: there is room for nothing, for one rank, for one slot of each, for three in all.
INSTANTIATE_TEST_SUITE_P(Of, LocalRoom, testing::Values("4k", "60k", "110k", "150k"),
                         [](const auto& size) { return std::string(size.param); });

// A notice after which no step boundary comes for long: each rank flushes its node-local copy into the checkpoint
// directory alone. Where everything is killed then: EmergencySaveFaults.

class EmergencySaves : public LocalRun {
 protected:
  EmergencySaves() { emergency_after_s_ = 0.1; }

  /// Starts a run whose steps take long, and waits until there is a node-local copy. Returns its step.
  int start_and_copy() {
    job_ = start(2, {.step_delay_ms = 8000});
    EXPECT_TRUE(wait_until([&] { return newest_copy(local_.path()) > 0 || !job_->running(); }, kHang));
    return newest_copy(local_.path());
  }

  /// The ranks whose parts were flushed.
  [[nodiscard]] std::set<int> flushed() const {
    std::set<int> ranks;
    const fs::path place = checkpoints_ + "/.reprieve.parts";
    if (fs::exists(place)) {
      for (const auto& entry : fs::directory_iterator(place)) {
        const std::string name = entry.path().filename();
        if (name.ends_with(".part")) {
          ranks.insert(std::stoi(name.substr(name.find('-') + 1)));
        }
      }
    }
    return ranks;
  }

  [[nodiscard]] bool is_in_time() const {
    const std::set<int> wanted{0, 1};
    EXPECT_TRUE(wait_until([&] { return flushed() == wanted || !job_->running(); }, kHang));
    return flushed() == wanted && job_->running();
  }

  std::unique_ptr<Mpirun> job_;
};

TEST_F(EmergencySaves, ASaveThatIsDoneInTimeCounts) {
  const int step = start_and_copy();
  job_->send_to_ranks(SIGTERM);
  ASSERT_TRUE(is_in_time()) << job_->err();
  EXPECT_EQ(job_->wait(kHang), 42) << job_->err();
  EXPECT_THAT(job_->err(), HasSubstr("without the other ranks"));
  EXPECT_EQ(flushed(), std::set<int>());
  EXPECT_FALSE(fs::exists(checkpoints_ + "/.reprieve.parts"));
  expect_same_end(*start(2));
  EXPECT_GT(last_restore().at("number").get<int>(), step);
}

}  // namespace
}  // namespace reprieve::test
