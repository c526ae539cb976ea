// SPDX-License-Identifier: BSD-3-Clause
// Death at every named place of a start, a restore, a save, a commit, the clean-up, a node-local copy, its way into a
// checkpoint, and the exit: of rank 0, of another rank, of all, and of mpirun. Each is a life of the same run, which
// must not lose anything.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/failpoint.hpp"
#include "faults/lives.hpp"

namespace reprieve::test {
namespace {

enum class Who { chief, everyone };

/// Who comes to a place, and in which mode of the program.
struct Place {
  std::string name;
  std::string mode;
  Who who = Who::everyone;
};

/// In the order of the lives. Those of a start or a restore come last, when there is something to restore.
const std::vector<Place> kPlaces{
    {"save.staged", "recycle", Who::chief},
    {"save.laid_out", "recycle"},
    {"save.block_written", "recycle"},
    {"save.pieces_exchanged", "pieces"},
    {"save.part_written", "recycle"},
    {"save.checksums_written", "recycle", Who::chief},
    {"save.record_written", "recycle", Who::chief},
    {"save.part_durable", "recycle"},
    {"save.durable", "recycle"},
    {"commit.renamed", "recycle", Who::chief},
    {"commit.durable", "recycle", Who::chief},
    {"commit.done", "recycle"},
    {"retire.begun", "recycle", Who::chief},
    {"retire.recycled_renamed", "recycle", Who::chief},
    {"retire.recycled_void", "recycle", Who::chief},
    {"retire.done", "recycle", Who::chief},
    {"save.recycled_taken", "recycle", Who::chief},
    {"save.copied", "background"},
    {"save.part_written", "background"},
    {"save.part_durable", "background"},
    {"save.durable", "background"},
    {"commit.renamed", "background", Who::chief},
    {"save.files_written", "files"},
    {"retire.file_removed", "files", Who::chief},
    {"open.recovered", "files", Who::chief},
    {"open.locked", "recycle", Who::chief},
    {"open.tidied", "recycle", Who::chief},
    {"restore.index_read", "recycle"},
    {"restore.values_read", "recycle"},
    {"restore.done", "recycle"},
    {"local.copied", "local"},
    {"local.checksums_known", "local"},
    {"local.record_written", "local"},
    {"local.received", "far"},
    {"local.partner_record_written", "far"},
    {"drain.begun", "far", Who::chief},
    {"drain.part_written", "far"},
    {"drain.completed", "far", Who::chief},
    {"drain.committed", "far", Who::chief},
    {"exit.saved", "preempt"},
    {"exit.met", "preempt"},
};

TEST(Failpoints, TheTableIsComplete) {
  std::set<std::string> known(core::kFailpointNames.begin(), core::kFailpointNames.end());
  EXPECT_EQ(known.size(), core::kFailpointNames.size());
  std::set<std::string> used;
  for (const Place& place : kPlaces) {
    EXPECT_TRUE(known.contains(place.name)) << place.name;
    used.insert(place.name);
  }
  EXPECT_EQ(used, known);
}

class Failpoints : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#ifndef REPRIEVE_FAILPOINTS
    GTEST_SKIP() << "this build has no failpoints: the presets dev and asan have";
#endif
  }

  void die(const Place& place, const std::string& victim) {
    SCOPED_TRACE(place.name + ", " + place.mode);
    const auto mark = lives_.directory().parent_path() / "mark";
    const Life life = lives_.start(
        place.mode,
        {{"REPRIEVE_FAILPOINT", place.name}, {"REPRIEVE_KILL_RANK", victim}, {"REPRIEVE_KILL_MARK", mark.string()}});
    Lives::wait_for_death(life);
    EXPECT_TRUE(std::filesystem::remove(mark)) << "nobody came there\n" << life.job().out() << life.job().err();
    ++deaths_;
  }

  Lives lives_{2};
  int deaths_ = 0;
};

TEST_P(Failpoints, NothingIsLost) {
  const std::string& victim = GetParam();
  for (const Place& place : kPlaces) {
    // Where rank 0 alone comes, the death of all is his.
    if (place.who == Who::chief && (victim == "1" || victim == "all")) {
      continue;
    }
    if (place.name == "open.recovered") {
      die({"commit.renamed", "files"}, "0");  // without mpirun, rank 0 would live on and leave nothing to recover
    }
    if (place.name.starts_with("drain.")) {
      lives_.live_for_copies("far");
    }
    die(place, victim);
    ASSERT_FALSE(HasFailure());
  }
  lives_.expect_nothing_lost();
  lives_.expect_same_end();
  std::cout << "failpoints, " << victim << ": " << deaths_ << " deaths\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, Failpoints, testing::Values("0", "1", "all", "mpirun"), [](const auto& victim) {
  return victim.param == "0" ? "OfTheChief"
                             : (victim.param == "1" ? "OfAnotherRank" : (victim.param == "all" ? "OfAll" : "OfMpirun"));
});

}  // namespace
}  // namespace reprieve::test
