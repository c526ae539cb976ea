// SPDX-License-Identifier: BSD-3-Clause
// The pure parts of a drill's replay: the command on another number of ranks, and what the two runs mean.

#include <gmock/gmock.h>

#include "supervisor/drill.hpp"
#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Grade = Finding::Grade;
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
  EXPECT_THAT(finding.text, HasSubstr("after 5 steps, at step 45, 3 of 3 variables are equal bit by bit (1000 bytes)"));
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
