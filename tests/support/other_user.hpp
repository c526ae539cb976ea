// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Tests that play several users of one machine. They need root, which can become anybody.

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <iostream>

namespace reprieve::test {

/// Two users without a common group.
inline constexpr uid_t kVictim = 65534;  // nobody
inline constexpr uid_t kNeighbour = 64999;

inline bool can_play_users() { return ::geteuid() == 0; }

/// Runs @p action in a child process as that user, and waits for it. A failure if it throws or has a failed
/// expectation.
inline testing::AssertionResult as_user(uid_t user, const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child < 0) {
    return testing::AssertionFailure() << "no child";
  }
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0) {
      ::_exit(2);
    }
    try {
      action();
      std::cout << std::flush;
      ::_exit(testing::Test::HasFailure() ? 3 : 0);
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      ::_exit(1);
    }
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return testing::AssertionFailure() << "user " << user << ": status " << status;
  }
  return testing::AssertionSuccess();
}

/// A child process that repeats @p action until this object goes, beside what the test does. A process and no thread,
/// as the test forks meanwhile: the child of a fork has only one thread, and any lock that another thread held just
/// then (the sanitizers have such locks) stays locked in it for ever.
class Neighbour {
 public:
  explicit Neighbour(const std::function<void()>& action) : child_(::fork()) {
    if (child_ == 0) {
      for (;;) {
        action();
      }
    }
    EXPECT_GT(child_, 0) << "no child";
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  ~Neighbour() {
    if (child_ > 0) {
      int status = 0;
      EXPECT_EQ(::kill(child_, SIGKILL), 0);
      EXPECT_EQ(::waitpid(child_, &status, 0), child_);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the neighbour ended by itself: " << status;
    }
  }

 private:
  pid_t child_;
};

}  // namespace reprieve::test
