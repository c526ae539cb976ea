// SPDX-License-Identifier: BSD-3-Clause
// Three small codes in the shape of those that people have: staggered grid (Fortran), particles that move between ranks
// (C), unstructured nodes (C++). Each is left alone, and preempted, killed and started on another number of ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "e2e/limits.hpp"
#include "support/process.hpp"

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
    const auto times_ready = [this] {
      const std::string log = read_text(directory_ / "checkpoints" / "events.jsonl");
      std::size_t count = 0;
      for (auto at = log.find("\"ready\""); at != std::string::npos; at = log.find("\"ready\"", at + 1)) {
        ++count;
      }
      return count;
    };
    ++starts_;
    ASSERT_TRUE(wait_until([&] { return times_ready() >= starts_ || !job.running(); }, kHang));
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

}  // namespace
}  // namespace reprieve::test
