// SPDX-License-Identifier: BSD-3-Clause
// What the library makes has the rights that are promised, whatever the umask: also for a user whom rights bind.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <iostream>

#include "core/directory.hpp"
#include "manager/directory_lock.hpp"
#include "storage/bytes/posix_file.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::core {
namespace {

namespace fs = std::filesystem;

mode_t rights_at(const fs::path& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

class Umask : public testing::TestWithParam<mode_t> {
 protected:
  /// Runs @p action under the umask in a child, as root for a user whom rights bind.
  static void run(const std::function<void()>& action) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      constexpr uid_t kNobody = 65534;
      if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) {
        ::_exit(2);
      }
      ::umask(GetParam());
      try {
        action();
        ::_exit(0);
      } catch (const std::exception& error) {
        std::cerr << error.what() << std::endl;
        ::_exit(1);
      }
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }

  Umask() { ::chmod(directory_.path().c_str(), 0777); }
  test::TemporaryDirectory directory_;
};

TEST_P(Umask, ADirectoryIsUsableByItsUser) {
  const fs::path made = directory_.path() / "made";
  run([&] {
    const Directory above = Directory::open(directory_.path()).make_directory("made", kOwnDirectory);
    static_cast<void>(above.make_directory("below", kOwnDirectory));
  });
  EXPECT_EQ(rights_at(made), 0700U);
  EXPECT_EQ(rights_at(made / "below"), 0700U);
}

TEST_P(Umask, AFileIsUsableByItsUser) {
  const fs::path file = directory_.path() / "file";
  run([&] {
    static_cast<void>(storage::PosixFile::create(file));
    static_cast<void>(storage::PosixFile::open_to_write(file));
    manager::DirectoryLock(directory_.path() / "lock", manager::LockHolder::self("here", 1), {});
    manager::DirectoryLock(directory_.path() / "lock", manager::LockHolder::self("here", 1), {});
  });
  EXPECT_EQ(rights_at(file), 0600U);
}

TEST_P(Umask, AWriteDirectoryIsUsableByItsUser) {
  run([&] {
    static_cast<void>(Directory::open(directory_.path()).make_directory("checkpoints", kOwnDirectory));
    const core::WriteDirectory made(directory_.path() / "checkpoints", 1);
    if (rights_at(made.path()) != 0700U || rights_at(made.path().parent_path()) != 0700U) {
      throw std::runtime_error("not usable");
    }
  });
}

TEST(FileRights, ARefusalToChangeThemIsNoError) {
  for (const int refusal : {EPERM, EOPNOTSUPP, ENOSYS, EINVAL}) {
    EXPECT_TRUE(has_no_rights(refusal)) << refusal;
  }
  for (const int fault : {EIO, EROFS, ENOENT}) {
    EXPECT_FALSE(has_no_rights(fault)) << fault;
  }
}

INSTANTIATE_TEST_SUITE_P(FileRights, Umask, testing::Values(0, 077, 0177, 0277, 0777));

}  // namespace
}  // namespace reprieve::core
