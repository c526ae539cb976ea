// SPDX-License-Identifier: BSD-3-Clause
// Three small codes in the shape of those that people have: staggered grid (Fortran), particles that move between ranks
// (C), unstructured nodes (C++). Each is left alone, and preempted, killed and started on another number of ranks.

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
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

class Code : public testing::TestWithParam<std::string> {
 protected:
  static constexpr int kRanks = 3;

  void SetUp() override {
    if (!fs::exists(program("e2e_code_" + GetParam()))) {
      GTEST_SKIP() << GetParam() << " was not built";
    }
  }

  /// Steps of @p step_us: a run that is to be disturbed would last 4 s and more.
  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, const std::string& step_us) const {
    return std::make_unique<Mpirun>(MpiCommand{.ranks = ranks,
                                               .arguments = {program("e2e_code_" + GetParam()), "1000", step_us},
                                               .directory = directory_.path()});
  }

  [[nodiscard]] std::string finish(int ranks) const {
    const auto job = start(ranks, "0");
    EXPECT_EQ(job->wait(kHang), 0) << job->err();
    return job->out();
  }

  /// Waits for the loop to begin, and then for a while.
  void let_run(Mpirun& job) {
    ++starts_;
    ASSERT_TRUE(
        wait_until([&] { return times_ready(directory_ / "checkpoints") >= starts_ || !job.running(); }, kHang));
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(50, 600)(random_)));
  }

  /// Returns what the job printed.
  std::string preempt(int ranks) {
    const auto job = start(ranks, "4000");
    let_run(*job);
    EXPECT_TRUE(job->send_to_rank(std::uniform_int_distribution(0, ranks - 1)(random_), SIGTERM)) << job->err();
    EXPECT_EQ(job->wait(kHang), 42) << job->out() << job->err();
    return job->out();
  }

  void kill(int ranks) {
    const auto job = start(ranks, "4000");
    let_run(*job);
    EXPECT_TRUE(job->send_to_rank(std::uniform_int_distribution(0, ranks - 1)(random_), SIGKILL)) << job->err();
    EXPECT_NE(job->wait(kHang), 0) << job->out();
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
  std::size_t starts_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Of, Code, testing::Values("staggered", "particles", "nodes"),
                         [](const auto& code) { return code.param; });

/// On the same number of ranks a run that was preempted, killed and preempted again ends with the same bits, those of
/// every copy of a border included.
TEST_P(Code, EndsWithTheSameBitsAfterPreemptionsAndAKill) {
  const std::string undisturbed = finish(kRanks);
  fs::remove_all(directory_ / "checkpoints");
  preempt(kRanks);
  kill(kRanks);
  preempt(kRanks);
  EXPECT_EQ(end_of(finish(kRanks)), end_of(undisturbed));
}

/// On another number of ranks it continues with the state that was saved, bit for bit.
TEST_P(Code, ContinuesWithTheSavedStateOnOtherNumbersOfRanks) {
  std::string saved = state_after("saved", preempt(2));
  for (const int ranks : {3, 1}) {
    const std::string output = preempt(ranks);
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

  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, std::vector<std::string> options) const {
    options.insert(options.begin(), program("e2e_code_petsc"));
    return std::make_unique<Mpirun>(
        MpiCommand{.ranks = ranks, .arguments = std::move(options), .directory = directory_.path()});
  }

  [[nodiscard]] std::string finish(int ranks, std::vector<std::string> options) const {
    const auto job = start(ranks, std::move(options));
    EXPECT_EQ(job->wait(kHang), 0) << job->err();
    return job->out();
  }

  TemporaryDirectory directory_;
};

TEST_F(Petsc, IsPreemptibleByAnOptionAndResumesOnOtherNumbersOfRanks) {
  const std::string undisturbed = finish(1, {});
  EXPECT_THAT(undisturbed, HasSubstr("final "));
  EXPECT_FALSE(fs::exists(directory_ / "run"));
  std::size_t starts = 0;
  for (const int ranks : {3, 2}) {
    const auto job = start(ranks, {"-reprieve_directory", "run", "-pause_us", "8000"});
    ++starts;
    ASSERT_TRUE(wait_until([&] { return times_ready(directory_ / "run") >= starts || !job->running(); }, kHang));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ASSERT_TRUE(job->send_to_rank(ranks - 1, SIGTERM)) << job->err();
    ASSERT_EQ(job->wait(kHang), 42) << job->out() << job->err();
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
  const auto job = start(1, {"-reprieve_directory", "run", "-da_refine", "1"});
  EXPECT_NE(job->wait(kHang), 0);
  EXPECT_THAT(job->err(), HasSubstr("does not fit the registered state"));
}

/// What would be saved or resumed with other values is refused.
TEST_F(Petsc, UseThatWouldLoseTheSolutionIsAnError) {
  const auto error_of = [&](const std::string& option, const std::string& value) {
    const auto job = start(2, {"-reprieve_directory", "run", option, value});
    EXPECT_NE(job->wait(kHang), 0) << job->out();
    return job->err();
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

// The time loops of apps/guide/loops.md, preempted by real signals twice, each time on another number of ranks.

class LoopsPage : public testing::TestWithParam<const char*> {
 protected:
  /// A job that is to be stopped makes steps of 2 ms: left alone, it would last 8 s and more.
  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, const std::string& step_us) const {
    const std::vector<std::string> words{program("e2e_loops"), GetParam(), checkpoints_.string(), "4000", step_us};
    return std::make_unique<Mpirun>(MpiCommand{.ranks = ranks, .arguments = words});
  }

  void preempt(int ranks) {
    const std::size_t before = times_ready(checkpoints_);
    const auto job = start(ranks, "2000");
    static_cast<void>(wait_until([&] { return times_ready(checkpoints_) > before || !job->running(); }, kHang));
    const int told = std::uniform_int_distribution(0, ranks - 1)(random_);
    const std::chrono::milliseconds after(std::uniform_int_distribution(0, 400)(random_));
    std::this_thread::sleep_for(after);
    ASSERT_TRUE(job->send_to_rank(told, SIGTERM)) << job->out() << job->err();
    ASSERT_EQ(job->wait(kHang), 42) << "rank " << told << " of " << ranks << " told after " << after.count() << " ms\n"
                                    << job->out() << job->err();
  }

  /// The output of a run to the end.
  [[nodiscard]] std::string finish(int ranks) const {
    const auto job = start(ranks, "0");
    EXPECT_EQ(job->wait(kHang), 0) << job->err();
    return job->out();
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
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    fs::remove_all(entry.path());
  }
  for (const int ranks : {3, 2}) {
    const std::size_t before = times_ready(checkpoints_);
    Mpirun job({.ranks = ranks,
                .arguments = {program("e2e_loops"), GetParam(), checkpoints_.string(), "4000", "2000"},
                .launch_prefix = {program("reprieve"), "run", "--"}});
    ASSERT_TRUE(wait_until([&] { return times_ready(checkpoints_) > before || !job.running(); }, kHang));
    job.send(SIGTERM);
    ASSERT_EQ(job.wait(kHang), 42) << job.out() << job.err();
  }
  EXPECT_EQ(finish(4), undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Of, LoopsPage,
                         testing::Values("phases", "own_steps", "every_hundredth", "refined", "own_order", "unwinding",
                                         "asking_first", "parts"),
                         [](const auto& loop) { return std::string(loop.param); });

TEST_P(LoopsPage, EndsAsIfItHadNotBeenDisturbed) {
  const std::string undisturbed = finish(2);
  EXPECT_THAT(undisturbed, testing::HasSubstr("digest"));
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    fs::remove_all(entry.path());
  }
  ASSERT_NO_FATAL_FAILURE(preempt(3));
  ASSERT_NO_FATAL_FAILURE(preempt(2));
  EXPECT_EQ(finish(4), undisturbed);
}

}  // namespace
}  // namespace reprieve::test
