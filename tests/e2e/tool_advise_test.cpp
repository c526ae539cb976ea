// SPDX-License-Identifier: BSD-3-Clause
// `reprieve advise` with the event logs of real runs of the trainer.

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

class ToolAdvise : public TrainerTest {
 protected:
  struct Answer {
    int code = -1;
    std::string out;
    std::string err;
  };

  [[nodiscard]] Answer advise(const Options& options) const {
    Command command{{program("reprieve"), "advise", checkpoints_.string()}};
    command.arguments.insert(command.arguments.end(), options.begin(), options.end());
    Process tool(command);
    const int code = tool.wait(kHang).value_or(-1);
    return {code, tool.out(), tool.err()};
  }

  [[nodiscard]] nlohmann::json advise_json(Options options, int code = 0) const {
    options.emplace_back("--json");
    const Answer answer = advise(options);
    EXPECT_EQ(answer.code, code) << answer.out << answer.err;
    auto json = nlohmann::json::parse(answer.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << answer.out;
    return json;
  }
};

TEST_F(ToolAdvise, FromRunsThatWerePreemptedKilledAndFinished) {
  const auto preempted = start_and_wait(2, 2);
  ASSERT_TRUE(preempted->send_to_rank(1, SIGTERM));
  static_cast<void>(expect_preempted(*preempted));
  const auto killed = start_and_wait(2, 2);
  ASSERT_TRUE(killed->send_to_rank(0, SIGKILL));
  static_cast<void>(finish(*killed));
  ASSERT_EQ(run(2).code, 0);

  const auto answer = advise_json({});
  const auto& measured = answer["measured"];
  EXPECT_EQ(measured["runs"], 3);
  EXPECT_EQ(measured["preempted"], 1);
  EXPECT_EQ(measured["failed"], 1);
  EXPECT_EQ(measured["finished"], 1);
  EXPECT_EQ(measured["saves"], events("save_finished").size());
  // The delay of 100 ms in each step of the slow runs, and more.
  EXPECT_GE(measured["step_longest_s"].get<double>(), 0.1);
  EXPECT_GT(measured["step_mean_s"].get<double>(), 0);
  EXPECT_GE(measured["steps"], 16) << "two runs saved twice, every 4 steps";

  const auto& interval = answer["checkpoint_interval"];
  EXPECT_EQ(interval["mtbf_source"], "measured");
  EXPECT_EQ(interval["mtbf_s"], measured["observed_s"]);
  EXPECT_GT(interval["interval_s"].get<double>(), 0);
  EXPECT_THAT(interval["lost_fraction"].get<double>(), AllOf(Ge(0), Lt(1)));
  EXPECT_GE(interval["present_s"].get<double>(), 0.4);

  const auto& notice = answer["notice"];
  EXPECT_GE(notice["wait_s"], measured["step_longest_s"]);
  EXPECT_GE(notice["signal_lead_s"], 40);
}

TEST_F(ToolAdvise, GraceAndTextForPeople) {
  ASSERT_EQ(run(2, {"--checkpoint-every", "50"}).code, 0);
  EXPECT_TRUE(advise_json({"--grace", "1h", "--mtbf", "1d"})["grace"]["two_saves_fit"]);
  const Answer enough = advise({"--grace", "1h", "--mtbf", "1d"});
  EXPECT_EQ(enough.code, 0);
  EXPECT_THAT(enough.out, AllOf(HasSubstr("enough for two saves"), HasSubstr("#SBATCH --signal=B:URG@"),
                                HasSubstr("\"save_every_steps\""), HasSubstr("Daly 2006")));
  const Answer short_grace = advise({"--grace", "1s"});
  EXPECT_EQ(short_grace.code, 1);
  EXPECT_THAT(short_grace.out, HasSubstr("TOO SHORT"));
  EXPECT_THAT(short_grace.out, HasSubstr("give --mtbf"));
}

TEST_F(ToolAdvise, TooLittleToGoBy) {
  const Answer no_directory = advise({});
  EXPECT_EQ(no_directory.code, 2);
  EXPECT_THAT(no_directory.err, HasSubstr("does not exist"));
  std::filesystem::create_directory(checkpoints_);
  const Answer no_log = advise({});
  EXPECT_EQ(no_log.code, 2);
  EXPECT_THAT(no_log.err, HasSubstr("has no event log"));
  std::ofstream(checkpoints_ / "events.jsonl") << "{\"event\":\"start\"}\nno JSON\n";
  const Answer no_save = advise({});
  EXPECT_EQ(no_save.code, 2);
  EXPECT_THAT(no_save.out, HasSubstr("no save is on record"));
}

}  // namespace
}  // namespace reprieve::test
