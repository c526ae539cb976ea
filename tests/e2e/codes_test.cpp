// SPDX-License-Identifier: BSD-3-Clause
// Four small codes in the shape of those that people have: staggered grid (Fortran), particles that move between ranks
// and unstructured nodes (C++), an adaptive mesh of blocks in lists (C). Each is left alone, and preempted, killed and
// started on another number of ranks.

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "e2e/limits.hpp"
#include "support/process.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// The output of a run to the end.
std::string finish(const MpiCommand& command) {
  Mpirun job(command);
  EXPECT_EQ(job.wait(kHang), 0) << job.err();
  return job.out();
}

/// Sends a signal to one rank some time after the loop has begun, and waits for the end. Returns the output.
std::string disturb(const MpiCommand& command, const fs::path& checkpoints, std::mt19937& random, int signal) {
  const std::size_t before = times_ready(checkpoints);
  Mpirun job(command);
  EXPECT_TRUE(wait_until([&] { return times_ready(checkpoints) > before || !job.running(); }, kHang));
  const int told = std::uniform_int_distribution(0, command.ranks - 1)(random);
  const std::chrono::milliseconds after(std::uniform_int_distribution(0, 500)(random));
  std::this_thread::sleep_for(after);
  EXPECT_TRUE(job.send_to_rank(told, signal)) << job.out() << job.err();
  const auto code = job.wait(kHang);
  EXPECT_TRUE(signal == SIGKILL ? code && *code != 0 : code == 42)
      << "rank " << told << " of " << command.ranks << " told after " << after.count() << " ms\n"
      << job.out() << job.err();
  return job.out();
}

class Code : public testing::TestWithParam<std::string> {
 protected:
  static constexpr int kRanks = 3;

  void SetUp() override {
    if (!fs::exists(program("e2e_code_" + GetParam()))) {
      GTEST_SKIP() << GetParam() << " was not built";
    }
  }

  [[nodiscard]] MpiCommand command(int ranks, const std::string& step_us) const {
    return {.ranks = ranks,
            .arguments = {program("e2e_code_" + GetParam()), "1000", step_us},
            .directory = directory_.path()};
  }
  [[nodiscard]] std::string finish(int ranks) const { return test::finish(command(ranks, "0")); }

  /// Of a run that would last 4 s and more.
  std::string disturb(int ranks, int signal) {
    return test::disturb(command(ranks, "4000"), directory_ / "checkpoints", random_, signal);
  }

  /// "N DIGEST" of the line that begins with @p word.
  static std::string state_after(const std::string& word, const std::string& output) {
    const auto at = output.find(word + " ");
    return at == std::string::npos ? "no line '" + word + "' in: " + output
                                   : output.substr(at + word.size() + 1, output.find('\n', at) - at - word.size() - 1);
  }

  /// The last line: "final ...", with what follows it.
  static std::string end_of(const std::string& output) {
    const auto at = output.find("final ");
    return at == std::string::npos ? "no end in: " + output : output.substr(at);
  }

  TemporaryDirectory directory_;
  std::mt19937 random_{std::random_device{}()};
};

INSTANTIATE_TEST_SUITE_P(Of, Code, testing::Values("staggered", "particles", "nodes", "blocks"),
                         [](const auto& code) { return code.param; });

/// On the same number of ranks a run that was preempted, killed and preempted again ends with the same bits, those of
/// every copy of a border included.
TEST_P(Code, EndsWithTheSameBitsAfterPreemptionsAndAKill) {
  const std::string undisturbed = finish(kRanks);
  fs::remove_all(directory_ / "checkpoints");
  disturb(kRanks, SIGTERM);
  disturb(kRanks, SIGKILL);
  disturb(kRanks, SIGTERM);
  EXPECT_EQ(end_of(finish(kRanks)), end_of(undisturbed));
}

/// On another number of ranks it continues with the state that was saved, bit for bit.
TEST_P(Code, ContinuesWithTheSavedStateOnOtherNumbersOfRanks) {
  std::string saved = state_after("saved", disturb(2, SIGTERM));
  for (const int ranks : {3, 1}) {
    const std::string output = disturb(ranks, SIGTERM);
    EXPECT_EQ(state_after("restored", output), saved) << "on " << ranks << " ranks";
    saved = state_after("saved", output);
  }
  EXPECT_EQ(state_after("restored", finish(2)), saved);
}

/// Without copies that differ the tests above would prove less than they say.
TEST_P(Code, HasCopiesThatDiffer) {
  if (GetParam() != "nodes") {
    GTEST_SKIP() << "only this code counts them";
  }
  EXPECT_THAT(finish(kRanks), HasSubstr("differ from their owner's: some"));
}

// A program of PETSc, in the shape of its tutorials: an option makes it preemptible.

class Petsc : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program("e2e_code_petsc"))) {
      GTEST_SKIP() << "PETSc is not here";
    }
  }

  [[nodiscard]] MpiCommand command(int ranks, const std::vector<std::string>& options) const {
    return {.ranks = ranks, .arguments = joined({program("e2e_code_petsc")}, options), .directory = directory_.path()};
  }
  [[nodiscard]] std::string finish(int ranks, const std::vector<std::string>& options) const {
    return test::finish(command(ranks, options));
  }

  TemporaryDirectory directory_;
};

TEST_F(Petsc, IsPreemptibleByAnOptionAndResumesOnOtherNumbersOfRanks) {
  const std::string undisturbed = finish(1, {});
  EXPECT_THAT(undisturbed, HasSubstr("final "));
  EXPECT_FALSE(fs::exists(directory_ / "run"));
  std::mt19937 random;
  for (const int ranks : {3, 2}) {
    disturb(command(ranks, {"-reprieve_directory", "run", "-pause_us", "8000"}), directory_ / "run", random, SIGTERM);
  }
  const std::string resumed = finish(1, {"-reprieve_directory", "run"});
  EXPECT_THAT(resumed, testing::Not(HasSubstr("from 0\n")));
  EXPECT_EQ(resumed.substr(resumed.find("final ")), undisturbed.substr(undisturbed.find("final ")));
  EXPECT_THAT(finish(2, {"-reprieve_directory", "run"}), HasSubstr("from 1000\n"));
  EXPECT_TRUE(fs::exists(directory_ / "run" / "ckpt-1000.h5"));
}

/// Another problem in the same directory: the library's message reaches the user through PETSc.
TEST_F(Petsc, AnErrorOfTheLibraryIsOneOfPetsc) {
  static_cast<void>(finish(1, {"-reprieve_directory", "run"}));
  Mpirun job(command(1, {"-reprieve_directory", "run", "-da_refine", "1"}));
  EXPECT_NE(job.wait(kHang), 0);
  EXPECT_THAT(job.err(), HasSubstr("does not fit the registered state"));
}

/// What would be saved or resumed with other values is refused.
TEST_F(Petsc, UseThatWouldLoseTheSolutionIsAnError) {
  const auto error_of = [&](const std::string& option, const std::string& value) {
    Mpirun job(command(2, {"-reprieve_directory", "run", option, value}));
    EXPECT_NE(job.wait(kHang), 0) << job.out();
    return job.err();
  };
  EXPECT_THAT(error_of("-ts_exact_final_time", "interpolate"), HasSubstr("works on another vector"));
  static_cast<void>(finish(2, {"-reprieve_directory", "run", "-ts_max_steps", "10"}));
  EXPECT_THAT(error_of("-set_late", "1"), HasSubstr("was set after preemptible had restored it"));
  EXPECT_THAT(finish(2, {"-reprieve_directory", "run"}), HasSubstr("from 10\n"));
}

TEST_F(Petsc, StepsOfSeveralStagesResumeWithTheSameBits) {
  const std::vector<std::string> method{"-ts_type", "rk", "-ts_adapt_type", "none", "-ts_max_steps", "60"};
  const std::string undisturbed = finish(2, method);
  static_cast<void>(finish(2, joined(method, {"-ts_max_steps", "23", "-reprieve_directory", "run"})));
  const std::string resumed = finish(2, joined(method, {"-reprieve_directory", "run"}));
  EXPECT_THAT(resumed, HasSubstr("from 23\n"));
  EXPECT_EQ(resumed.substr(resumed.find("final ")), undisturbed.substr(undisturbed.find("final ")));
}

/// A loop over solves of SNES: no more than `petsc::add` and a handler.
TEST_F(Petsc, LoadStepsOfANonlinearSolverResume) {
  const auto loads = [&](int ranks, const std::string& directory, const std::string& pause_us) {
    return MpiCommand{
        .ranks = ranks,
        .arguments = {program("e2e_code_petsc_loads"), directory, "-snes_rtol", "1e-10", "-pause_us", pause_us},
        .directory = directory_.path()};
  };
  const std::string undisturbed = test::finish(loads(2, "whole", "0"));
  const auto norm = undisturbed.find("norm ");
  const auto digits = undisturbed.find("final ");
  std::mt19937 random;
  for (int i = 0; i < 2; ++i) {
    disturb(loads(2, "run", "50000"), directory_ / "run", random, SIGTERM);
  }
  fs::copy(directory_ / "run", directory_ / "other", fs::copy_options::recursive);
  const std::string resumed = test::finish(loads(2, "run", "0"));
  EXPECT_THAT(resumed, testing::Not(HasSubstr("from 0\n")));
  EXPECT_THAT(resumed, HasSubstr(undisturbed.substr(digits)));
  EXPECT_THAT(test::finish(loads(3, "other", "0")), HasSubstr(undisturbed.substr(norm, digits - norm)));
}

// The time loops of apps/guide/loops.md, preempted by real signals twice, each time on another number of ranks.

class LoopsPage : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] MpiCommand command(int ranks, const std::string& step_us) const {
    return {.ranks = ranks, .arguments = {program("e2e_loops"), GetParam(), checkpoints_.string(), "4000", step_us}};
  }
  [[nodiscard]] std::string finish(int ranks) const { return test::finish(command(ranks, "0")); }

  void clear() const {
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      fs::remove_all(entry.path());
    }
  }

  TemporaryDirectory directory_;
  fs::path checkpoints_ = directory_ / "checkpoints";
  std::mt19937 random_{7};
};

/// The parts have managers of their own, without a handler; from the second start on they restore when all ranks are
/// ready.
class PartsUnderASupervisor : public LoopsPage {};
INSTANTIATE_TEST_SUITE_P(Of, PartsUnderASupervisor, testing::Values("parts"),
                         [](const auto& loop) { return std::string(loop.param); });

TEST_P(PartsUnderASupervisor, AreToldAndSave) {
  const std::string undisturbed = finish(2);
  clear();
  for (const int ranks : {3, 2}) {
    const std::size_t before = times_ready(checkpoints_);
    MpiCommand supervised = command(ranks, "2000");
    supervised.launch_prefix = {program("reprieve"), "run", "--"};
    Mpirun job(supervised);
    ASSERT_TRUE(wait_until([&] { return times_ready(checkpoints_) > before || !job.running(); }, kHang));
    job.send(SIGTERM);
    ASSERT_EQ(job.wait(kHang), 42) << job.out() << job.err();
  }
  EXPECT_EQ(finish(4), undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Of, LoopsPage,
                         testing::Values("phases", "own_steps", "refined", "own_order", "unwinding", "asking_first",
                                         "parts", "resilient"),
                         [](const auto& loop) { return std::string(loop.param); });

TEST_P(LoopsPage, EndsAsIfItHadNotBeenDisturbed) {
  const std::string undisturbed = finish(2);
  EXPECT_THAT(undisturbed, testing::HasSubstr("digest"));
  clear();
  for (const int ranks : {3, 2}) {  // steps of 2 ms: left alone, it would last 8 s and more
    disturb(command(ranks, "2000"), checkpoints_, random_, SIGTERM);
  }
  EXPECT_EQ(finish(4), undisturbed);
}

}  // namespace
}  // namespace reprieve::test
