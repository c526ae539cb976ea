// SPDX-License-Identifier: BSD-3-Clause
// Recovery in place: ranks are killed, and the others continue in the same job, with the same result.

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/process.hpp"
#include "support/virtual_hosts.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

/// The options of mpirun for it; none where MPI cannot.
std::vector<std::string> options_for_recovery() {
  static const bool can = [] {
    Process info({{"ompi_info"}, mpirun_environment()});
    info.wait(30s);
    return info.out().find("FT MPI support: yes") != std::string::npos;
  }();
  return can ? std::vector<std::string>{"--with-ft", "ulfm",  "--mca", "async_mpi_finalize",
                                        "1",         "--mca", "coll",  "^han"}
             : std::vector<std::string>{};
}

/// What the program computes, on any number of ranks (programs/resilient.cpp).
std::string digest(std::uint64_t elements, std::uint64_t steps, bool alone) {
  std::vector<std::uint64_t> values(elements);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < elements; ++i) {
    values[i] = i + 1;
    sum += i + 1;
  }
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const std::uint64_t added = alone ? step : sum;
    sum = 0;
    for (std::uint64_t& value : values) {
      value = value * 6364136223846793005ULL + added;
      sum += value;
    }
  }
  return "digest " + std::to_string(sum) + "\n";
}

class ResilientTest : public ::testing::Test {
 protected:
  static constexpr auto kLimit = 60s;

  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, int steps, const std::vector<std::string>& options,
                                              const Environment& environment = {}) const {
    return std::make_unique<Mpirun>(
        MpiCommand{.ranks = ranks,
                   .arguments = joined({program("e2e_resilient"), checkpoints(), std::to_string(steps), "5"}, options),
                   .mpirun_options = options_for_recovery(),
                   .environment = environment});
  }

  static void expect_end(Mpirun& run, int steps, bool alone = false) {
    EXPECT_EQ(run.wait(kLimit), 0) << run.out() << run.err();
    EXPECT_THAT(run.out(), HasSubstr(digest(1000, static_cast<std::uint64_t>(steps), alone))) << run.err();
  }

  /// The first checkpoint, at one of the first steps.
  void save_once() const { EXPECT_EQ(start(3, 50, {"stop_at=3"})->wait(kLimit), 42); }

  /// Kills one group of ranks after the other at random moments, wherever they are after MPI_Init, which Open MPI does
  /// not leave without all ranks. The result is right.
  void survive(Mpirun& run, const std::vector<std::vector<int>>& groups, std::mt19937& random) const {
    ASSERT_TRUE(wait_until([&] { return run.out().find("life 0") != std::string::npos; }, kLimit)) << run.err();
    const std::map<int, pid_t> ranks = run.ranks();
    for (const auto& group : groups) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
      for (const int rank : group) {
        static_cast<void>(::kill(ranks.at(rank), SIGKILL));  // it may be dead
      }
    }
    if (run.wait(kLimit) == 42) {  // Open MPI hung, since one more rank died while it made a communicator
      EXPECT_THAT(run.err(), HasSubstr("MPI made no communicator"));
      expect_end(*start(2, 150, {}), 150);
    } else {
      expect_end(run, 150);
    }
  }

  [[nodiscard]] std::string checkpoints() const { return directory_ / "checkpoints"; }

  TemporaryDirectory directory_;
};

/// Those in which ranks die.
class ResilientDeath : public ResilientTest {
 protected:
  void SetUp() override {
    if (options_for_recovery().empty()) {
      GTEST_SKIP() << "this MPI does not outlive the death of a rank";
    }
  }
};

TEST_F(ResilientTest, WithoutADeathTheBodyIsCalledOnce) {
  const auto run = start(3, 20, {});
  expect_end(*run, 20);
  EXPECT_THAT(run->out(), AllOf(HasSubstr("life 0 with 3 ranks from step 0"), Not(HasSubstr("life 1"))));
}

TEST_F(ResilientTest, ANoticeEndsTheJobAsEver) {
  const auto run = start(3, 50, {"spares=1", "stop_at=10"});
  EXPECT_EQ(run->wait(kLimit), 42) << run->out() << run->err();
  const auto next = start(2, 50, {});
  expect_end(*next, 50);
  EXPECT_THAT(next->out(), ContainsRegex("life 0 with 2 ranks from step 1[0-2]\n"));
}

/// MPI_Finalize waits for the spare rank, which nobody needs any more.
TEST_F(ResilientTest, ANoticeThatBecomesAnExceptionEndsSpareRanksToo) {
  const auto run = start(3, 50, {"spares=1", "stop_at=10", "raise=1"});
  EXPECT_EQ(run->wait(kLimit), 42) << run->out() << run->err();
  EXPECT_THAT(run->out(), HasSubstr("spare to the end"));
}

TEST_F(ResilientTest, AnErrorOfTheProgramEndsTheJob) {
  const auto run = start(3, 50, {"spares=1", "throw_at=10"});
  const auto code = run->wait(kLimit);
  ASSERT_TRUE(code) << run->out() << run->err();
  EXPECT_NE(*code, 0);
  EXPECT_NE(*code, 42);
  EXPECT_THAT(run->err(), HasSubstr("thrown in a step"));
}

TEST_F(ResilientTest, OptionsThatLeaveNoRankAreAnError) {
  const auto run = start(2, 50, {"spares=2"});
  EXPECT_EQ(run->wait(kLimit), 1);
  EXPECT_THAT(run->err(), HasSubstr("2 spare ranks of 2 leave 0 to work, and min_ranks is 1"));
}

TEST_F(ResilientDeath, TheOthersContinueFromTheNewestCheckpoint) {
  const auto run = start(4, 50, {"save_every=10", "die=0:25:1", "die=1:35:2", "die=2:42:0"});
  expect_end(*run, 50);
  EXPECT_THAT(run->out(),
              AllOf(HasSubstr("life 1 with 3 ranks from step 20"), HasSubstr("life 2 with 2 ranks from step 30"),
                    HasSubstr("life 3 with 1 ranks from step 40")))
      << run->err();
}

/// Open MPI writes to connections of dead ranks.
TEST_F(ResilientDeath, AClosedConnectionEndsNoRank) {
  const auto run = start(3, 50, {"save_every=10", "die=0:25:1", "pipe_at=30"});
  expect_end(*run, 50);
  EXPECT_THAT(run->out(), HasSubstr("life 1 with 2 ranks from step 20")) << run->err();
}

/// Between the steps no rank calls MPI for the program: the library finds the death.
TEST_F(ResilientDeath, RanksThatWorkAloneLearnOfADeath) {
  const auto run = start(3, 60, {"save_every=10", "alone=1", "die=0:15:2"});
  expect_end(*run, 60, true);
  EXPECT_THAT(run->out(), HasSubstr("life 1 with 2 ranks from step 10")) << run->err();
}

/// A process that is stopped does not answer, and is not dead.
TEST_F(ResilientDeath, AStoppedRankIsEnded) {
  const auto run = start(3, 50, {"save_every=10", "alone=1", "stop=1", "timeout=500", "die=0:25:1"});
  expect_end(*run, 50, true);
  EXPECT_THAT(run->out(), HasSubstr("life 1 with 2 ranks from step 20"));
  EXPECT_THAT(run->err(), HasSubstr("is a rank that is stopped and does not answer: it is ended"));
}

/// Open MPI finds it, while the others are in calls of the program.
TEST_F(ResilientDeath, AStoppedRankIsFoundInCallsOfTheProgram) {
  const auto run = start(3, 50, {"save_every=10", "stop=1", "die=0:25:0"},
                         {{"OMPI_MCA_mpi_ft_detector", "1"},
                          {"OMPI_MCA_mpi_ft_detector_period", "1"},
                          {"OMPI_MCA_mpi_ft_detector_timeout", "4"}});
  expect_end(*run, 50);
  EXPECT_THAT(run->out(), HasSubstr("life 1 with 2 ranks from step 20"));
}

TEST_F(ResilientDeath, SeveralDieAtOnce) {
  const auto run = start(6, 50, {"save_every=10", "die=0:25:0", "die=0:25:3", "die=0:25:5"});
  expect_end(*run, 50);
  EXPECT_THAT(run->out(), HasSubstr("with 3 ranks from step 20")) << run->err();
}

TEST_F(ResilientDeath, SpareRanksTakeTheirPlaces) {
  const auto run = start(4, 50, {"spares=2", "min=2", "save_every=10", "die=0:25:0", "die=1:35:0"});
  expect_end(*run, 50);
  EXPECT_THAT(run->out(), AllOf(HasSubstr("life 0 with 2 ranks from step 0"), HasSubstr("with 2 ranks from step 20"),
                                HasSubstr("with 2 ranks from step 30"), Not(HasSubstr("with 1 ranks"))))
      << run->err();
}

TEST_F(ResilientDeath, ASpareRankMayDieToo) {
  const auto run = start(3, 100, {"spares=1", "save_every=10"});
  ASSERT_TRUE(wait_until([&] { return run->out().find("step 21") != std::string::npos; }, kLimit));
  ASSERT_EQ(::kill(run->ranks().at(2), SIGKILL), 0);
  expect_end(*run, 100);
}

/// The node-local copies are younger than the checkpoint.
TEST_F(ResilientDeath, NodeLocalCopiesLoseFewerSteps) {
  TemporaryDirectory memory("/dev/shm");
  const auto run = start(4, 100, {"save_every=50", "die=0:90:1", "local=" + memory.path().string()});
  expect_end(*run, 100);
  EXPECT_THAT(run->out(), Not(HasSubstr("with 3 ranks from step 50"))) << run->err();
}

/// In C, Fortran and Python.
TEST_F(ResilientDeath, AsCodesOfErrors) {
  const auto run = start(4, 50, {"codes=1", "spares=1", "save_every=10", "die=0:25:1", "die=1:35:2"});
  expect_end(*run, 50);
  EXPECT_THAT(run->out(), AllOf(HasSubstr("with 3 ranks from step 20"), HasSubstr("with 2 ranks from step 30")))
      << run->err();
}

TEST_F(ResilientDeath, InPython) {
  const std::string build = std::filesystem::path(program("e2e_resilient")).parent_path().parent_path();
  Mpirun run(
      {.ranks = 4,
       .arguments = {"/usr/bin/python3", REPRIEVE_SOURCE_DIR "/tests/python/programs/resilient.py", checkpoints()},
       .mpirun_options = options_for_recovery(),
       .environment = {{"PYTHONPATH", build + "/python"}, {"PYTHONDONTWRITEBYTECODE", "1"}}});
  const auto code = run.wait(kLimit);
  if (code == 77) {
    GTEST_SKIP() << "mpi4py is not installed, or the module is not built";
  }
  EXPECT_EQ(code, 0) << run.out() << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("life 1: 3 ranks from step 20"), HasSubstr("life 2: 2 ranks from step 30"),
                               HasSubstr("steps 50, sum 1275.0")))
      << run.err();
}

TEST_F(ResilientDeath, WithTooFewRanksTheJobIsStartedAgain) {
  const auto run = start(3, 50, {"min=3", "save_every=10", "die=0:25:1"});
  EXPECT_EQ(run->wait(kLimit), 42) << run->out() << run->err();
  EXPECT_THAT(run->err(), HasSubstr("2 ranks are left, of 3 that are needed"));
  const auto next = start(3, 50, {"min=3", "save_every=10"});
  expect_end(*next, 50);
  EXPECT_THAT(next->out(), HasSubstr("life 0 with 3 ranks from step 20"));
}

/// Nothing replaces what lost steps have left in variables of the program.
TEST_F(ResilientDeath, BeforeTheFirstCheckpointTheJobIsStartedAgain) {
  for (const char* const who : {"manager=0", "manager=1"}) {
    std::filesystem::remove_all(checkpoints());
    const auto run = start(3, 50, {who, "save_every=10", "die=0:5:1"});
    EXPECT_EQ(run->wait(kLimit), 42) << who << run->out() << run->err();
    EXPECT_THAT(run->err(), HasSubstr("ranks have died before the first checkpoint"));
    expect_end(*start(2, 50, {who, "save_every=10"}), 50);
  }
}

/// A rank dies in the save for a notice, or after it: the job leaves nevertheless, and does not continue.
TEST_F(ResilientDeath, ANoticeIsNotLost) {
  for (const char* const point : {"save.block_written", "commit.done", "exit.saved"}) {
    for (const char* const exit : {"raise=0", "raise=1", "codes=1"}) {
      std::filesystem::remove_all(checkpoints());
      save_once();
      const auto run = start(3, 50, {"stop_at=10", exit}, {{"REPRIEVE_FAILPOINT", point}, {"REPRIEVE_KILL_RANK", "1"}});
      EXPECT_EQ(run->wait(kLimit), 42) << point << " " << exit << run->out() << run->err();
      expect_end(*start(2, 50, {}), 50);
    }
  }
}

/// All ranks of a host die, with the node-local copies of their parts: the partner copies on the other hosts are used.
class ResilientHosts : public ResilientDeath {
 protected:
  void SetUp() override {
    ResilientDeath::SetUp();
    if (!hosts_.work()) {
      GTEST_SKIP() << VirtualHosts::kNeeds;
    }
    hosts_.write_agent(agent(), memory_.path(), local_.path());
  }

  /// @param launcher  put before mpirun
  /// @param wrapper   put before the program
  [[nodiscard]] std::unique_ptr<Mpirun> start_on(const std::string& hosts, int ranks, int steps,
                                                 const std::vector<std::string>& options,
                                                 const std::vector<std::string>& launcher = {},
                                                 const std::vector<std::string>& wrapper = {}) const {
    return std::make_unique<Mpirun>(MpiCommand{
        .ranks = ranks,
        .arguments = joined(
            {program("e2e_resilient"), checkpoints(), std::to_string(steps), "5", "local=" + local_.path().string()},
            options),
        .mpirun_options = joined(options_for_recovery(), {"--mca", "plm_rsh_agent", agent(), "--host", hosts}),
        .launch_prefix = joined(hosts_.on_h0(), launcher),
        .rank_prefix = wrapper});
  }

  [[nodiscard]] std::string agent() const { return directory_.path() / "agent.sh"; }

  const VirtualHosts hosts_;
  const TemporaryDirectory memory_{"/dev/shm"};  ///< a directory for each host, which sees it as local_
  const TemporaryDirectory local_{"/dev/shm"};
};

/// The checkpoint makes all copies before it void. On a busy machine the parts of the next one can be on their way for
/// as long as the run takes: the deaths wait for it.
TEST_F(ResilientHosts, TheRanksOfAHostDie) {
  const auto run = start_on("h1:2,h2:2", 4, 100, {"save_every=50", "copied_after=50", "die=0:90:2", "die=0:90:3"});
  expect_end(*run, 100);
  EXPECT_THAT(run->out(), AllOf(HasSubstr("with 2 ranks from step"), Not(HasSubstr("with 2 ranks from step 50"))))
      << run->err();
}

TEST_F(ResilientDeath, ADrillShowsIt) {
  Process drill({joined(joined({program("reprieve"), "drill", "--json", "--after-steps", "5", "--kill-rank", "--",
                                "mpirun", "--oversubscribe", "-n", "3"},
                               options_for_recovery()),
                        {program("e2e_resilient"), checkpoints(), "1000000", "20"}),
                 mpirun_environment()});
  ASSERT_TRUE(drill.wait(kLimit)) << drill.err();
  EXPECT_THAT(drill.out(), AllOf(HasSubstr("recovered_in_place"), HasSubstr("2 ranks continued in place, ")))
      << drill.err();
}

/// A death at each step of the protocols: the result is the same, whether the save counts or not.
class ResilientDeathAtPoint : public ResilientDeath, public ::testing::WithParamInterface<const char*> {};

TEST_P(ResilientDeathAtPoint, TheResultIsTheSame) {
  for (const char* const victim : {"0", "1"}) {
    std::filesystem::remove_all(checkpoints());
    if (GetParam() != std::string("restore.values_read")) {  // that one is the recovery's
      save_once();
    }
    const auto run = start(3, 40, {"save_every=10", "die=0:25:2"},
                           {{"REPRIEVE_FAILPOINT", GetParam()}, {"REPRIEVE_KILL_RANK", victim}});
    expect_end(*run, 40);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ResilientDeathAtPoint,
                         ::testing::Values("open.locked", "restore.values_read", "save.laid_out", "save.block_written",
                                           "save.record_written", "commit.renamed", "commit.done", "retire.begun"));

/// RESILIENT_LIVES: how many.
TEST_F(ResilientDeath, RandomDeathsChangeNothing) {
  std::mt19937 random(20261128);
  for (int life = count_from("RESILIENT_LIVES", 5); life > 0; --life) {
    std::filesystem::remove_all(checkpoints());
    save_once();
    const auto any = [&] { return std::vector<int>{static_cast<int>(random() % 5)}; };
    survive(*start(5, 150, {"save_every=7"}), {any(), any(), any()}, random);
  }
}

/// Two hosts of three ranks. The deaths are those of a host and of two single ranks, in any order. mpirun can count the
/// deaths of another host twice, and end before the ranks that live: `reprieve run` starts such a job again. The exit
/// code of every rank is checked, since a crash would be started again too: 137 and 143 are the kills of the test and
/// of mpirun, 255 is the end of a rank whose mpirun is gone.
TEST_F(ResilientHosts, RandomDeathsChangeNothing) {
  const std::filesystem::path ends = directory_ / "ends";
  const std::vector<std::string> note_end{
      "sh", "-c", R"("$@"; code=$?; echo $code >>"$0"; [ $code -le 128 ] || kill -$((code - 128)) $$; exit $code)",
      ends};
  std::mt19937 random(20261129);
  for (int life = count_from("RESILIENT_LIVES", 3); life > 0; --life) {
    std::filesystem::remove_all(checkpoints());
    save_once();
    const int first = random() % 2 == 0 ? 0 : 3;  // of the host that is lost
    std::vector<std::vector<int>> groups{
        {first, first + 1, first + 2}, {static_cast<int>(random() % 6)}, {static_cast<int>(random() % 6)}};
    std::shuffle(groups.begin(), groups.end(), random);
    std::filesystem::remove(ends);
    survive(*start_on("h1:3,h2:3", 6, 150, {"save_every=20"}, {program("reprieve"), "run", "--restarts", "5", "--"},
                      note_end),
            groups, random);
    EXPECT_THAT(read_text(ends), AllOf(MatchesRegex("((0|42|137|143|255)\n)*"), ContainsRegex("(^|\n)0\n"))) << life;
  }
}

}  // namespace
}  // namespace reprieve::test
