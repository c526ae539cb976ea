// SPDX-License-Identifier: BSD-3-Clause
// `reprieve run --after-commit` and `--before-start` under mpirun: commands that keep checkpoints where the machine is
// not.

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "e2e/run_test.hpp"
#include "support/process.hpp"

namespace reprieve::test {
namespace {

using ::testing::HasSubstr;

class RunCommands : public RunTest {
 protected:
  /// The disk of the machine is lost with it; the commands have kept the checkpoints elsewhere.
  void expect_kept(const std::string& before_start, const std::string& after_commit,
                   const Environment& environment = {}) const {
    const Simulation simulation{.steps = 200,
                                .step_ms = 10,
                                .options = {"--directory", checkpoints().string(), "--before-start", before_start,
                                            "--after-commit", after_commit},
                                .environment = environment};
    const auto run = start_and_wait(simulation);
    run->send(SIGTERM);
    expect_saved(*run);
    EXPECT_EQ(run->events("after_commit").size(), 1U) << run->all_output();
    std::filesystem::remove_all(checkpoints());
    std::filesystem::create_directory(checkpoints());
    const auto next = start(simulation);
    expect_end(*next, 0);
    EXPECT_EQ(next->events("fetch").size(), 1U);
    EXPECT_EQ(next->events("restore").size(), 1U) << next->all_output();
    EXPECT_THAT(next->out(), HasSubstr(end_of(simulation.steps)));
  }

  [[nodiscard]] std::filesystem::path elsewhere() const {
    const std::filesystem::path folder = directory_ / "elsewhere";
    std::filesystem::create_directory(folder);
    return folder;
  }
};

/// They are compressed there.
TEST_F(RunCommands, CommandsKeepTheCheckpointsWhereTheMachineIsNot) {
  const std::string store = elsewhere();
  expect_kept("for f in " + store +
                  "/*.gz; do [ ! -e \"$f\" ] || gunzip -c \"$f\" > \"$DIRECTORY/$(basename \"$f\" .gz)\""
                  " || exit; done",
              "sleep 0.3; gzip -c \"$FILE\" > " + store + "/part && mv " + store + "/part \"" + store +
                  "/$(basename \"$FILE\").gz\"");
}

/// rclone, with a server that keeps what it gets in `elsewhere`.
class RunRclone : public RunCommands {
 protected:
  void SetUp() override {
    if (Process({.arguments = {"sh", "-c", "command -v rclone"}}).wait(kLimit) != 0) {
      GTEST_SKIP() << "rclone is not here";
    }
    server_ = std::make_unique<Process>(
        Command{.arguments = {"rclone", "serve", "webdav", "--addr", "127.0.0.1:0", elsewhere()}});
    ASSERT_TRUE(wait_until([&] { return server_->err().find("/\n") != std::string::npos; }, kLimit)) << server_->err();
    const std::string said = server_->err();
    const std::size_t url = said.find("http://");
    environment_ = {{"RCLONE_CONFIG_REMOTE_TYPE", "webdav"},
                    {"RCLONE_CONFIG_REMOTE_URL", said.substr(url, said.find('\n', url) - url)}};
  }

  static constexpr const char* kFetch = "rclone copy remote:job \"$DIRECTORY\" || [ $? -eq 3 ]";
  static constexpr const char* kCopy = "rclone copy \"$FILE\" remote:job";
  std::unique_ptr<Process> server_;
  Environment environment_;
};

TEST_F(RunRclone, KeepsTheCheckpointsOnAServer) { expect_kept(kFetch, kCopy, environment_); }

/// A server may keep half of a file under its name. No run resumes from that, and the next copy makes it whole.
TEST_F(RunRclone, ACopyThatWasKilledIsNotResumedFromAndIsMadeAgain) {
  const std::vector<std::string> large{"elements=400000"};  // what is small is sent at once
  const auto preempted = [&](const std::string& copy) {
    auto run = start_and_wait(
        {.steps = kEndless, .faults = large, .options = {"--after-commit", copy}, .environment = environment_});
    run->send(SIGTERM);
    EXPECT_TRUE(run->wait_for_event("exit")) << run->all_output();
    return run;
  };
  const auto file_of = [](SupervisedMpirun& run) {
    return run.events("exit").back()["checkpoint"].get<std::filesystem::path>().filename();
  };
  const auto whole = preempted(kCopy);
  expect_end(*whole, 42);
  const auto killed = preempted("rclone copy --bwlimit 300k \"$FILE\" remote:job");
  const std::filesystem::path copy = elsewhere() / "job" / file_of(*killed);
  const std::filesystem::path file = checkpoints() / file_of(*killed);
  const auto size = [&] { return std::filesystem::exists(copy) ? std::filesystem::file_size(copy) : 0; };
  ASSERT_TRUE(wait_until([&] { return size() > 0; }, kLimit)) << killed->all_output();
  killed->send(SIGKILL);
  for (const pid_t process : killed->descendants()) {
    ::kill(process, SIGKILL);
  }
  ASSERT_TRUE(killed->wait_for_descendants(kLimit));
  ASSERT_LT(size(), std::filesystem::file_size(file)) << "it was cut";

  const std::filesystem::path other = directory_ / "other";
  const auto fetched = start({.steps = 1,
                              .faults = large,
                              .options = {"--directory", other.string(), "--before-start", kFetch},
                              .environment = environment_});
  expect_end(*fetched, 0);
  ASSERT_EQ(fetched->events("restore").size(), 1U) << fetched->all_output();
  EXPECT_EQ(fetched->events("restore").back()["file"], file_of(*whole).string());
  EXPECT_TRUE(std::filesystem::exists(other / (file_of(*killed).string() + ".corrupt")));

  const auto next =
      start({.steps = 1, .faults = large, .options = {"--after-commit", kCopy}, .environment = environment_});
  expect_end(*next, 0);
  EXPECT_EQ(read_text(copy), read_text(file)) << next->all_output();
}

TEST_F(RunCommands, NothingStartsWithoutTheCheckpointsThatCouldNotBeFetched) {
  const auto run =
      start({.options = {"--directory", checkpoints().string(), "--before-start", "echo no network; exit 7"}});
  expect_end(*run, 1);
  EXPECT_EQ(run->events("start").size(), 0U);
  ASSERT_EQ(run->events("give_up").size(), 1U);
  EXPECT_THAT(run->events("give_up").back()["text"].get<std::string>(), HasSubstr("code 7: no network"));
}

/// A fetch that failed halfway is repeated, although the directory is no longer empty.
TEST_F(RunCommands, AFetchThatDidNotEndIsRepeated) {
  const std::string fetched = directory_ / "fetched";
  const std::string command = "echo >> " + fetched + "; touch \"$DIRECTORY/ckpt-1.h5\"; [ $(wc -l < " + fetched +
                              ") -gt 1 ] && rm \"$DIRECTORY/ckpt-1.h5\"";
  const Simulation simulation{.steps = 5,
                              .options = {"--directory", checkpoints().string(), "--before-start", command}};
  expect_end(*start(simulation), 1);
  expect_end(*start(simulation), 0);
  EXPECT_EQ(std::filesystem::file_size(fetched), 2U);
  expect_end(*start(simulation), 0);
  EXPECT_EQ(std::filesystem::file_size(fetched), 2U);
}

/// Its checkpoints are those of no run: elsewhere they would be taken for the newest.
TEST_F(RunCommands, ADrillCopiesNothingElsewhere) {
  const std::filesystem::path copied = directory_ / "copied";
  Process drill({.arguments = joined({program("reprieve"), "drill", "--", program("reprieve"), "run", "--after-commit",
                                      "touch " + copied.string(), "--", "mpirun", "--oversubscribe", "-n", "1"},
                                     program_arguments({.steps = kEndless})),
                 .environment = mpirun_environment()});
  EXPECT_EQ(drill.wait(kLimit), 0) << drill.out() << drill.err();
  EXPECT_FALSE(std::filesystem::exists(copied));
}

/// Long output, failures and a command that hangs do not stop the run.
TEST_F(RunCommands, ACommandThatFailsIsTriedAgainAndDoesNotStopTheRun) {
  const std::filesystem::path log = directory_ / "log";
  const auto run = start_and_wait({.steps = kEndless,
                                   .options = {"--command-timeout", "3s", "--after-commit",
                                               "echo x >> " + log.string() + "; yes | head -c 300000; [ $(wc -l < " +
                                                   log.string() + ") -gt 1 ] || sleep 60"}});
  run->send(SIGTERM);
  expect_saved(*run);
  EXPECT_EQ(run->events("after_commit_failed").size(), 1U) << run->all_output();
  ASSERT_EQ(run->events("after_commit").size(), 1U) << run->all_output();
  EXPECT_EQ(run->events("after_commit").back()["attempt"], 2);
}

/// The supervisor is killed in the middle of a copy; the next one makes it, although the run saves nothing new.
TEST_F(RunCommands, ACopyThatWasCutByAKillIsMadeByTheNextRun) {
  const std::filesystem::path is_up = directory_ / "is-up";
  // Without the mark the network hangs after a part of the file.
  const std::string copy = "head -c 100 \"$FILE\" > " + (elsewhere() / "half").string() + "; [ -e " + is_up.string() +
                           " ] || sleep 600; cp \"$FILE\" " + elsewhere().string();
  const Simulation simulation{.steps = 200, .step_ms = 10, .options = {"--after-commit", copy}};
  const auto killed = start_and_wait(simulation);
  killed->send(SIGTERM);
  ASSERT_TRUE(killed->wait_for_event("waiting")) << killed->all_output();
  EXPECT_THAT(killed->events("kill"), ::testing::IsEmpty()) << "the copy outlives the program";
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(elsewhere() / "half"); }, kLimit));
  const std::filesystem::path file =
      std::filesystem::path(killed->events("exit").back()["checkpoint"].get<std::string>()).filename();
  EXPECT_EQ(copy_of(file)["state"], "copying");
  killed->send(SIGKILL);
  EXPECT_EQ(killed->wait(kLimit), 128 + SIGKILL);
  EXPECT_EQ(copy_of(file)["state"], "interrupted");
  EXPECT_THAT(shown_by("status"), HasSubstr("copy interrupted: " + file.string() + ", begun "));
  std::ofstream(is_up).put('\n');
  const auto next = start(simulation);
  expect_end(*next, 0);
  ASSERT_GE(next->events("after_commit").size(), 1U) << next->all_output();
  EXPECT_EQ(next->events("after_commit").front()["file"], (checkpoints() / file).string());
  EXPECT_EQ(read_text(elsewhere() / file), read_text(checkpoints() / file));
  EXPECT_EQ(copy_of("ckpt-200.h5")["state"], "copied");
  EXPECT_THAT(shown_by("status"), HasSubstr("copied: ckpt-200.h5, "));
  EXPECT_THAT(shown_by("ls"), ::testing::AllOf(HasSubstr("COPY"), HasSubstr("copied")));
  const auto last = start(simulation);
  expect_end(*last, 0);
  EXPECT_THAT(last->events("after_commit"), ::testing::IsEmpty()) << "it was copied already";
}

/// Retired or pruned meanwhile: that is no failure of the command.
TEST_F(RunCommands, ACopyOfACheckpointThatIsGoneIsNoError) {
  const auto run = start_and_wait({.steps = kEndless, .options = {"--after-commit", "rm \"$FILE\"; exit 3"}});
  run->send(SIGTERM);
  expect_end(*run, 42);
  EXPECT_EQ(run->events("after_commit_retired").size(), 1U) << run->all_output();
  EXPECT_THAT(run->events("after_commit_failed"), ::testing::IsEmpty());
  EXPECT_THAT(shown_by("status"), ::testing::Not(HasSubstr("copy ")));
}

}  // namespace
}  // namespace reprieve::test
