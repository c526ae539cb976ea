// SPDX-License-Identifier: BSD-3-Clause
// What other users of the machine can do to a run: those who may write in the directory above that of the checkpoints,
// and those who may read the checkpoints. apps/guide/security.md names what is promised. One test plays two users: the
// victim runs the library, and the neighbour was there before, or is there at the same time.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "core/events.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "handler/exit.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/directory_lock.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/posix_file.hpp"
#include "supervisor/supervised_run.hpp"
#include "support/other_user.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve {
namespace {

namespace fs = std::filesystem;
using test::as_user;
using test::kNeighbour;
using test::kVictim;
using test::read_text;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A project directory in which both may write, with the victim's checkpoints, and the victim's home.
class Neighbour : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::can_play_users()) {
      GTEST_SKIP() << "needs root, to play two users";
    }
    fs::create_directories(checkpoints_);
    fs::create_directories(home_);
    std::ofstream(thesis_) << "precious";
    for (const fs::path& path : {checkpoints_, home_, thesis_}) {
      ASSERT_EQ(::chown(path.c_str(), kVictim, kVictim), 0);
    }
    for (const fs::path& path : {checkpoints_, home_}) {
      ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
    }
    ASSERT_EQ(::chmod(thesis_.c_str(), 0600), 0);
    ASSERT_EQ(::chmod(project_.c_str(), 0777), 0);
  }

  void expect_untouched() const {
    EXPECT_EQ(fs::status(thesis_).permissions(), kOwnFile);
    EXPECT_EQ(read_text(thesis_), "precious");
  }

  /// The victim opened the directory to the neighbour, who has put something there: the worst that a trusted
  /// colleague's account can be made to do.
  void plant(const std::function<void()>& planting) const {
    ASSERT_EQ(::chmod(checkpoints_.c_str(), 0777), 0);
    EXPECT_TRUE(as_user(kNeighbour, planting));
    ASSERT_EQ(::chmod(checkpoints_.c_str(), 0700), 0);
  }

  static constexpr fs::perms kOwnFile = fs::perms::owner_read | fs::perms::owner_write;
  const test::TemporaryDirectory temporary_;
  const fs::path project_ = temporary_.path();
  const fs::path checkpoints_ = project_ / "checkpoints";
  const fs::path home_ = project_ / "home";
  const fs::path thesis_ = home_ / "thesis.txt";
};

TEST_F(Neighbour, LinksInPlaceOfTheListOfProcessesOverwriteNothing) {
  plant([&] {
    for (const char* name : {".reprieve.workers", ".reprieve.workers.new"}) {
      fs::create_symlink(thesis_, checkpoints_ / name);
    }
  });
  EXPECT_TRUE(as_user(kVictim, [&] { core::write_worker_record(checkpoints_, nlohmann::json::array()); }));
  expect_untouched();
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(checkpoints_ / ".reprieve.workers")));
}

TEST_F(Neighbour, AFifoInPlaceOfTheListOfProcessesHangsNothing) {
  plant([&] {
    for (const char* name : {".reprieve.workers", ".reprieve.workers.new"}) {
      ASSERT_EQ(::mkfifo((checkpoints_ / name).c_str(), 0666), 0);
    }
  });
  EXPECT_TRUE(as_user(kVictim, [&] {
    const core::WorkerLock before(checkpoints_);
    core::write_worker_record(checkpoints_, nlohmann::json::array());
  }));
  EXPECT_EQ(read_text(checkpoints_ / ".reprieve.workers"), "[]\n");
}

TEST_F(Neighbour, LinksInPlaceOfTheErrorReportOverwriteNothing) {
  plant([&] {
    for (const char* name : {".error-3.json", ".error-3.json.new", "error.json"}) {
      fs::create_symlink(thesis_, checkpoints_ / name);
    }
  });
  EXPECT_TRUE(as_user(kVictim, [&] {
    ::umask(0);
    const core::Directory place = core::Directory::open(checkpoints_);
    handler::write_error_report(place, {.rank = 3, .host = "here", .run_calls = 7, .message = "why"});
    handler::remove_error_report(place);
    handler::write_error_report(place, {.rank = 3, .host = "here", .run_calls = 7, .message = "why"});
  }));
  expect_untouched();
  const fs::file_status report = fs::symlink_status(checkpoints_ / "error.json");
  EXPECT_TRUE(fs::is_regular_file(report));
  EXPECT_EQ(report.permissions(), kOwnFile) << "under umask 0";
}

TEST_F(Neighbour, LinksAndFifosInPlaceOfTheLibrarysFilesAreRefusedOrReplaced) {
  for (const bool is_fifo : {false, true}) {
    plant([&] {
      for (const char* name :
           {"events.jsonl", ".reprieve.lock", ".reprieve.recycled", ".reprieve.directory", ".reprieve.directory.new"}) {
        fs::remove(checkpoints_ / name);
        if (is_fifo) {
          ASSERT_EQ(::mkfifo((checkpoints_ / name).c_str(), 0666), 0);
        } else {
          fs::create_symlink(thesis_, checkpoints_ / name);
        }
      }
    });
    EXPECT_TRUE(as_user(kVictim, [&] {
      core::EventLog(checkpoints_ / "events.jsonl").write(events::Start{});
      EXPECT_THROW(manager::DirectoryLock(checkpoints_ / ".reprieve.lock", manager::LockHolder::self("here", 1), {}),
                   StorageError);
      manager::CheckpointDirectory directory(checkpoints_, "ckpt", true);
      manager::write_directory_record(directory.opened(), {"an id", 1, 0, {}, {}}, true);
      EXPECT_EQ(manager::read_directory_record(directory.opened()).value().id, "an id");
      directory.prepare_staging(1);
      EXPECT_FALSE(directory.take_recycled({1, 5}).has_value());
    }));
    expect_untouched();
  }
}

/// `flock -x` needs an open file, and who may read a file can open it.
TEST_F(Neighbour, WhoMayReadTheDirectoryCannotTakeTheLock) {
  ASSERT_EQ(::chmod(checkpoints_.c_str(), 0755), 0);
  const fs::path lock = checkpoints_ / ".reprieve.lock";
  EXPECT_TRUE(as_user(kVictim, [&] { manager::DirectoryLock(lock, manager::LockHolder::self("here", 1), {}); }));
  EXPECT_TRUE(as_user(kNeighbour, [&] { EXPECT_EQ(::open(lock.c_str(), O_RDONLY | O_CLOEXEC), -1); }));
}

TEST_F(Neighbour, ADirectoryOfTheNeighboursInItsPlaceIsRefused) {
  EXPECT_TRUE(as_user(kNeighbour, [&] {
    fs::rename(checkpoints_, project_ / "away");
    fs::create_directory(checkpoints_);
    ASSERT_EQ(::chmod(checkpoints_.c_str(), 0777), 0);
  }));
  EXPECT_TRUE(as_user(kVictim, [&] {
    const auto place = manager::make_directories(checkpoints_, true);
    EXPECT_THAT([&] { manager::check_who_may_write(place, checkpoints_); },
                ThrowsMessage<StorageError>(HasSubstr("belongs to user " + std::to_string(kNeighbour))));
    EXPECT_TRUE(fs::is_empty(checkpoints_)) << "nothing is left in it";
  }));
}

TEST_F(Neighbour, ALinkToADirectoryOfTheNeighboursIsRefused) {
  EXPECT_TRUE(as_user(kNeighbour, [&] {
    fs::rename(checkpoints_, project_ / "away");
    fs::create_directory(project_ / "trap");
    ASSERT_EQ(::chmod((project_ / "trap").c_str(), 0777), 0);
    fs::create_directory_symlink(project_ / "trap", checkpoints_);
  }));
  EXPECT_TRUE(as_user(kVictim, [&] {
    EXPECT_THROW(manager::check_who_may_write(manager::make_directories(checkpoints_, true), checkpoints_),
                 StorageError);
  }));
}

TEST_F(Neighbour, OnesOwnAndRootsDirectoriesAreTaken) {
  EXPECT_TRUE(as_user(kVictim, [&] {
    manager::check_who_may_write(manager::make_directories(checkpoints_, true), checkpoints_);
    manager::check_who_may_write(manager::make_directories(checkpoints_ / "not" / "there", true, 2), checkpoints_);
  }));
  fs::create_directory(project_ / "of-root");
  ASSERT_EQ(::chmod((project_ / "of-root").c_str(), 0777), 0);
  EXPECT_TRUE(as_user(kVictim, [&] {
    manager::check_who_may_write(manager::make_directories(project_ / "of-root", true), project_ / "of-root");
  }));
  EXPECT_NO_THROW(manager::check_who_may_write(manager::make_directories(checkpoints_, true), checkpoints_)) << "root";
}

/// What looks like the record of a supervisor that was killed may be anybody's.
TEST_F(Neighbour, TheRecordOfARunIsItsUsersAlone) {
  const std::string prefix = ".reprieve-run-" + core::host_name() + '-';
  const fs::path link = project_ / (prefix + "0123456789abcdef");
  const fs::path directory = project_ / (prefix + "0123456789abcde0");
  EXPECT_TRUE(as_user(kNeighbour, [&] {
    fs::create_directory_symlink(home_, link);
    fs::create_directory(directory);
    for (const fs::path& path : {link, directory}) {
      const std::array<timespec, 2> long_ago{};
      ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago.data(), AT_SYMLINK_NOFOLLOW), 0);
    }
  }));
  EXPECT_TRUE(as_user(kVictim, [&] {
    fs::path made;
    {
      const supervisor::RunDirectory run(project_, {"true"});
      made = run.path();
      static_cast<void>(run.make(1));
      EXPECT_TRUE(run.has_room());
      for (const fs::path& path : {made, made / "1"}) {
        EXPECT_EQ(fs::symlink_status(path).permissions(), fs::perms::owner_all) << path;
      }
    }
    EXPECT_FALSE(fs::exists(made));
  }));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::is_directory(directory));
  expect_untouched();
}

/// In the middle of a run: what the victim opened stays what the victim works in.
TEST_F(Neighbour, ADirectoryThatIsReplacedInMidRunIsNotMistakenForIt) {
  const fs::path away = project_ / "away";
  EXPECT_TRUE(as_user(kVictim, [&] {
    manager::DirectoryLock lock(checkpoints_ / ".reprieve.lock", manager::LockHolder::self("here", 1), {});
    manager::CheckpointDirectory directory(checkpoints_, "ckpt", true);
    directory.prepare_staging(1);
    const auto staged = directory.staged_file({1, 5});
    fs::rename(checkpoints_, away);  // the neighbour could do this as well
    fs::create_directories(checkpoints_ / ".chieftemp");
    std::ofstream(checkpoints_ / ".chieftemp/ckpt-1.5.h5") << "forged";
    std::ofstream(checkpoints_ / "ckpt-9.h5") << "forged";
    storage::PosixFile::create(staged).write_all(std::as_bytes(std::span("valid", 5)), 0);
    EXPECT_THROW(lock.check_held(), StorageError);
    EXPECT_THROW(static_cast<void>(directory.numbers()), StorageError);
    directory.commit({1, 5}, false);
    EXPECT_EQ(read_text(away / "ckpt-1.h5"), "valid");
    EXPECT_EQ(read_text(checkpoints_ / ".chieftemp/ckpt-1.5.h5"), "forged");
  }));
}

}  // namespace
}  // namespace reprieve
