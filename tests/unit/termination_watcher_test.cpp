// SPDX-License-Identifier: BSD-3-Clause
// A run as a process beside it sees it: its event log, and its processes.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/events.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "reprieve/error.hpp"
#include "reprieve/preemption_watcher.hpp"
#include "support/child.hpp"
#include "support/process.hpp"

namespace reprieve {
namespace {

using namespace std::chrono_literals;
using test::Process;
using test::threads_of_this_process;
using test::wait_until;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr auto kHang = 60s;

class Watcher : public ::testing::Test {
 protected:
  void add_event(const core::Event& event) const { core::EventLog(directory_ / core::kEventLogName).write(event); }
  void add_notice(int rank) const { add_event(events::Notice{"signal SIGTERM", "x", 2, rank, "node7"}); }
  void list(const std::vector<core::Worker>& workers) const {
    core::write_worker_record(directory_.path(), core::json_of(workers));
    add_event(events::Ready{});
  }
  [[nodiscard]] static core::Worker worker_of(const Process& process, int rank) {
    return {rank, core::host_name(), process.pid(), core::start_of_process(process.pid())};
  }
  test::TemporaryDirectory directory_;
};

TEST_F(Watcher, KeepsTheFirstNotice) {
  add_notice(9);  // of an earlier run
  std::atomic<int> told{-1};
  const PreemptionWatcher watcher(
      directory_.path(), [&](const PreemptionMessage& message) { told = message.rank; }, 1ms);
  EXPECT_FALSE(watcher.preemption_message());
  add_notice(3);
  add_notice(4);
  const auto message = watcher.preemption_message();  // without a wait: what is written is seen
  ASSERT_TRUE(message);
  EXPECT_EQ(message->rank, 3);
  EXPECT_EQ(message->host, "node7");
  EXPECT_EQ(message->source, "signal SIGTERM");
  EXPECT_LT(message->time, std::chrono::system_clock::now() - 1s);
  EXPECT_TRUE(wait_until([&] { return told == 3; }, kHang));
}

TEST_F(Watcher, TheDirectoryNeedNotExistYet) {
  const PreemptionWatcher watcher(directory_ / "later", {}, 1ms);
  EXPECT_FALSE(watcher.preemption_message());
  EXPECT_NO_THROW(watcher.block_until_worker_exit(0ms));
}

TEST_F(Watcher, AHalfWrittenLineIsWaitedFor) {
  const PreemptionWatcher watcher(directory_.path(), {}, 1ms);
  std::ofstream log(directory_ / core::kEventLogName);
  log << R"({"event": "notice", "rank": 5, )" << std::flush;
  EXPECT_FALSE(watcher.preemption_message());
  log << "\"host\": 3}\nno json\n" << std::flush;
  ASSERT_TRUE(watcher.preemption_message());
  EXPECT_EQ(watcher.preemption_message()->rank, 5);
  EXPECT_EQ(watcher.preemption_message()->host, "");
}

TEST_F(Watcher, ItsThreadIsGoneAfterwards) {
  const std::ptrdiff_t before = threads_of_this_process();
  for (int i = 0; i < 20; ++i) {
    const PreemptionWatcher watcher(directory_.path(), {}, 1h);
    EXPECT_EQ(threads_of_this_process(), before + 1);
  }
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST_F(Watcher, ItsThreadSeesANoticeByItselfAndACallbackThatThrowsIsNoHarm) {
  std::atomic<bool> told{false};
  const PreemptionWatcher watcher(
      directory_.path(),
      [&](const auto&) {
        told = true;
        throw std::runtime_error("on purpose");
      },
      1ms);
  add_notice(3);
  EXPECT_TRUE(wait_until([&] { return told.load(); }, kHang));
  EXPECT_TRUE(watcher.preemption_message());
}

TEST_F(Watcher, BlocksUntilTheProcessesOfThisNodeAreGone) {
  Process first({{"sleep", "1000"}});
  Process second({{"sleep", "1000"}});
  const PreemptionWatcher watcher(directory_.path(), {}, 1ms);
  list({worker_of(first, 0), worker_of(second, 1)});
  first.send(SIGKILL);
  ASSERT_TRUE(first.wait(kHang));
  EXPECT_THAT([&] { watcher.block_until_worker_exit(50ms); },
              ThrowsMessage<UnresponsiveError>(AllOf(HasSubstr("rank 1 (process " + std::to_string(second.pid())),
                                                     ::testing::Not(HasSubstr("rank 0")))));
  second.send(SIGKILL);
  EXPECT_NO_THROW(watcher.block_until_worker_exit(kHang));
}

TEST_F(Watcher, AnotherProcessOfTheSameNumberIsNotTheWorker) {
  Process process({{"sleep", "1000"}});
  const PreemptionWatcher watcher(directory_.path(), {}, 1ms);
  auto worker = worker_of(process, 0);
  worker.start += 1;
  list({worker});
  EXPECT_NO_THROW(watcher.block_until_worker_exit(0ms));
}

// Another node's processes cannot be seen, but their locks can.
TEST_F(Watcher, BlocksUntilTheLocksOfOtherNodesAreGone) {
  const PreemptionWatcher watcher(directory_.path(), {}, 1ms);
  list({{0, "another-node", 1, 1}});
  {
    Process remote({{"flock", "-s", directory_ / core::kWorkerRecordName, "sh", "-c", "echo held; exec sleep 1000"}});
    ASSERT_TRUE(wait_until([&] { return remote.out() == "held\n"; }, kHang)) << remote.err();
    EXPECT_THAT([&] { watcher.block_until_worker_exit(50ms); },
                ThrowsMessage<UnresponsiveError>(HasSubstr("rank 0 (process 1 on another-node)")));
  }
  EXPECT_NO_THROW(watcher.block_until_worker_exit(kHang));
}

/// NFS 4 gives the exclusive lock that asks for living ones to those alone who may write.
TEST_F(Watcher, HasTheListOfRanksOpenForWritingToo) {
  list({});
  const PreemptionWatcher watcher(directory_.path(), {}, 1h);
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) ==
        std::filesystem::canonical(directory_.path()) / core::kWorkerRecordName) {
      ++found;
      EXPECT_EQ(::fcntl(std::stoi(entry.path().filename()), F_GETFL) & O_ACCMODE, O_RDWR);
    }
  }
  EXPECT_EQ(found, 1);
}

TEST_F(Watcher, TheNextRunIsNotTheOldOne) {
  auto old_run = std::make_unique<Process>(test::Command{{"sleep", "1000"}});
  const PreemptionWatcher watcher(directory_.path(), {}, 1ms);
  list({worker_of(*old_run, 0)});
  EXPECT_FALSE(watcher.preemption_message());  // it has seen the list by now
  old_run.reset();
  core::write_worker_record(directory_.path(), core::json_of(std::vector{core::Worker::self(0, core::host_name())}));
  const core::WorkerLock lock(directory_.path());
  EXPECT_FALSE(watcher.preemption_message());
  EXPECT_NO_THROW(watcher.block_until_worker_exit(kHang)) << "the new one is not ready, so it is not looked at";
}

TEST(WorkerRecord, ARankHoldsItsLockUntilItEnds) {
  const test::TemporaryDirectory directory;
  core::write_worker_record(directory.path(), nlohmann::json::array());
  const int descriptor = ::open((directory / core::kWorkerRecordName).c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  {
    const core::WorkerLock first(directory.path());
    const core::WorkerLock second(directory.path());
    EXPECT_NE(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
  }
  EXPECT_EQ(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
  ::close(descriptor);
}

TEST(WorkerRecord, WhatCannotBeReadIsLeftOut) {
  EXPECT_TRUE(core::workers_from_json(nlohmann::json::parse("nonsense", nullptr, false)).empty());
  const auto workers = core::workers_from_json(nlohmann::json::parse(
      R"([{"rank": 1, "host": "h", "pid": 2, "start": 3}, {"rank": 1}, 7, {"rank": "x", "host": "h", "pid": 2, "start": 3}])"));
  ASSERT_EQ(workers.size(), 1U);
  EXPECT_EQ(workers[0].start, 3U);
}

}  // namespace
}  // namespace reprieve
