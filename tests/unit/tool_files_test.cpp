// SPDX-License-Identifier: BSD-3-Clause
// What the tools see of directories in which runs work at that moment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "files.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::tool {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ToolFiles : public testing::Test {
 protected:
  void put(const std::string& name) const { std::ofstream(directory / name) << name; }

  /// The numbers of those that are still there when their turn comes.
  [[nodiscard]] std::vector<std::uint64_t> look(const std::function<void(std::uint64_t)>& meanwhile) const {
    std::vector<std::uint64_t> seen;
    look_at_each(directory.path(), [&](const CheckpointFile& file) {
      meanwhile(file.number);
      if (is_gone(file.path)) {
        return false;
      }
      seen.push_back(file.number);
      return true;
    });
    return seen;
  }

  const test::TemporaryDirectory directory;
};

TEST_F(ToolFiles, WhatIsRetiredBeforeItsTurnIsLeftOut) {
  put("ckpt-1.h5");
  put("ckpt-2.h5");
  EXPECT_THAT(look([](std::uint64_t) {}), ElementsAre(1, 2));
  EXPECT_THAT(look([&](std::uint64_t) { fs::remove(directory / "ckpt-1.h5"); }), ElementsAre(2));
}

TEST_F(ToolFiles, WhereAllAreRetiredTheNextOnesAreLookedAt) {
  put("ckpt-1.h5");
  const auto save_next = [&](std::uint64_t number) {
    if (number < 3) {
      put("ckpt-" + std::to_string(number + 1) + ".h5");
      fs::remove(directory / ("ckpt-" + std::to_string(number) + ".h5"));
    }
  };
  EXPECT_THAT(look(save_next), ElementsAre(3));
}

TEST_F(ToolFiles, AnEmptyDirectoryIsLookedAtOnce) {
  EXPECT_THAT(look([](std::uint64_t) {}), IsEmpty());
}

TEST_F(ToolFiles, AnotherFileOfTheNameIsSeen) {
  put("ckpt-1.h5");
  const auto before = states_in(directory.path());
  EXPECT_EQ(states_in(directory.path()), before);
  put("new");
  fs::rename(directory / "new", directory / "ckpt-1.h5");
  EXPECT_NE(states_in(directory.path()), before);
  EXPECT_NE(state_of(directory / "ckpt-1.h5"), std::nullopt);
  EXPECT_EQ(state_of(directory / "ckpt-2.h5"), std::nullopt);
}

/// Ranks have directories of their own while they save, and files of checkpoints are in directories.
TEST_F(ToolFiles, RunsAreFoundBesideDirectoriesThatComeAndGo) {
  constexpr int kRuns = 8;
  for (int run = 0; run < kRuns; ++run) {
    const fs::path place = directory / ("run" + std::to_string(run));
    fs::create_directories(place);
    std::ofstream(place / "events.jsonl") << "{}\n";
  }
  std::atomic<bool> done{false};
  std::thread saves([&] {
    while (!done) {
      for (int run = 0; run < kRuns; ++run) {
        const fs::path place = directory / ("run" + std::to_string(run)) / "workertemp_0";
        std::error_code ignored;
        fs::create_directory(place, ignored);
        fs::remove(place, ignored);
      }
    }
  });
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    EXPECT_EQ(run_directories(directory.path()).size(), kRuns);
  }
  done = true;
  saves.join();
}

}  // namespace
}  // namespace reprieve::tool
