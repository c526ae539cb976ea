// SPDX-License-Identifier: BSD-3-Clause
// What a supervisor reads from Slurm and decides inside of a job.

#include <gmock/gmock.h>
#include <stdlib.h>

#include <map>

#include "supervisor/slurm.hpp"
#include "support/environment_lookup.hpp"

namespace reprieve::supervisor {
namespace {

using namespace termination;

using namespace std::chrono_literals;
using std::chrono::system_clock;
using ::testing::HasSubstr;

/// As Slurm 22.05 prints it, with a name and a comment that look like fields.
constexpr const char* kJob = R"(JobId=17 JobName=x Requeue=0 EndTime=1999-01-01T00:00:00
   UserId=u(1000) GroupId=u(1000) MCS_label=N/A
   Priority=4294901759 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:03 TimeLimit=00:10:00 TimeMin=N/A
   SubmitTime=2026-03-01T11:00:00 EligibleTime=2026-03-01T11:00:00
   AccrueTime=2026-03-01T11:00:00
   StartTime=2026-03-01T11:50:00 EndTime=2026-03-01T12:00:00 Deadline=N/A
   PreemptEligibleTime=2026-03-01T11:50:00 PreemptTime=None
   Comment=Requeue=0 JobState=CANCELLED
   Power=
)";

system_clock::time_point local_time(int hour, int minute) {
  std::tm parts{};
  parts.tm_year = 126;
  parts.tm_mon = 2;
  parts.tm_mday = 1;
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_isdst = -1;
  return system_clock::from_time_t(std::mktime(&parts));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos);
  return text.replace(place, from.size(), to);
}

std::optional<std::string> job_id(const std::map<std::string, std::string>& environment) {
  return slurm_job_id(test::lookup_in(environment));
}

TEST(SlurmJob, IsCalledByItsNumberOrByThatOfItsTask) {
  EXPECT_EQ(job_id({{"SLURM_JOB_ID", "17"}}), "17");
  EXPECT_EQ(job_id({}), std::nullopt);
  EXPECT_EQ(job_id({{"SLURM_JOB_ID", "15"}, {"SLURM_ARRAY_JOB_ID", "15"}, {"SLURM_ARRAY_TASK_ID", "3"}}), "15_3");
}

TEST(SlurmJob, IsReadFromScontrol) {
  const auto job = parse_slurm_job(kJob);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->state, "RUNNING");
  EXPECT_TRUE(job->requeue);
  EXPECT_FALSE(job->preempted);
  EXPECT_EQ(job->end, local_time(12, 0));
}

TEST(SlurmJob, WithoutAnEndAndUnderPreemption) {
  const auto endless = parse_slurm_job(replaced(kJob, "EndTime=2026-03-01T12:00:00", "EndTime=Unknown"));
  ASSERT_TRUE(endless);
  EXPECT_EQ(endless->end, std::nullopt);
  EXPECT_EQ(notice_time(*endless, 60s), std::nullopt);
  const auto preempted = parse_slurm_job(replaced(kJob, "PreemptTime=None", "PreemptTime=2026-03-01T11:51:00"));
  ASSERT_TRUE(preempted);
  EXPECT_TRUE(preempted->preempted);
  EXPECT_EQ(notice_time(*preempted, 60s), system_clock::time_point::min());
}

TEST(SlurmJob, IsNotReadFromAnythingElse) {
  EXPECT_EQ(parse_slurm_job(""), std::nullopt);
  EXPECT_EQ(parse_slurm_job("slurm_load_jobs error: Invalid job id specified\n"), std::nullopt);
}

TEST(SlurmJob, NoticeIsGivenTheLeadBeforeTheEndButNotInTheFirstHalf) {
  EXPECT_EQ(notice_time(*parse_slurm_job(kJob), 60s), local_time(11, 59));
  EXPECT_EQ(notice_time(*parse_slurm_job(kJob), std::nullopt), local_time(11, 58));
  EXPECT_EQ(notice_time(*parse_slurm_job(kJob), 1h), local_time(11, 55));
}

TEST(SlurmJob, ShortJobIsNotToldAtOnce) {
  EXPECT_EQ(default_lead(1h), 120s);
  EXPECT_EQ(default_lead(2min), 30s);
  EXPECT_EQ(default_lead(0s), 0s);
}

/// Why a job does not go back that differs in one thing from a job that does; empty if it does.
template <class Change>
std::string refusal_after(Change change) {
  RequeueFacts facts{.saved = true, .job = parse_slurm_job(kJob)};
  change(facts);
  return requeue_refusal(facts).value_or("");
}

TEST(Requeue, SavedJobGoesBackWhileItRunsOrSlurmSignalsIt) {
  EXPECT_EQ(refusal_after([](auto&) {}), "");
  EXPECT_EQ(refusal_after([](auto& facts) { facts.job->state = "SIGNALING"; }), "");
}

TEST(Requeue, PreemptedJobGoesBackEvenIfNothingWasSaved) {
  const auto preempted = [](auto& facts) {
    facts.saved = false;
    facts.job->preempted = true;
  };
  EXPECT_EQ(refusal_after(preempted), "");
  EXPECT_NE(refusal_after([&](auto& facts) {
              preempted(facts);
              facts.hopeless = true;
            }),
            "");
}

TEST(Requeue, EachReasonAgainstItIsEnough) {
  EXPECT_NE(refusal_after([](auto& facts) { facts.saved = false; }), "");
  EXPECT_NE(refusal_after([](auto& facts) { facts.by_hand = true; }), "") << "stopped by hand stays stopped";
  EXPECT_THAT(refusal_after([](auto& facts) { facts.slurm_decided = true; }), HasSubstr("has decided"));
  EXPECT_THAT(refusal_after([](auto& facts) { facts.job->requeue = false; }), HasSubstr("--no-requeue"));
  EXPECT_THAT(refusal_after([](auto& facts) { facts.job->state = "CANCELLED"; }), HasSubstr("CANCELLED"));
  EXPECT_THAT(refusal_after([](auto& facts) { facts.job.reset(); }), HasSubstr("does not answer"));
}

TEST(Requeue, InAGraceTimeNotByTheExitCode) {
  SlurmJobInfo job = *parse_slurm_job(kJob);
  EXPECT_EQ(requeue_way(RequeueWay::exit_code, job), RequeueWay::exit_code);
  job.preempted = true;
  EXPECT_EQ(requeue_way(RequeueWay::exit_code, job), RequeueWay::scontrol);
}

}  // namespace
}  // namespace reprieve::supervisor
