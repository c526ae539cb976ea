// SPDX-License-Identifier: BSD-3-Clause
// Node-local copies of whole programs: killed, and resumed from; flushed and removed by the tool; on three hosts with
// memory of their own, of which one is lost. The end is that of a run that nothing disturbed, bit by bit.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "local_run.hpp"
#include "support/virtual_hosts.hpp"

namespace reprieve::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class LocalCopies : public LocalRun {
 protected:
  /// A checkpoint makes all copies void, and the next one comes so late that a test has time for a crash before.
  static constexpr int kSaveEvery = 100;

  /// One bit of a file is another.
  static void flip(const fs::path& path, std::uintmax_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
};

TEST_F(LocalCopies, AfterACrashARunContinuesAtTheNewestOfThem) {
  int step = 0;
  for (const int ranks : {2, 3, 1, 2}) {  // of one host, so that all ranks reach all parts
    const auto job = start(ranks, {.step_delay_ms = 5});
    step = kill_after(*job, step + 20);
    ASSERT_GT(step, 0) << job->out() << job->err();
  }
  const auto last = start(2);
  expect_same_end(*last);
  EXPECT_THAT(last_restore().at("file").get<std::string>(), HasSubstr(".part"));
  EXPECT_GE(last_restore().at("number").get<int>(), step);
  EXPECT_TRUE(fs::is_empty(local_.path())) << "an orderly end gives the memory back";
}

TEST_F(LocalCopies, ARunThatEndsBeforeItHasTakenOneGivesBackThoseOfTheRunBefore) {
  const auto job = start(2, {.step_delay_ms = 5});
  ASSERT_GT(kill_after(*job, 20), 0) << job->out() << job->err();
  every_s_ = 3600;
  expect_same_end(*start(2));
  EXPECT_TRUE(fs::is_empty(local_.path()));
}

/// It has given them back, and no checkpoint is newer.
TEST_F(LocalCopies, OfARunThatHasFinishedAreNotMissed) {
  Environment environment = with_local_copies();
  environment["REPRIEVE_TERMINATION_SAVE_AT_FINISH"] = "false";
  for (const int life : {1, 2}) {
    Mpirun job({.ranks = 2,
                .arguments = joined(heat(checkpoints_, {.step_delay_ms = 1}), {"--steps", "300"}),
                .environment = environment});
    EXPECT_EQ(job.wait(kHang), 0) << job.err();
    EXPECT_GE(events("local_copy_begun").size(), life);
    EXPECT_THAT(job.err(), Not(HasSubstr("took a node-local copy")));
  }
}

TEST_F(LocalCopies, AnotherUserIsToldThatTheToolWouldFindNothing) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to give a directory away";
  }
  fs::create_directories(checkpoints_);
  ASSERT_EQ(::chown(checkpoints_.c_str(), 12345, 12345), 0);
  const Result result = tool({"drain", checkpoints_, "--local", local_.path()});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("belongs to the user 12345"));
}

TEST_F(LocalCopies, TheToolMakesACheckpointOfThem) {
  const auto job = start(2, {.save_every_steps = kSaveEvery, .step_delay_ms = 5});
  const int step = kill_after(*job, kSaveEvery);
  const Json would = tool_json({"drain", checkpoints_, "--local", local_.path(), "--dry-run"});
  EXPECT_EQ(would.at("copies").at(0).at("result"), "completed") << would;
  EXPECT_EQ(newest_copy(local_.path()), step) << "a dry run changes nothing";
  const Json done = tool_json({"drain", checkpoints_, "--local", local_.path()});
  EXPECT_EQ(done.at("copies").at(0).at("step"), step) << done;
  EXPECT_TRUE(fs::exists(done.at("copies").at(0).at("file").get<std::string>()));
  EXPECT_EQ(tool({"verify", checkpoints_}).code, 0);
  EXPECT_EQ(newest_copy(local_.path()), 0) << "the memory is given back";
  const Result again = tool({"drain", checkpoints_, "--local", local_.path()});
  EXPECT_THAT(again.out, Not(HasSubstr("has become"))) << "at most what was under way at the crash is left";
  expect_same_end_without_copies(3);
  EXPECT_EQ(last_restore().at("number"), step);
}

/// Corrupt is not absent: nobody shall look for the parts on other nodes.
TEST_F(LocalCopies, TheToolNamesCorruptParts) {
  for (const std::uintmax_t at : {100U, 5000U}) {  // in the commit record; in the data
    fs::remove_all(checkpoints_);
    clear(local_.path());
    const auto job = start(2, {.save_every_steps = kSaveEvery, .step_delay_ms = 5});
    kill_after(*job, kSaveEvery);
    for (const auto& entry : fs::recursive_directory_iterator(local_.path())) {
      if (entry.is_regular_file()) {
        flip(entry.path(), at);
      }
    }
    const Result result = tool({"drain", checkpoints_, "--local", local_.path()});
    EXPECT_EQ(result.code, 1) << result.out;
    EXPECT_THAT(result.out, StartsWith("CORRUPT "));
    EXPECT_THAT(result.out, Not(HasSubstr("other nodes")));
  }
}

/// A directory of checkpoints that was removed frees no memory of the nodes.
TEST_F(LocalCopies, TheToolListsAndRemovesThoseOfAnyDirectory) {
  const auto list = [&] { return tool_json({"ls", "--all-local", "--local", local_.path()}).at("local"); };
  const auto job = start(2, {.save_every_steps = kSaveEvery, .step_delay_ms = 5});
  ASSERT_TRUE(wait_until([&] { return newest_copy(local_.path()) > 1 || !job->running(); }, kHang));
  ASSERT_FALSE(list().empty());
  const std::string folder = list().at(0).at("folder");
  expect_trouble({"prune", "--copies", folder}, "a living process", 4);
  kill_after(*job, kSaveEvery);
  fs::remove_all(checkpoints_);

  EXPECT_GT(tool_json({"prune", "--copies", folder, "--dry-run"}).at("freed_bytes"), 0);
  ASSERT_FALSE(list().empty());
  EXPECT_GT(tool_json({"prune", "--copies", folder}).at("freed_bytes"), 0);
  EXPECT_TRUE(list().empty());
  EXPECT_EQ(tool({"prune", "--copies", local_.path()}).code, 2) << "this is no folder of copies";
  EXPECT_EQ(tool({"prune", "--copies", folder, "--keep", "1"}).code, 2) << "which of the two?";
}

TEST_F(LocalCopies, TheToolDoesNothingWhileTheRunLives) {
  const auto job = start(2, {.step_delay_ms = 5});
  ASSERT_TRUE(wait_until([&] { return newest_copy(local_.path()) > 20 || !job->running(); }, kHang));
  expect_trouble({"drain", checkpoints_, "--local", local_.path(), "--wait", "0s"}, "wait", 4);
  expect_same_end(*job);
}

TEST_F(LocalCopies, AManagerThatLivesLongerThanMpiGivesTheMemoryBack) {
  Mpirun job({.ranks = 3, .arguments = {program("e2e_outlives"), checkpoints_, local_.path()}});
  EXPECT_EQ(job.wait(kHang), 0) << job.out() << job.err();
  EXPECT_TRUE(fs::is_empty(local_.path()));
}

/// Each of two nodes sees the parts of one rank.
class PartsOfTwoNodes : public LocalCopies {
 protected:
  void SetUp() override {
    const auto job = start(2, {.save_every_steps = kSaveEvery, .step_delay_ms = 5});
    step_ = kill_after(*job, kSaveEvery);
    for (const auto& entry : fs::recursive_directory_iterator(local_.path())) {
      const fs::path below = fs::relative(entry.path(), local_.path());
      if (entry.is_regular_file() && entry.path().filename().string().find("-1.") != std::string::npos) {
        fs::create_directories((other_ / below).parent_path());
        fs::copy_file(entry.path(), other_ / below);
        moved_.push_back(entry.path());
      }
    }
    for (const fs::path& file : moved_) {
      fs::remove(file);
    }
    for (const auto& entry : fs::recursive_directory_iterator(other_.path())) {
      fs::permissions(entry.path(), fs::perms::owner_all);
    }
    ASSERT_GT(step_, 0);
    ASSERT_FALSE(moved_.empty());
  }

  const TemporaryDirectory other_{"/dev/shm"};
  std::vector<fs::path> moved_;
  int step_ = 0;
};

TEST_F(PartsOfTwoNodes, TheLastNodeCompletesTheCheckpoint) {
  const Json first = tool_json({"drain", checkpoints_, "--local", local_.path()}, 1).at("copies").at(0);
  EXPECT_EQ(first.at("result"), "incomplete");
  EXPECT_EQ(first.at("missing_ranks"), Json({1}));
  EXPECT_GT(first.at("flushed_parts"), 0);
  const Result again = tool({"drain", checkpoints_, "--local", local_.path()});
  EXPECT_EQ(again.code, 1) << "it still waits for the other";
  EXPECT_THAT(again.out, HasSubstr("parts of ranks 1 were not found"));
  const Json last = tool_json({"drain", checkpoints_, "--local", other_.path()}).at("copies").at(0);
  EXPECT_EQ(last.at("result"), "completed");
  EXPECT_EQ(last.at("step"), step_);
  EXPECT_FALSE(fs::exists(checkpoints_ + "/.reprieve.parts"));
  EXPECT_EQ(newest_copy(other_.path()), 0);
  EXPECT_EQ(tool({"verify", checkpoints_}).code, 0);
  expect_same_end(*start(2));
}

TEST_F(PartsOfTwoNodes, TheNextStartTakesWhatTheOtherNodesHaveFlushed) {
  EXPECT_EQ(tool({"drain", checkpoints_, "--local", other_.path()}).code, 1);
  expect_same_end(*start(3));  // where the parts of rank 0 are
  EXPECT_EQ(last_restore().at("number"), step_);
  EXPECT_FALSE(fs::exists(checkpoints_ + "/.reprieve.parts"));
}

TEST_F(PartsOfTwoNodes, WhatANodeThatIsGoneHadIsNotWaitedFor) {
  EXPECT_EQ(tool({"drain", checkpoints_, "--local", other_.path()}).code, 1);
  fs::remove_all(local_ / ("reprieve-" + std::to_string(::geteuid())));
  const auto job = start(2, {.save_every_steps = 50});
  expect_same_end(*job);
  EXPECT_LT(last_restore().at("number").get<int>(), step_) << "the checkpoint before";
  EXPECT_THAT(job->err(), HasSubstr("parts of ranks 0 were not found here"));
}

TEST_F(PartsOfTwoNodes, AFlushedPartThatIsCorruptIsNotTaken) {
  EXPECT_EQ(tool({"drain", checkpoints_, "--local", other_.path()}).code, 1);
  for (const auto& entry : fs::directory_iterator(checkpoints_ + "/.reprieve.parts")) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 100);
    file.put('x');
  }
  const Result result = tool({"drain", checkpoints_, "--local", local_.path()});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("is corrupt (checksum differs)"));
  expect_same_end(*start(2, {.save_every_steps = 50}));
  EXPECT_LT(last_restore().at("number").get<int>(), step_);
}

/// A rank on each of two hosts, with memory of its own.
class LocalCopiesOnHosts : public LocalCopies {
 protected:
  void SetUp() override {
    if (!hosts_.work()) {
      GTEST_SKIP() << VirtualHosts::kNeeds;
    }
    hosts_.write_agent(agent(), memory_.path(), local_.path());
  }

  [[nodiscard]] fs::path agent() const { return directory_ / "agent.sh"; }

  /// @param hosts  of the ranks, in order
  /// @param supervisor  words before mpirun
  [[nodiscard]] std::unique_ptr<Mpirun> start_on(const std::string& hosts, int ranks, Pace pace = {},
                                                 const std::vector<std::string>& supervisor = {}) const {
    return start_program_on(hosts, ranks, heat(checkpoints_, pace), supervisor);
  }

  [[nodiscard]] std::unique_ptr<Mpirun> start_program_on(const std::string& hosts, int ranks,
                                                         const std::vector<std::string>& words,
                                                         const std::vector<std::string>& supervisor = {}) const {
    MpiCommand command{.ranks = ranks,
                       .arguments = words,
                       // The hosts share the cores of this machine, which mpirun cannot know.
                       .mpirun_options = {"--mca", "plm_rsh_agent", agent().string(), "--mca", "mpi_yield_when_idle",
                                          "1", "--host", hosts},
                       .launch_prefix = hosts_.on_h0(),
                       .directory = directory_.path()};
    command.launch_prefix.insert(command.launch_prefix.end(), supervisor.begin(), supervisor.end());
    for (const auto& [name, value] : with_local_copies()) {
      command.mpirun_options.insert(command.mpirun_options.end(), {"-x", name + "=" + value.value_or("")});
    }
    return std::make_unique<Mpirun>(command);
  }

  /// The steps of which a host has a part.
  [[nodiscard]] std::set<int> steps_on(const std::string& host) const {
    std::set<int> steps;
    if (fs::exists(checkpoints_)) {
      const Json list = tool_json({"ls", checkpoints_, "--local", memory_ / host});
      for (const Json& copy : list.at("local")) {
        // In memory: not what was flushed into the directory. What was being written at a crash has no step.
        if (copy.contains("step") && !copy.at("flushed").get<bool>()) {
          steps.insert(copy.at("step").get<int>());
        }
      }
    }
    return steps;
  }

  /// A host has a part of a step after the first checkpoint.
  [[nodiscard]] bool is_far(const std::string& host) const {
    const std::set<int> steps = steps_on(host);
    return !steps.empty() && *steps.rbegin() > kSaveEvery;
  }

  /// Starts a rank on each host, and kills both after some copies. Returns the newest that is complete.
  int crash() {
    const auto job = start_on("h1:1,h2:1", 2, {.save_every_steps = kSaveEvery, .step_delay_ms = 5});
    const auto is_safe = [&] { return !has_partners_ || newest_copy(memory_ / "h1") > kSaveEvery; };
    // Looks between which the program continues.
    EXPECT_TRUE(wait_until([&] { return (is_far("h1") && is_far("h2") && is_safe()) || !job->running(); }, kHang));
    EXPECT_EQ(job->send_to_ranks(SIGKILL), 2);
    EXPECT_TRUE(job->wait(kHang)) << job->out() << job->err();
    const std::set<int> mine = steps_on("h1");
    std::set<int> both;
    std::ranges::set_intersection(mine, steps_on("h2"), std::inserter(both, both.end()));
    EXPECT_FALSE(both.empty()) << job->out() << job->err();
    return both.empty() ? 0 : *both.rbegin();
  }

  [[nodiscard]] int drain_on(const std::string& host) const {
    Process process({{agent().string(), host, program("reprieve"), "drain", checkpoints_, "--local", local_.path()}});
    return process.wait(kHang).value_or(-1);
  }

  const VirtualHosts hosts_;
  const TemporaryDirectory memory_{"/dev/shm"};  ///< a directory for each host, which sees it as local_
};

TEST_F(LocalCopiesOnHosts, TheRunContinuesAtTheirStep) {
  const int step = crash();
  EXPECT_FALSE(fs::is_empty(memory_ / "h1"));
  EXPECT_FALSE(fs::is_empty(memory_ / "h2"));
  EXPECT_TRUE(fs::is_empty(local_.path())) << "what this host sees there is not theirs";
  expect_same_end(*start_on("h1:1,h2:1", 2));
  EXPECT_EQ(last_restore().at("number"), step);
  EXPECT_TRUE(fs::is_empty(memory_ / "h1") && fs::is_empty(memory_ / "h2"));
}

TEST_F(LocalCopiesOnHosts, ThatAreGoneWithoutATraceAreMissed) {
  crash();
  for (const char* host : {"h1", "h2"}) {
    fs::remove_all(memory_ / host);
    fs::create_directories(memory_ / host);
  }
  const auto job = start_on("h1:1,h2:1", 2, {.save_every_steps = 50});
  expect_same_end(*job);
  EXPECT_THAT(job->err(), HasSubstr("the run before took a node-local copy at step"));
}

TEST_F(LocalCopiesOnHosts, AHostThatIsLostCostsNothingWithPartners) {
  has_partners_ = true;
  crash();
  fs::remove_all(memory_ / "h2");
  const int step = newest_copy(memory_ / "h1");
  EXPECT_GT(step, 0) << "h1 has both parts";
  expect_same_end(*start_on("h1:1,h0:1", 2, {.save_every_steps = 50}));  // h0 has taken its place
  EXPECT_EQ(last_restore().at("number"), step);
  EXPECT_TRUE(fs::is_empty(memory_ / "h1") && fs::is_empty(memory_ / "h0"));
}

TEST_F(LocalCopiesOnHosts, TheSupervisorMakesACheckpointOnAllHosts) {
  const auto job = start_on("h1:1,h2:1", 2, {.step_delay_ms = 5}, {program("reprieve"), "run", "--"});
  EXPECT_TRUE(wait_until([&] { return (is_far("h1") && is_far("h2")) || !job->running(); }, kHang));
  EXPECT_EQ(job->send_to_ranks(SIGKILL), 2);
  EXPECT_TRUE(job->wait(kHang));
  EXPECT_THAT(job->err(), HasSubstr("has become")) << job->err();
  EXPECT_TRUE(steps_on("h1").empty() || steps_on("h2").empty()) << "who had no newer one has given back the memory\n"
                                                                << job->err();
  expect_same_end_without_copies(1);
  EXPECT_GT(last_restore().at("number").get<int>(), kSaveEvery);
}

/// h1 and h2 stand in one rack, h0 in another.
class LocalCopiesInRacks : public LocalCopiesOnHosts {
 protected:
  void SetUp() override {
    LocalCopiesOnHosts::SetUp();
    has_partners_ = true;
    domains_ = directory_ / "racks";
    std::ofstream(domains_) << "h0 rack2\nh1 rack1  # the old one\nh2 rack1\n";
  }

  /// mpirun itself runs on h0, so a rank there sees what this process sees.
  [[nodiscard]] fs::path memory_of(const std::string& host) const {
    return host == "h0" ? local_.path() : memory_ / host;
  }

  /// Kills a rank on each host when all have parts that are newer than the first checkpoint, and h0 those of all.
  void crash_of_three() const {
    const auto job = start_on("h1:1,h2:1,h0:1", 3, {.save_every_steps = kSaveEvery, .step_delay_ms = 5});
    const auto all_are_far = [&] { return is_far("h1") && is_far("h2") && newest_copy(local_.path()) > kSaveEvery; };
    EXPECT_TRUE(wait_until([&] { return all_are_far() || !job->running(); }, kHang));
    EXPECT_EQ(job->send_to_ranks(SIGKILL), 3);
    EXPECT_TRUE(job->wait(kHang)) << job->out() << job->err();
  }

  void lose(const std::string& host) const { clear(memory_of(host)); }
};

TEST_F(LocalCopiesInRacks, ARackMayBeLost) {
  crash_of_three();
  lose("h1");
  lose("h2");
  const int step = newest_copy(memory_of("h0"));
  EXPECT_GT(step, 0) << "the partners of both stand in the other rack";
  expect_same_end(*start_on("h0:3", 3, {.save_every_steps = 50}));
  EXPECT_EQ(last_restore().at("number"), step);
}

TEST_F(LocalCopiesInRacks, TwoPartnersThatAreLostCostTheWorkSinceTheCheckpoint) {
  crash_of_three();
  lose("h1");
  lose("h0");
  const int step = *steps_on("h2").rbegin();
  const auto job = start_on("h2:3", 3, {.save_every_steps = 50});
  expect_same_end(*job);
  EXPECT_LT(last_restore().at("number").get<int>(), step);
  EXPECT_THAT(job->err(), HasSubstr("the newest checkpoint counts")) << "said loudly";
}

TEST_F(LocalCopiesOnHosts, TheSupervisorContinuesWithoutADeadHost) {
  has_partners_ = true;
  const auto job = start_on("h1:1,h2:1", 2, {.step_delay_ms = 5},
                            {program("reprieve"), "run", "--restarts", "3", "--min-ranks", "1", "--link-timeout", "4s",
                             "--host-timeout", "8s", "--"});
  EXPECT_TRUE(wait_until([&] { return newest_copy(memory_ / "h1") > 60 || !job->running(); }, kHang));
  ASSERT_TRUE(hosts_.set_cable(2, "down"));
  fs::remove_all(memory_ / "h2");  // nobody can reach it
  expect_same_end(*job);
  EXPECT_THAT(job->err(), HasSubstr("the host h2 is left out")) << job->err();
  EXPECT_THAT(last_restore().at("file").get<std::string>(), HasSubstr(".h5")) << "for one rank they become a file";
  EXPECT_GT(last_restore().at("number").get<int>(), 60) << "h1 has the parts of both ranks";
}

/// Lives that end at random moments, on changing hosts and numbers of ranks, with random harm between them. A mixture
/// of two states would give another end.
///
/// LOCAL_LIVES: how many (4 unless it is set); LOCAL_LIVES_SEED: the same harm again.
class LocalLives : public LocalCopiesOnHosts {
 protected:
  using Copy = std::tuple<int, int, int>;  ///< run, save, step

  enum class Harm { none, drain, wipe, flip, cut, back_to_backup, newest_removed, kCount };

  /// What a start must find, unless something was harmed.
  struct Expected {
    int checkpoint = 0;  ///< the newest one
    int step = 0;        ///< of it, or of the newest copy of which each rank's host has its part
  };

  [[nodiscard]] int draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  /// Returns whether the run has come to its end.
  bool live() {
    static constexpr const char* kHosts[] = {"h1:1,h2:1", "h1:1,h2:1", "h2:1,h1:1", "h1:2,h2:1", "h1:2"};
    const auto which = static_cast<std::size_t>(draw(0, 4));
    has_partners_ = draw(0, 1) == 1;
    is_on_one_host_ = which == 4;
    const auto job =
        start_on(kHosts[which], which == 3 ? 3 : 2, {.save_every_steps = draw(20, 170), .step_delay_ms = 5});
    std::this_thread::sleep_for(std::chrono::milliseconds(draw(600, 2500)));
    const int signal = draw(0, 9) == 0 ? SIGTERM : SIGKILL;
    job->send_to_ranks(signal);
    const auto code = job->wait(signal == SIGKILL ? 20s : kHang);
    // mpirun of Open MPI 4.1 can hang when ranks die in MPI_Init.
    EXPECT_TRUE(code || signal == SIGKILL) << job->out() << job->err();
    err_ = job->err();
    return code == 0;
  }

  [[nodiscard]] Expected expected() {
    Expected found;
    std::map<Copy, std::size_t> parts;
    std::map<Copy, std::size_t> ranks;
    for (const char* host : {"h1", "h2"}) {
      const Json list = tool_json({"ls", checkpoints_, "--local", memory_ / host});
      for (const Json& checkpoint : list.at("checkpoints")) {
        found.checkpoint = std::max(found.checkpoint, checkpoint.at("number").get<int>());
      }
      for (const Json& entry : list.at("local")) {
        if (entry.contains("step") && !entry.at("directory").is_null() && !entry.at("flushed").get<bool>()) {
          const Copy copy{entry.at("run").get<int>(), entry.at("save").get<int>(), entry.at("step").get<int>()};
          parts[copy] += entry.at("parts").get<std::size_t>() - entry.at("partner_parts").get<std::size_t>();
          ranks[copy] = entry.at("ranks").get<std::size_t>();
        }
      }
    }
    found.step = found.checkpoint;
    for (const auto& [copy, count] : parts) {
      seen_.insert(copy);
      if (count >= ranks[copy] && !passed_over_.contains(copy)) {
        found.step = std::max(found.step, std::get<2>(copy));
      }
    }
    return found;
  }

  /// A life has begun at @p step: copies of later steps are of a time that is over.
  void pass_over_later_than(int step) {
    for (const Copy& copy : seen_) {
      if (std::get<2>(copy) > step) {
        passed_over_.insert(copy);
      }
    }
    seen_.clear();
  }

  /// Returns what was done: none, if there was nothing to harm.
  [[nodiscard]] Harm do_harm(Harm harm) {
    const fs::path host = memory_ / (draw(0, 1) == 0 ? "h1" : "h2");
    std::vector<fs::path> parts;
    for (const auto& entry : fs::recursive_directory_iterator(host)) {
      if (entry.is_regular_file() && entry.file_size() > 0) {
        parts.push_back(entry.path());
      }
    }
    const fs::path part = parts.empty() ? fs::path() : parts[static_cast<std::size_t>(draw(0, 99)) % parts.size()];
    if (harm == Harm::drain) {
      static_cast<void>(drain_on("h1") + drain_on("h2"));  // the first one may wait for the second one's parts
    } else if (harm == Harm::wipe) {
      fs::remove_all(host);
      fs::create_directories(host);
    } else if (harm == Harm::cut && !parts.empty()) {
      fs::resize_file(part, fs::file_size(part) / 2);
    } else if (harm == Harm::flip && !parts.empty()) {
      flip(part, std::uniform_int_distribution<std::uintmax_t>(0, fs::file_size(part) - 1)(random_));
    } else if (harm == Harm::back_to_backup && events("start").size() > starts_in_backup_ && starts_in_backup_ > 0) {
      put_back();
    } else if (harm == Harm::newest_removed && expected().checkpoint > 0) {
      fs::remove(fs::path(checkpoints_) / ("ckpt-" + std::to_string(expected().checkpoint) + ".h5"));
    } else {
      harm = Harm::none;
    }
    if (draw(0, 4) == 0) {
      fs::remove_all(backup_);
      fs::copy(checkpoints_, backup_, fs::copy_options::recursive);
      starts_in_backup_ = events("start").size();
    }
    return harm;
  }

  /// Into the directory itself, as a user does who keeps it.
  void put_back() const {
    clear(checkpoints_);
    fs::copy(backup_, checkpoints_, fs::copy_options::recursive);
  }

  /// What the next life has restored is what it had to.
  void expect_restored(Harm harm, const Expected& before, const Expected& after, int restored) const {
    const bool is_undone = harm == Harm::back_to_backup || harm == Harm::newest_removed;
    const std::string what = "harm " + std::to_string(static_cast<int>(harm)) + ", restored " +
                             std::to_string(restored) + ", expected " + std::to_string(before.step) + ", then " +
                             std::to_string(after.step) + "\n" + err_;
    if (is_undone) {
      EXPECT_LE(restored, after.checkpoint) << "of a time that was undone: " << what;
    } else if (restored < before.step) {
      const bool is_known = (harm != Harm::none && harm != Harm::drain) || is_on_one_host_;  // h2 has parts as well
      EXPECT_TRUE(is_known) << what;
      EXPECT_THAT(err_, HasSubstr(" warning] ")) << "lost without a word: " << what;
    }
  }

  std::mt19937 random_{static_cast<unsigned>(count_from("LOCAL_LIVES_SEED", 36))};
  fs::path backup_ = directory_ / "backup";
  std::set<Copy> seen_;               ///< since the last life began
  std::set<Copy> passed_over_;        ///< some of them still lie there
  bool is_on_one_host_ = false;       ///< h1 alone
  std::size_t starts_in_backup_ = 0;  ///< 0: there is none
  std::string err_;
};

TEST_F(LocalLives, EndAsUndisturbedOnesAndRestoreNothingThatWasUndone) {
  const Json digest = undisturbed();
  std::map<Harm, int> done;
  int ends = 0;
  const int lives = count_from("LOCAL_LIVES", 4);
  Harm harm = Harm::none;
  Expected before;
  for (int life = 0; life < lives && !HasFailure(); ++life) {
    const bool is_first = !fs::exists(checkpoints_);
    const Expected after = is_first ? Expected{} : expected();
    const std::size_t restores = events("restore").size();
    const bool is_over = live();
    if (err_.find(" info] restored ") == std::string::npos && err_.find(": beginning at step 0") == std::string::npos) {
      continue;  // it was killed before it had found anything
    }
    const std::vector<Json> all = events("restore");
    const int restored = all.size() > restores ? all.back().at("number").get<int>() : 0;
    if (!is_first) {
      expect_restored(harm, before, after, restored);
    }
    pass_over_later_than(restored);
    if (is_over) {
      ++ends;
      EXPECT_EQ(Json::parse(read_text(summary_)).at("digest"), digest);
      fs::remove_all(checkpoints_);
      passed_over_.clear();
      starts_in_backup_ = 0;
      before = {};  // of a directory that is gone: the next life may be killed before it reports what it found
      harm = Harm::none;
      continue;
    }
    before = expected();
    harm = do_harm(static_cast<Harm>(draw(0, static_cast<int>(Harm::kCount) - 1)));
    ++done[harm];
  }
  if (fs::exists(checkpoints_)) {
    const auto last = start_on("h1:1,h2:1", 2);
    EXPECT_EQ(last->wait(kHang), 0) << last->out() << last->err();
    EXPECT_EQ(Json::parse(read_text(summary_)).at("digest"), digest);
  }
  std::cout << "[  LIVES   ] " << lives << ", ends " << ends;
  for (const auto& [kind, times] : done) {
    std::cout << ", harm " << static_cast<int>(kind) << ": " << times;
  }
  std::cout << std::endl;
}

}  // namespace
}  // namespace reprieve::test
