#pragma once

/// @file
/// Tests that play several users of one machine. They need root, which can become anybody.

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace reprieve::test
