// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The main of the tests with Slurm. The tests run in a child; this process adopts every orphan below it (Slurm's step
/// daemons and their jobs are no children of Slurm's daemons) and kills what is left when the tests have ended, in
/// whatever way. SLURM_TEST_USER says as whom: `root` leaves them to root, any other name is whom root is to become
/// first.

#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>

namespace {

/// Tells ctest that not a single test could run.
constexpr int kSkipped = 77;

void check(bool done, const char* what) {
  if (!done) {
    throw std::system_error(errno, std::generic_category(), what);
  }
}

/// Does nothing for users other than root.
void become_user(const std::string& name) {
  if (::getuid() != 0 || name == "root") {
    return;
  }
  const passwd* user = ::getpwnam(name.c_str());
  check(user != nullptr, name.c_str());
  check(::setgroups(0, nullptr) == 0, "setgroups");
  check(::setgid(user->pw_gid) == 0, "setgid");
  check(::setuid(user->pw_uid) == 0, "setuid");
  check(::setenv("HOME", user->pw_dir, 1) == 0, "setenv");
}

/// Why the tests cannot run as this user; empty if they can.
std::string obstacle(const std::string& user) {
  if (user == "root" && ::getuid() != 0) {
    return "these are for root; the same tests for an ordinary user are tests of their own";
  }
  for (const auto* needed : {REPRIEVE_BIN_DIR "/reprieve-trainer", REPRIEVE_SOURCE_DIR "/slurm"}) {
    if (::access(needed, R_OK | X_OK) != 0) {
      return "user " + user + " cannot reach " + needed + ": let others enter the folders above it (chmod o+x)";
    }
  }
  return "";
}

/// Kills all children, then those that became children by that, and so on.
void kill_descendants() {
  const std::string children_file = "/proc/self/task/" + std::to_string(::getpid()) + "/children";
  while (::waitpid(-1, nullptr, WNOHANG) >= 0) {
    std::ifstream children(children_file);
    for (pid_t child = 0; children >> child;) {
      ::kill(child, SIGKILL);
    }
    ::usleep(5000);
  }
}

/// Waits for the tests while adopting orphans; SIGTERM and SIGINT, which are blocked, end them.
int guard(pid_t tests, const sigset_t& signals) {
  for (;;) {
    int signal = 0;
    check(::sigwait(&signals, &signal) == 0, "sigwait");
    if (signal != SIGCHLD) {
      ::kill(tests, SIGKILL);
    }
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == tests) {
        kill_descendants();
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
    }
  }
}

int run(int argc, char** argv) {
  if (const char* user = std::getenv("SLURM_TEST_USER")) {
    become_user(user);
    if (const std::string why = obstacle(user); !why.empty()) {
      std::cout << "skipped: " << why << '\n';
      return kSkipped;
    }
  }
  check(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "prctl");
  sigset_t signals, before;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) {
    ::sigaddset(&signals, signal);
  }
  check(::sigprocmask(SIG_BLOCK, &signals, &before) == 0, "sigprocmask");
  const pid_t tests = ::fork();
  check(tests >= 0, "fork");
  if (tests > 0) {
    return guard(tests, signals);
  }
  check(::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
  check(::sigprocmask(SIG_SETMASK, &before, nullptr) == 0, "sigprocmask");
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  return result == 0 && ::testing::UnitTest::GetInstance()->successful_test_count() == 0 ? kSkipped : result;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
}
