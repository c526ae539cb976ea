// SPDX-License-Identifier: BSD-3-Clause
// Work on a thread of its own.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <future>

#include "core/threads.hpp"

namespace reprieve::core {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = std::chrono::milliseconds(60'000);

TEST(BackgroundTask, TellsItsEndAndWhatItThrew) {
  BackgroundTask good([] {});
  BackgroundTask bad([] { throw StorageError(ErrorCode::no_space, "full"); });
  ASSERT_TRUE(good.wait_for(kLimit));
  ASSERT_TRUE(bad.wait_for(kLimit));
  EXPECT_TRUE(good.done());
  EXPECT_FALSE(good.outcome());
  ASSERT_TRUE(bad.outcome());
  EXPECT_EQ(bad.outcome()->code, ErrorCode::no_space);
  EXPECT_EQ(bad.outcome()->message, "full");
}

TEST(BackgroundTask, WorkThatDoesNotEndIsLeftBehind) {
  std::promise<void> end;
  auto ended = std::make_shared<std::atomic<bool>>(false);
  {
    BackgroundTask task([may_end = end.get_future().share(), ended] {
      may_end.wait();
      *ended = true;
    });
    EXPECT_FALSE(task.wait_for(1ms));
    EXPECT_FALSE(task.done());
  }
  EXPECT_FALSE(*ended);
  end.set_value();
  while (!*ended) {
    sched_yield();
  }
}

TEST(BackgroundTask, TakesNoSignals) {
  sigset_t mask;
  sigemptyset(&mask);
  BackgroundTask task([&] { pthread_sigmask(SIG_SETMASK, nullptr, &mask); });
  ASSERT_TRUE(task.wait_for(kLimit));
  EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0);
}

TEST(BackgroundTask, IsNotBoundToTheCoreOfItsMaker) {
  cpu_set_t before;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) {
    GTEST_SKIP() << "there is one core only";
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
  cpu_set_t of_task;
  CPU_ZERO(&of_task);
  {
    BackgroundTask task([&] { pthread_getaffinity_np(pthread_self(), sizeof of_task, &of_task); });
    EXPECT_TRUE(task.wait_for(kLimit));
  }
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof before, &before), 0);
  EXPECT_GE(CPU_COUNT(&of_task), CPU_COUNT(&before));
}

}  // namespace
}  // namespace reprieve::core
