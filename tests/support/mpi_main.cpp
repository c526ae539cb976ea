// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Main of the tests that run under mpirun. All ranks run the same tests side by side; rank 0 prints. A failure on
/// any rank fails the test, and is shown with its rank. Ranks that hang are named by the watchdog.

#include <gtest/gtest.h>
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Of LeakSanitizer, where it is linked. The check ends the process if it finds a leak. It is not made again at the end.
extern "C" [[gnu::weak]] void __lsan_do_leak_check();
extern "C" [[gnu::weak]] void __lsan_disable();
extern "C" [[gnu::weak]] void __lsan_enable();

namespace {

constexpr int kStuckExitCode = 3;
constexpr std::chrono::seconds kTimeForOtherRanks{2};

/// Ends a test process that hangs, and says where it hung: every rank has one. When a rank stays in one place for
/// longer than the limit, it prints `[rank 1/4] stuck in Suite.Test for 60 s`, leaves the other ranks a moment to say
/// where they are, and ends the process, whereupon mpirun ends the job.
class Watchdog {
 public:
  Watchdog(int rank, int size, std::chrono::seconds limit)
      : who_("[rank " + std::to_string(rank) + "/" + std::to_string(size) + "]"),
        limit_(limit),
        thread_([this](const std::stop_token& stop) { watch(stop); }) {}
  ~Watchdog() = default;
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Names the place ("in Suite.Test") and starts the clock again.
  void enter(std::string place) {
    {
      const std::lock_guard lock(mutex_);
      place_ = std::move(place);
      entered_ = Clock::now();
    }
    changed_.notify_all();
  }

  /// Names the place without touching the clock, so that all ranks of a stuck test speak at the same time.
  void rename(std::string place) {
    const std::lock_guard lock(mutex_);
    place_ = std::move(place);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void watch(const std::stop_token& stop) {
    sigset_t all;  // the tests send signals to their own process; none of them is for this thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const auto entered = entered_;
      const bool moved = changed_.wait_until(lock, stop, entered + limit_, [&] { return entered_ != entered; });
      if (!moved && !stop.stop_requested()) {
        give_up();
      }
    }
  }

  [[noreturn]] void give_up() const {
    // One write, below the size that keeps lines of several processes whole, and no buffer that a stuck thread may
    // hold.
    const std::string line = who_ + " stuck " + place_ + " for " + std::to_string(limit_.count()) + " s\n";
    const bool shown = write(STDERR_FILENO, line.data(), line.size()) >= 0;
    std::this_thread::sleep_for(kTimeForOtherRanks);
    _exit(shown ? kStuckExitCode : kStuckExitCode + 1);
  }

  const std::string who_;
  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string place_ = "at the start";
  Clock::time_point entered_ = Clock::now();
  std::jthread thread_;  // last: it uses the members above
};

std::string full_name(const testing::TestInfo& test) { return std::string(test.test_suite_name()) + "." + test.name(); }

/// A communicator of the test main's own, so that nothing a test leaves behind can meet its messages.
class World {
 public:
  World() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~World() { MPI_Comm_free(&comm_); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::string prefix(int rank) const {
    return "[rank " + std::to_string(rank) + "/" + std::to_string(size_) + "] ";
  }

  /// The texts of all ranks on rank 0; nothing on the others. No rank leaves before all have come.
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) const {
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(static_cast<std::size_t>(size_), 0);
    MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, comm_);
    std::vector<int> offsets(lengths.size(), 0);
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      offsets[i] = offsets[i - 1] + lengths[i - 1];
    }
    std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
    MPI_Gatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, 0, comm_);
    MPI_Barrier(comm_);
    std::vector<std::string> parts;
    for (std::size_t i = 0; rank_ == 0 && i < lengths.size(); ++i) {
      parts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
    }
    return parts;
  }

  [[nodiscard]] int max(int value) const {
    int result = 0;
    MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MAX, comm_);
    return result;
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
};

/// Puts the rank before the failures that rank 0's printer shows. Comes before the printer.
class RankPrefix : public testing::EmptyTestEventListener {
 public:
  explicit RankPrefix(const World& world) : world_(world) {}

  /// Whose failures come next.
  void speak_for(int rank) { rank_ = rank; }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed() && world_.rank() == 0) {
      std::printf("%s", world_.prefix(rank_).c_str());
      std::fflush(stdout);
    }
  }

 private:
  const World& world_;
  int rank_ = 0;
};

/// Takes the failures of all ranks to rank 0, where they become failures of its test. Comes after the printer:
/// "end" events reach the listeners in reverse, so the printer sees the result of all ranks.
class FailureGatherer : public testing::EmptyTestEventListener {
 public:
  FailureGatherer(const World& world, RankPrefix& prefix, Watchdog& watchdog)
      : world_(world), prefix_(prefix), watchdog_(watchdog) {}

  void OnTestStart(const testing::TestInfo& test) override { watchdog_.enter("in " + full_name(test)); }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed() && world_.rank() != 0) {
      failures_.push_back({{"file", result.file_name() == nullptr ? "unknown file" : result.file_name()},
                           {"line", result.line_number()},
                           {"message", result.message()}});
    }
  }

  void OnTestEnd(const testing::TestInfo& test) override { exchange(full_name(test)); }

  /// Failures outside of tests, in the set-up and tear-down of suites.
  void OnTestSuiteEnd(const testing::TestSuite& suite) override { exchange(suite.name()); }

 private:
  void exchange(const std::string& place) {
    watchdog_.rename("after " + place + ", waiting for other ranks,");
    const nlohmann::json mine{{"place", place}, {"failures", failures_}};
    failures_ = nlohmann::json::array();
    const auto reports = world_.gather(mine.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    for (std::size_t rank = 1; rank < reports.size(); ++rank) {
      prefix_.speak_for(static_cast<int>(rank));
      show(place, nlohmann::json::parse(reports[rank]));
    }
    prefix_.speak_for(0);
    watchdog_.enter("after " + place);
  }

  static void show(const std::string& place, const nlohmann::json& report) {
    if (report.at("place") != place) {
      ADD_FAILURE() << "is after " << report.at("place") << " while rank 0 is after " << place;
    }
    for (const auto& failure : report.at("failures")) {
      const auto file = failure.at("file").get<std::string>();
      ADD_FAILURE_AT(file.c_str(), failure.at("line").get<int>()) << failure.at("message").get<std::string>();
    }
  }

  const World& world_;
  RankPrefix& prefix_;
  Watchdog& watchdog_;
  nlohmann::json failures_ = nlohmann::json::array();
};

void install_listeners(const World& world, Watchdog& watchdog) {
  auto& listeners = testing::UnitTest::GetInstance()->listeners();  // the list owns its listeners
  auto prefix = std::make_unique<RankPrefix>(world);
  auto gatherer = std::make_unique<FailureGatherer>(world, *prefix, watchdog);
  std::unique_ptr<testing::TestEventListener> printer(listeners.Release(listeners.default_result_printer()));
  listeners.Append(prefix.release());
  if (world.rank() == 0) {
    listeners.Append(printer.release());
  }
  listeners.Append(gatherer.release());
}

std::chrono::seconds time_limit() {
  const char* text = std::getenv("MPI_TEST_TIMEOUT_S");
  return std::chrono::seconds(text == nullptr ? 120 : std::stol(text));
}

/// The result of all ranks. The listeners refer to the world, but hear nothing any more once the tests have run.
int run_tests(Watchdog& watchdog, const World& world) {
  install_listeners(world, watchdog);
  const int mine = RUN_ALL_TESTS();
  watchdog.enter("at the end, waiting for other ranks,");
  return world.max(mine);
}

int run(int rank, int size) {
  Watchdog watchdog(rank, size, time_limit());
  int result = 1;
  {
    const World world;
    result = run_tests(watchdog, world);
  }
  if (__lsan_do_leak_check != nullptr) {
    watchdog.enter("in the search for leaks");
    __lsan_do_leak_check();  // here MPI still holds its tables, and its plugins are loaded: their frames have names
  }
  watchdog.enter("in MPI_Finalize");
  MPI_Finalize();
  return result;
}

/// Programs that start MPI without threads are tested too.
int wanted_thread_level() {
  const char* text = std::getenv("MPI_TEST_THREAD_LEVEL");
  return text != nullptr && std::string(text) == "funneled" ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  if (__lsan_disable != nullptr) {
    __lsan_disable();  // plugins that MPI tries and unloads leave strings, and a name of the plugin is not known later
  }
  MPI_Init_thread(&argc, &argv, wanted_thread_level(), &provided);
  if (__lsan_enable != nullptr) {
    __lsan_enable();
  }
  testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return run(rank, size);
}
