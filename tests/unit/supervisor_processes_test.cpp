// SPDX-License-Identifier: BSD-3-Clause
// What a drill sees of processes from outside, with real ones.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>

#include "core/run_record.hpp"
#include "supervisor/processes.hpp"
#include "supervisor/supervised_run.hpp"
#include "support/child.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::supervisor {
namespace {

using namespace std::chrono_literals;
using test::Child;

bool within_time(const std::function<bool()>& happened) { return test::wait_until(happened, 30s); }

void become_sleep(const char* variable, const char* rank) {
  ::setenv(core::kRunDirectoryVariable, variable, 1);
  ::setenv("PMIX_RANK", rank, 1);
  ::execlp("sleep", "sleep", "1000", nullptr);
}

TEST(RunProcesses, LifeAndDeath) {
  const Child child([] { ::pause(); });
  EXPECT_TRUE(lives(child.pid()));
  ASSERT_EQ(::kill(child.pid(), SIGKILL), 0);
  EXPECT_TRUE(within_time([&] { return !lives(child.pid()); })) << "a zombie does not live";
}

TEST(RunProcesses, SignalsThatDoNotEndIt) {
  const Child child([] {
    ::signal(SIGUSR1, SIG_IGN);
    ::signal(SIGUSR2, [](int) {});
    ::signal(SIGTERM, SIG_DFL);
    ::pause();
  });
  EXPECT_TRUE(within_time([&] { return survives(child.pid(), SIGUSR2); }));
  EXPECT_TRUE(survives(child.pid(), SIGUSR1));
  EXPECT_FALSE(survives(child.pid(), SIGTERM));
}

TEST(RunProcesses, WriteThatNobodyReads) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Child blocked([&] {
    ::dup2(pipe[1], STDOUT_FILENO);
    const std::array<char, 4096> text{};
    while (::write(STDOUT_FILENO, text.data(), text.size()) > 0) {
    }
  });
  const Child silent([] { ::pause(); });
  EXPECT_TRUE(within_time([&] { return writes_output(blocked.pid()); }));
  EXPECT_FALSE(writes_output(silent.pid()));
  // Once somebody reads, it continues.
  ASSERT_EQ(::fcntl(pipe[0], F_SETFL, O_NONBLOCK), 0);
  EXPECT_TRUE(within_time([&] {
    std::array<char, 65536> text{};
    while (::read(pipe[0], text.data(), text.size()) > 0) {
    }
    return !writes_output(blocked.pid());
  }));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(RunProcesses, ThoseOfARunByItsDirectory) {
  const Child own([] { become_sleep("/runs/x/1", "3"); });
  const Child nested([] { become_sleep("/runs/x/1/.reprieve-run-y/1", "4"); });
  const Child other([] { become_sleep("/runs/x/10", "5"); });
  const auto find = [](const std::vector<ProcessInfo>& processes, pid_t pid) {
    const auto found =
        std::find_if(processes.begin(), processes.end(), [&](const ProcessInfo& each) { return each.pid == pid; });
    return found == processes.end() ? ProcessInfo{} : *found;
  };
  EXPECT_TRUE(within_time([&] {
    const auto all = processes_of_run("/runs/x/1");
    return find(all, own.pid()).rank == 3 && find(all, nested.pid()).rank == 4 && find(all, other.pid()).rank == 5;
  })) << "all are children of this process";
  // Seen from another process they are told apart by their environment.
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Child observer([&] {
    const auto all = processes_of_run("/runs/x/1");
    const std::array<bool, 3> seen{find(all, own.pid()).pid != 0, find(all, nested.pid()).pid != 0,
                                   find(all, other.pid()).pid != 0};
    if (::write(pipe[1], seen.data(), sizeof seen) < 0) {
      ::_exit(1);
    }
  });
  std::array<bool, 3> seen{};
  ASSERT_EQ(::read(pipe[0], seen.data(), sizeof seen), ssize_t{sizeof seen});
  EXPECT_THAT(seen, testing::ElementsAre(true, true, false));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

// Launchers that do not end although nothing is left of what they launched.

const HungLaunchers::Clock::time_point kStart{};
const std::vector<ProcessInfo> kWorking{{10, 1, "orterun"}, {11, 10, "train"}};
const std::vector<ProcessInfo> kAlone{{10, 1, "orterun"}};

TEST(HungLaunchers, OneThatLostItsChildrenLongAgo) {
  HungLaunchers launchers(30s);
  EXPECT_TRUE(launchers.find(kWorking, kStart).empty());
  EXPECT_TRUE(launchers.find(kWorking, kStart + 1h).empty()) << "not one that works for long";
  EXPECT_TRUE(launchers.find(kAlone, kStart + 1h + 1s).empty());
  EXPECT_TRUE(launchers.find(kAlone, kStart + 1h + 29s).empty());
  const auto hung = launchers.find(kAlone, kStart + 1h + 30s);
  ASSERT_EQ(hung.size(), 1U);
  EXPECT_EQ(hung[0].pid, 10);
}

TEST(HungLaunchers, OneThatWasNeverSeenWithChildrenGetsMoreTime) {
  HungLaunchers launchers(30s);
  EXPECT_TRUE(launchers.find(kAlone, kStart).empty());
  EXPECT_TRUE(launchers.find(kAlone, kStart + 119s).empty());
  EXPECT_EQ(launchers.find(kAlone, kStart + 120s).size(), 1U);
}

TEST(HungLaunchers, NeitherSrunNorPrograms) {
  HungLaunchers launchers(30s);
  const std::vector<ProcessInfo> before{{10, 1, "srun"}, {11, 10, "srun"}, {20, 1, "bash"}, {21, 20, "sleep"}};
  EXPECT_TRUE(launchers.find(before, kStart).empty());
  EXPECT_TRUE(launchers.find({{10, 1, "srun"}, {20, 1, "bash"}}, kStart + 1h).empty());
}

// The run record, from its writer to its reader.

namespace fs = std::filesystem;

TEST(RunRecord, WhatIsWrittenIsReadOnce) {
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::setenv(core::kRunDirectoryVariable, directory.path().c_str(), 1), 0);
  core::RunRecord record = core::open_run_record("n1");
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
  RunRecordReader reader(directory.path());
  EXPECT_TRUE(reader.read_new().empty());
  record.write(events::Ready{.run_calls = 3});
  const auto first = reader.read_new();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(std::get<events::Ready>(first[0].logged.event).run_calls, 3U);
  EXPECT_TRUE(reader.read_new().empty());
  record.write(events::Finished{});
  EXPECT_EQ(reader.read_new().size(), 1U);
}

/// A model of two parts has a manager for each, in the same process or not.
TEST(RunRecord, ManagersThatAreOpenAtOnceHaveOneEach) {
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::setenv(core::kRunDirectoryVariable, directory.path().c_str(), 1), 0);
  const auto files = [&] { return std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()); };
  core::RunRecord first = core::open_run_record("n1");
  first.write(events::Start{});
  {
    core::RunRecord second = core::open_run_record("n1");
    second.write(events::Start{});
    EXPECT_EQ(files(), 2);
  }
  core::open_run_record("n1").write(events::Start{});
  EXPECT_EQ(files(), 2) << "what was closed leaves its place to the next one";
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
}

TEST(RunRecord, NoSupervisorNoRecord) {
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
  core::open_run_record("n1").write(events::Ready{});  // goes nowhere
}

TEST(RunRecord, LinesAreReadWhenTheyAreComplete) {
  const test::TemporaryDirectory directory;
  RunRecordReader reader(directory.path());
  std::ofstream file(directory / "n1.7.jsonl");
  file << R"({"event": "sta)" << std::flush;
  EXPECT_TRUE(reader.read_new().empty());
  file << R"(rt"})" << '\n'
       << "torn {\n\n"
       << R"({"event": "ready"})" << '\n'
       << std::flush;
  std::ofstream(directory / "notes.txt") << R"({"event": "ready"})" << '\n';
  const auto events = reader.read_new();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<events::Start>(events[0].logged.event));
  EXPECT_TRUE(std::holds_alternative<events::Ready>(events[1].logged.event));
  EXPECT_EQ(events[1].record, "n1.7.jsonl");
}

/// Whoever may write to the directory could make the supervisor give up, or wait.
TEST(RunRecord, FilesOfOthersArePassedOver) {
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "n1.6.jsonl").c_str(), 0600), 0);
  RunRecordReader reader(directory.path());
  EXPECT_TRUE(reader.read_new().empty()) << "a pipe is no record";
  const fs::path forged = directory / "n1.7.jsonl";
  std::ofstream(forged) << R"({"event": "failed", "error": "usage", "message": "no use"})" << '\n';
  constexpr uid_t kNobody = 65534;
  if (::chown(forged.c_str(), kNobody, kNobody) != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  EXPECT_TRUE(reader.read_new().empty());
  ASSERT_EQ(::chown(forged.c_str(), ::geteuid(), ::getegid()), 0);
  EXPECT_EQ(reader.read_new().size(), 1U);
}

TEST(RunDirectory, IsPrivateAndVanishes) {
  const test::TemporaryDirectory parent;
  fs::path made;
  {
    const RunDirectory directory(parent.path(), {});
    made = directory.make(1);
    EXPECT_TRUE(fs::is_directory(made));
    EXPECT_EQ(fs::status(made.parent_path()).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(made.parent_path()));
}

/// They are killed with SIGKILL, and nothing of them is to stay for ever.
TEST(RunDirectory, WhatKilledSupervisorsLeftIsRemoved) {
  const test::TemporaryDirectory parent;
  const std::string of_this_host = ".reprieve-run-" + core::host_name() + '-';
  const fs::path dead = parent / (of_this_host + "0123456789abcdef");
  const fs::path young = parent / (of_this_host + "0123456789abcde0");
  const fs::path foreign = parent / "something-else";
  // Whether its supervisor lives cannot be seen from here: locks of directories may be those of one node.
  const fs::path of_another_host = parent / ".reprieve-run-elsewhere-0123456789abcdef";
  const fs::path of_a_similar_host = parent / (of_this_host + "x-0123456789abcdef");
  for (const fs::path& path : {dead, young, foreign, of_another_host, of_a_similar_host}) {
    fs::create_directory(path);
    std::ofstream(path / "1.jsonl") << "x";
  }
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& path : {dead, foreign, of_another_host, of_a_similar_host}) {
    fs::last_write_time(path, long_ago);
  }
  const RunDirectory living(parent.path(), {});
  fs::last_write_time(living.path(), long_ago);
  const RunDirectory next(parent.path(), {});
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(young));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(of_another_host));
  EXPECT_TRUE(fs::exists(of_a_similar_host));
  EXPECT_TRUE(fs::exists(living.path()));
  EXPECT_TRUE(next.has_room());
}

TEST(RunDirectory, BelowAnotherSupervisorsItIsThatOnes) {
  const test::TemporaryDirectory outer;
  std::ofstream(outer / core::kDrillOrdersName) << "orders";
  ASSERT_EQ(::setenv(core::kRunDirectoryVariable, outer.path().c_str(), 1), 0);
  fs::path made;
  {
    const RunDirectory directory("/nonexistent", {});
    EXPECT_TRUE(directory.is_dry_run());
    made = directory.make(1);
    std::ofstream(made / "n1.7.jsonl") << R"({"event":"ready"})" << std::endl;
  }
  ASSERT_EQ(::unsetenv(core::kRunDirectoryVariable), 0);
  EXPECT_EQ(test::read_text(made / core::kDrillOrdersName), "orders");
  const auto events = RunRecordReader(outer.path()).read_new();
  ASSERT_EQ(events.size(), 1U) << "the outer supervisor reads it, also when the inner one is gone";
  EXPECT_TRUE(std::holds_alternative<events::Ready>(events[0].logged.event));
}

// The error report that a run leaves beside its checkpoints, as the supervisor reads it.

std::optional<std::string> message_in(const std::string& report) {
  std::istringstream stream(report);
  return message_of_error_report(stream, 1000);
}

/// Somebody else may have written the file, or half of it.
TEST(ErrorReport, OfThisRunAloneHasAMessage) {
  EXPECT_EQ(message_in(R"({"time_s": 1000.5, "message": "disk full", "rank": 3})"), "disk full");
  for (const std::string report :
       {R"({"time_s": 999.5, "message": "disk full"})", "", "{", "[]", "17", "null",
        R"({"time_s": "1000.5", "message": "x"})", R"({"time_s": null, "message": "x"})",
        R"({"time_s": [2000], "message": "x"})", R"({"time_s": 2000, "message": 7})", R"({"time_s": 2000})",
        R"({"message": "x"})", "{\"time_s\": 2000, \"message\": \"\xff\"}"}) {
    EXPECT_EQ(message_in(report), std::nullopt) << report;
  }
}

}  // namespace
}  // namespace reprieve::supervisor
