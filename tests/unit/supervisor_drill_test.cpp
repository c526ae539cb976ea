// SPDX-License-Identifier: BSD-3-Clause
// The pure parts of a drill: whom a platform signals, how much grace is needed, and what the facts mean.

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>

#include "supervisor/drill.hpp"
#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Grade = Finding::Grade;

// Whom a platform signals.

/// sh runs mpirun, which runs two ranks, the second one in a wrapper and with a helper.
const std::vector<ProcessInfo> kMpirunInScript{
    {10, 1, "dash", {}, false}, {11, 10, "orterun", {}, false}, {12, 11, "train", 0, true},
    {13, 11, "bash", 1, false}, {14, 13, "train", 1, true},     {15, 14, "gzip", 1, false},
};
const std::vector<ProcessInfo> kSrun{
    {20, 1, "srun", {}, false}, {21, 20, "srun", {}, false}, {30, 2, "train", 0, true}, {31, 2, "train", 1, true}};

TEST(NoticeWay, RankIsTheProgramNotItsWrapperOrHelper) {
  EXPECT_THAT(rank_processes(kMpirunInScript), ElementsAre(std::pair(0, 12), std::pair(1, 14)));
  EXPECT_THAT(rank_processes({{12, 11, "bash", 0, false}, {13, 12, "train", 0, false}}), ElementsAre(std::pair(0, 13)))
      << "without MPI the innermost process";
}

TEST(NoticeWay, Command) {
  const Delivery delivery = plan_delivery(NoticeWay::command, SIGUSR1, 10, kMpirunInScript);
  EXPECT_THAT(delivery.targets, ElementsAre(NoticeTarget{10, SIGUSR1}));
  EXPECT_EQ(delivery.to, "dash 10");
  EXPECT_EQ(plan_delivery(NoticeWay::command, SIGUSR1, 99, kMpirunInScript).to, "") << "it has gone";
}

TEST(NoticeWay, TimeLimitReachesEveryProcess) {
  const Delivery delivery = plan_delivery(NoticeWay::time_limit, SIGTERM, 10, kMpirunInScript);
  EXPECT_EQ(delivery.targets.size(), 2 * kMpirunInScript.size());
  for (const ProcessInfo& process : kMpirunInScript) {
    EXPECT_THAT(delivery.targets, testing::Contains(NoticeTarget{process.pid, SIGTERM}));
    EXPECT_THAT(delivery.targets, testing::Contains(NoticeTarget{process.pid, SIGCONT}));
  }
}

TEST(NoticeWay, GraceTimeOfSlurmReachesTheTasksOfSrunAlone) {
  EXPECT_THAT(plan_delivery(NoticeWay::slurm_grace, SIGTERM, 20, kSrun).targets,
              ElementsAre(NoticeTarget{30, SIGCONT}, NoticeTarget{30, SIGTERM}, NoticeTarget{31, SIGCONT},
                          NoticeTarget{31, SIGTERM}));
  const Delivery nobody = plan_delivery(NoticeWay::slurm_grace, SIGTERM, 10, kMpirunInScript);
  EXPECT_THAT(nobody.targets, IsEmpty());
  EXPECT_EQ(nobody.to, "");
}

TEST(NoticeWay, LauncherIsTheOutermostAndOneRankIsTheLast) {
  EXPECT_THAT(plan_delivery(NoticeWay::launcher, SIGTERM, 10, kMpirunInScript).targets,
              ElementsAre(NoticeTarget{11, SIGTERM}));
  EXPECT_THAT(plan_delivery(NoticeWay::launcher, SIGTERM, 20, kSrun).targets, ElementsAre(NoticeTarget{20, SIGTERM}));
  EXPECT_THAT(plan_delivery(NoticeWay::rank, SIGTERM, 10, kMpirunInScript).targets,
              ElementsAre(NoticeTarget{14, SIGTERM}));
  EXPECT_EQ(plan_delivery(NoticeWay::rank, SIGTERM, 10, {}).to, "");
}

// How much grace is needed.

TEST(GraceNeed, IsTheSumWithAMargin) {
  const GraceCosts costs{.wait_s = 4, .save_s = 10, .leave_s = 2};
  EXPECT_DOUBLE_EQ(grace_needed_s(costs), 16);
  EXPECT_DOUBLE_EQ(grace_with_margin_s(costs), 25);
  EXPECT_EQ(signal_lead_s(costs), 60) << "25 s, 30 s for Slurm, and up to the next ten";
  EXPECT_EQ(signal_lead_s({}), 40);
}

// What the facts mean.

/// A job that survives.
DrillFacts survivor() {
  DrillFacts facts;
  facts.asked.command = {"mpirun", "./train"};
  facts.asked.signal = SIGUSR1;
  facts.asked.grace = std::chrono::seconds(30);
  facts.first.opened = facts.first.ready = true;
  facts.first.directory = "/data/c";
  facts.first.world_size = 2;
  facts.first.code = 42;
  facts.notice.emplace();
  facts.notice->sent = "SIGUSR1 to orterun 11";
  facts.notice->ranks_survive_signal = true;
  facts.notice->arrivals = {{0, "n1", "signal SIGUSR1", 0.001}, {1, "n1", "signal SIGUSR1", 0.002}};
  facts.notice->agreed_s = 0.5;
  facts.notice->saved_s = 2.5;
  facts.notice->left_s = 2.6;
  facts.notice->ended_s = 3.5;
  facts.notice->saved_step = 40;
  facts.notice->save_s = 2;
  facts.notice->longest_step_s = 1;
  facts.notice->restart_code = 42;
  facts.second = facts.first;
  facts.second->restored_step = 40;
  facts.state = StateComparison{3, 1000, {}, ""};
  return facts;
}

/// The same when the platform's SIGKILL came before the save.
DrillFacts killed_without_save() {
  DrillFacts facts = survivor();
  facts.notice->agreed_s.reset();
  facts.notice->saved_s.reset();
  facts.notice->left_s.reset();
  facts.notice->restart_code = 0;
  facts.notice->arrivals.clear();
  facts.notice->killed_s = 30;
  facts.first.code = 137;
  facts.second.reset();
  facts.state.reset();
  return facts;
}

Finding find(const DrillFacts& facts, const std::string& id) {
  const auto findings = judge_drill(facts);
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& each) { return each.id == id; });
  if (found == findings.end()) {
    ADD_FAILURE() << "no finding " << id;
    return {};
  }
  return *found;
}

void expect_problem(const DrillFacts& facts, const std::string& id) {
  EXPECT_EQ(find(facts, id).grade, Grade::problem);
  EXPECT_EQ(verdict_of(judge_drill(facts)), DrillVerdict::would_lose_work);
}

TEST(DrillJudgement, Survivor) {
  const auto findings = judge_drill(survivor());
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.grade, Grade::good) << finding.id << ": " << finding.text;
    EXPECT_EQ(finding.advice, "") << finding.id;
  }
  EXPECT_EQ(findings.size(), 6U);
  EXPECT_EQ(verdict_of(findings), DrillVerdict::would_survive);
  EXPECT_EQ(verdict_of({}), DrillVerdict::unknown) << "nothing found is no survival";
}

TEST(DrillJudgement, GraceCostsCountTheLongestStep) {
  const auto costs = grace_costs(survivor());
  ASSERT_TRUE(costs);
  EXPECT_DOUBLE_EQ(costs->wait_s, 1) << "not the 0.5 s of this notice, which came in the middle of a step";
  EXPECT_DOUBLE_EQ(costs->save_s, 2);
  EXPECT_DOUBLE_EQ(costs->leave_s, 1);
  EXPECT_FALSE(grace_costs(killed_without_save()));
}

TEST(DrillJudgement, TheFirstSaveAfterTheRestartMustFitToo) {
  DrillFacts facts = survivor();
  facts.second->saves = {{41, "/data/c/2.h5", 7}, {42, "/data/c/3.h5", 90}};
  EXPECT_DOUBLE_EQ(grace_costs(facts)->save_s, 7) << "not one that came later";
  EXPECT_THAT(find(facts, "first_save").text, HasSubstr("took 7"));
  EXPECT_EQ(verdict_of(judge_drill(facts)), DrillVerdict::would_survive);
  facts.asked.grace = std::chrono::milliseconds(8500);
  expect_problem(facts, "grace_too_short");
  facts.second->saves[0].seconds = 1;
  EXPECT_DOUBLE_EQ(grace_costs(facts)->save_s, 2) << "the save of the notice took longer";
}

TEST(DrillJudgement, GraceThatWasEnoughByChance) {
  DrillFacts facts = survivor();
  facts.asked.grace = std::chrono::milliseconds(3900);
  expect_problem(facts, "grace_too_short");
  facts.asked.grace = std::chrono::seconds(5);
  EXPECT_EQ(find(facts, "grace_is_tight").grade, Grade::warning);
  EXPECT_EQ(verdict_of(judge_drill(facts)), DrillVerdict::would_survive);
}

TEST(DrillJudgement, ExitCode) {
  DrillFacts facts = survivor();
  facts.first.code = 0;
  expect_problem(facts, "exit_code");
  EXPECT_THAT(find(facts, "exit_code").advice, HasSubstr("pipefail"));
  facts.first.code = 1;
  facts.asked.way = NoticeWay::time_limit;
  EXPECT_THAT(find(facts, "exit_code").advice, HasSubstr("mpirun returns 1"));
}

TEST(DrillJudgement, NoNoticeWithoutARunThatIsReady) {
  DrillFacts facts = survivor();
  facts.notice.reset();
  facts.second.reset();
  facts.first.code.reset();
  EXPECT_EQ(find(facts, "no_steps").grade, Grade::unknown);
  facts.first.ready = false;
  expect_problem(facts, "not_ready");
  facts.first.code = 0;
  EXPECT_EQ(find(facts, "ended_early").grade, Grade::unknown);
  facts.first.error = "no room";
  expect_problem(facts, "start_failed");
  facts.first.in_scratch = false;
  EXPECT_EQ(find(facts, "real_directory").grade, Grade::unknown);
  facts.interrupted = true;
  EXPECT_EQ(find(facts, "interrupted").grade, Grade::unknown);
}

TEST(DrillJudgement, ProgramWithoutTheLibrary) {
  DrillFacts facts = killed_without_save();
  facts.first.opened = facts.first.ready = false;
  expect_problem(facts, "no_handler");
  facts.notice->killed_s.reset();
  facts.notice->ranks_survive_signal = false;
  facts.first.code = 138;
  expect_problem(facts, "no_handler");
  // It handles the signal in a way of its own.
  facts.notice->ranks_survive_signal = true;
  facts.first.code = 3;
  EXPECT_EQ(find(facts, "no_handler").grade, Grade::unknown);
  EXPECT_EQ(verdict_of(judge_drill(facts)), DrillVerdict::unknown);
}

TEST(DrillJudgement, WhyNothingWasSaved) {
  DrillFacts facts = killed_without_save();
  expect_problem(facts, "step_too_long");
  facts.notice->ranks_survive_signal = false;
  expect_problem(facts, "not_watched");
  facts.notice->agreed_s = 1;
  expect_problem(facts, "save_too_slow");
  facts.notice->blocked_ranks = {1};
  expect_problem(facts, "output_blocked");
  facts.notice->save_error = "no space left";
  expect_problem(facts, "save_failed");
}

TEST(DrillJudgement, WhoEndedTheRanksWithinTheGrace) {
  DrillFacts facts = killed_without_save();
  facts.notice->killed_s.reset();
  facts.notice->rank_ends = {{0, 2.0}, {1, 2.1}};
  expect_problem(facts, "killed_early");
  facts.notice->command_died_first = true;
  expect_problem(facts, "script_died");
  facts.first.error = "rank 1 failed";
  expect_problem(facts, "error");
  facts.first.error.clear();
  facts.first.code = 0;
  EXPECT_EQ(find(facts, "finished").grade, Grade::unknown);
}

TEST(DrillJudgement, NamesTheOlderCheckpointThatIsLeft) {
  DrillFacts facts = killed_without_save();
  EXPECT_THAT(find(facts, "step_too_long").text, HasSubstr("there is no checkpoint"));
  facts.notice->older_step = 30;
  EXPECT_THAT(find(facts, "step_too_long").text, HasSubstr("the checkpoint of step 30"));
}

TEST(DrillJudgement, SavedButKilledBeforeItLeft) {
  DrillFacts facts = survivor();
  facts.notice->left_s.reset();
  facts.notice->killed_s = 30;
  facts.notice->ended_s = 30.1;
  EXPECT_EQ(find(facts, "did_not_leave").grade, Grade::warning);
  EXPECT_DOUBLE_EQ(grace_costs(facts)->leave_s, 0) << "the time until the kill is none that it needed";
  facts.notice->trained_on_s = 60;
  expect_problem(facts, "grace_period");
}

TEST(DrillJudgement, Restart) {
  DrillFacts facts = survivor();
  facts.second->restored_step = 30;
  expect_problem(facts, "another_step");
  facts.second->restored_step.reset();
  expect_problem(facts, "begins_anew");
  facts.second->directory = "/data/d";
  expect_problem(facts, "directory_changed");
  facts.second->ready = false;
  expect_problem(facts, "restart_failed");
  facts.second.reset();
  EXPECT_EQ(find(facts, "no_restart").grade, Grade::unknown);
}

TEST(DrillJudgement, State) {
  DrillFacts facts = survivor();
  facts.state->different = {{.variable = "model/weights"}};
  expect_problem(facts, "state_differs");
  EXPECT_THAT(find(facts, "state_differs").text, HasSubstr("model/weights"));
  facts.state->failure = "corrupt";
  EXPECT_EQ(find(facts, "state_not_compared").grade, Grade::warning);
}

TEST(DrillJudgement, WithoutTheReplayThatWasAskedForItCannotTell) {
  DrillFacts facts = survivor();
  facts.asked.replay_steps = 5;
  facts.state->failure = "there is no room";
  EXPECT_EQ(find(facts, "no_replay").grade, Grade::unknown);
  EXPECT_EQ(verdict_of(judge_drill(facts)), DrillVerdict::unknown);
  facts.state = StateComparison{3, 1000, {{.variable = "model/weights"}}, ""};
  EXPECT_EQ(judge_drill(facts).back().id, "state_differs") << "that is reason enough";
  facts = survivor();
  facts.asked.replay_steps = 5;
  facts.replay.emplace();
  EXPECT_EQ(judge_drill(facts).back().id, "replay_undisturbed");
}

TEST(DrillJudgement, ADeathNeedsTwoRanks) {
  DrillFacts facts = survivor();
  facts.asked.kill_rank = true;
  EXPECT_EQ(judge_drill(facts).back().id, "no_death") << "there was no run for it";
  facts.death.emplace();
  EXPECT_EQ(judge_drill(facts).back().grade, Grade::unknown);
  facts.death->rank = 1;
  EXPECT_EQ(judge_drill(facts).back().id, "job_ends_at_death");
}

// The pure parts of a drill's replay: the command on another number of ranks, and what the two runs mean.

using ::testing::AllOf;
using ::testing::SizeIs;
using Kind = StateDifference::Kind;
using Words = std::vector<std::string>;

TEST(RankOption, InAllItsSpellings) {
  for (const std::string option : {"-n", "--n", "-np", "--np", "--ntasks"}) {
    EXPECT_EQ(with_ranks({"mpirun", "--bind-to", "none", option, "4", "./a"}, 12),
              (Words{"mpirun", "--bind-to", "none", option, "12", "./a"}));
  }
  EXPECT_EQ(with_ranks({"/usr/bin/srun", "--mpi=pmix", "-n4", "./a"}, 3),
            (Words{"/usr/bin/srun", "--mpi=pmix", "-n3", "./a"}));
  EXPECT_EQ(with_ranks({"srun", "--ntasks=4", "./a"}, 3), (Words{"srun", "--ntasks=3", "./a"}));
  EXPECT_EQ(with_ranks({"reprieve", "run", "--", "mpiexec", "--mca", "btl", "tcp,self", "-n", "4", "./a"}, 3),
            (Words{"reprieve", "run", "--", "mpiexec", "--mca", "btl", "tcp,self", "-n", "3", "./a"}));
}

TEST(RankOption, TheProgramsOwnOptionsAreNone) {
  EXPECT_FALSE(with_ranks({"mpirun", "./a", "-n", "4"}, 3));
  EXPECT_FALSE(with_ranks({"mpirun", "--oversubscribe", "./a", "-n", "4"}, 3)) << "that is the program's";
  EXPECT_FALSE(with_ranks({"mpirun", "-x", "PATH", "./a", "-n", "4"}, 3));
  EXPECT_EQ(with_ranks({"mpirun", "-n", "4", "./a", "-n", "4"}, 3), (Words{"mpirun", "-n", "3", "./a", "-n", "4"}));
  EXPECT_FALSE(with_ranks({"./job.sh", "-n", "4"}, 3));
  EXPECT_FALSE(with_ranks({"sh", "-c", "mpirun -n 4 ./a"}, 3));
  EXPECT_FALSE(with_ranks({"mpirun"}, 3));
  EXPECT_FALSE(with_ranks({"mpirun", "-n"}, 3));
  EXPECT_FALSE(with_ranks({}, 3));
}

ObservedStart start_from(std::uint64_t step) {
  ObservedStart start;
  start.opened = start.ready = true;
  start.world_size = 2;
  start.begins_at = step;
  start.left_at = 45;
  return start;
}

/// A resumed run that is the same run, from step 40 to step 45.
ReplayFacts same_way() {
  ReplayFacts facts;
  facts.from_step = 40;
  facts.steps = 5;
  facts.undisturbed = start_from(0);
  facts.start = StateComparison{3, 1000, {}, ""};
  facts.resumed = start_from(40);
  facts.resumed->restored_step = 40;
  facts.end = StateComparison{3, 1000, {}, ""};
  return facts;
}

/// The only finding, or the first.
Finding only(const ReplayFacts& facts, std::size_t findings = 1) {
  const auto found = judge_replay(facts);
  EXPECT_THAT(found, SizeIs(findings));
  return found.empty() ? Finding{} : found.front();
}

void expect(const Finding& finding, Grade grade, const std::string& id) {
  EXPECT_EQ(finding.grade, grade) << finding.text;
  EXPECT_EQ(finding.id, id);
  EXPECT_EQ(finding.advice.empty(), grade == Grade::good) << finding.text;
}

TEST(ReplayJudgement, TheSameWay) {
  const Finding finding = only(same_way());
  expect(finding, Grade::good, "replay");
  EXPECT_THAT(finding.text, HasSubstr("after 5 steps, at step 45, 3 of 3 variables equal bit by bit (1000 bytes)"));
}

TEST(ReplayJudgement, AnotherWay) {
  ReplayFacts facts = same_way();
  facts.end->different = {{"u", Kind::rounding, "first at element [3] (1 against 2)", 1e-12},
                          {"v", Kind::values, "(3 against 4)"}};
  const Finding finding = only(facts);
  expect(finding, Grade::problem, "replay_differs");
  EXPECT_THAT(finding.text, AllOf(HasSubstr("after 5 steps, at step 45, variable v differs (3 against 4)"),
                                  HasSubstr("2 of 3 variables differ: v, u")))
      << "on the same ranks rounding is no excuse";
  EXPECT_THAT(finding.advice, AllOf(HasSubstr("ghost layers"), HasSubstr("generators"), HasSubstr("callbacks")));
}

TEST(ReplayJudgement, OtherRanks) {
  ReplayFacts facts = same_way();
  facts.ranks = facts.resumed->world_size = 3;
  EXPECT_THAT(only(facts).text, HasSubstr("the run that resumed on 3 ranks instead of 2 goes the way"));
  facts.end->different = {{"u", Kind::rounding, "first at element [3] (1 against 2)", 1e-12},
                          {"w", Kind::rounding, "", 2e-11}};
  const Finding rounding = only(facts);
  expect(rounding, Grade::warning, "replay_rounding");
  EXPECT_THAT(rounding.text, HasSubstr("2 of 3 variables, w most (2e-11 of the largest value that differs)"));
  facts.end->different.push_back({"generator", Kind::other_ranks, "in its shape (2 ranks against 3 ranks)"});
  only(facts, 2);
  EXPECT_THAT(judge_replay(facts)[1].text, HasSubstr("one part for each rank: generator"));
  facts.end->different.push_back({"step", Kind::values, "(4 against 5)"});
  expect(only(facts, 2), Grade::problem, "replay_differs");
  EXPECT_THAT(only(facts, 2).advice, HasSubstr("by design; else something that the program needs"));
  facts.resumed->world_size = 2;
  expect(only(facts), Grade::unknown, "replay_ranks");
}

TEST(ReplayJudgement, AProgramThatIsAnotherOneEachTime) {
  ReplayFacts facts = same_way();
  facts.start->different = {{"u", Kind::values, "first at element [3] (1 against 2)"}};
  facts.resumed.reset();
  facts.end.reset();
  const Finding finding = only(facts);
  expect(finding, Grade::unknown, "not_deterministic");
  EXPECT_THAT(finding.text, AllOf(HasSubstr("step 40"), HasSubstr("u differs first at element [3] (1 against 2)")));
  EXPECT_THAT(finding.advice, AllOf(HasSubstr("seed"), HasSubstr("--ignore")));
}

TEST(ReplayJudgement, ProgramsThatEndEarlier) {
  ReplayFacts facts = same_way();
  facts.undisturbed.left_at = facts.resumed->left_at = 43;
  EXPECT_THAT(only(facts).text, HasSubstr("after 3 steps, at step 43 (the end of the program, before the 5 steps"));
  facts.undisturbed.left_at = facts.resumed->left_at = 48;
  EXPECT_THAT(only(facts).text, HasSubstr("(the first after step 45 at which the program can save)"));
  facts.resumed->left_at = 45;
  facts.end.reset();
  expect(only(facts), Grade::unknown, "replay_other_steps");
  facts.undisturbed.left_at = facts.resumed->left_at = std::nullopt;
  facts.undisturbed.finished_at = facts.resumed->finished_at = 43;
  expect(only(facts), Grade::unknown, "replay_too_long");
  facts.undisturbed.finished_at = 40;
  expect(only(facts), Grade::unknown, "replay_too_long");
}

TEST(ReplayJudgement, RunsThatDoNotComeThere) {
  ReplayFacts facts = same_way();
  facts.resumed->left_at.reset();
  facts.resumed->error = "rank 1: the pressure is negative";
  facts.end.reset();
  EXPECT_EQ(only(facts).grade, Grade::problem);
  EXPECT_THAT(only(facts).text, HasSubstr("the pressure is negative"));
  facts.undisturbed.left_at.reset();
  facts.undisturbed.code = 3;
  expect(only(facts), Grade::unknown, "replay_undisturbed");
  EXPECT_THAT(only(facts).text, HasSubstr("step 45: the command ended with exit code 3"));
}

}  // namespace
}  // namespace reprieve::supervisor
