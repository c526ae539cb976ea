// SPDX-License-Identifier: BSD-3-Clause
// Whom a notice goes to, and what a launcher is started with.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "supervisor/launcher.hpp"
#include "supervisor/processes.hpp"
#include "supervisor/slurm.hpp"
#include "support/environment_lookup.hpp"
#include "support/logged_events.hpp"
#include "support/process.hpp"

namespace reprieve::supervisor {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using test::lookup_in;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A row of the table in the guide: a value for each version of Open MPI.
template <typename ValueOf>
std::string guide_row(const std::string& title, ValueOf value_of) {
  std::string row = "| " + title + " |";
  for (const LauncherTraits& each : launchers()) {
    if (!each.daemon.empty()) {
      row += fmt::format(" {} |", value_of(each));
    }
  }
  return row;
}

TEST(LauncherTable, TheGuideSaysTheSame) {
  const std::string page = test::read_text(REPRIEVE_SOURCE_DIR "/apps/guide/signals.md");
  EXPECT_THAT(page, HasSubstr(guide_row("what happens", [](const auto& each) { return each.name; })));
  EXPECT_THAT(page, HasSubstr(guide_row("what runs", [](const auto& each) {
                return fmt::format("`{}`, and `{}` on other nodes", each.programs.back(), each.daemon);
              })));
  EXPECT_THAT(page, HasSubstr(guide_row("the command for a daemon on another node",
                                        [](const auto& each) { return "`" + each.variables + each.agent + "`"; })));
  EXPECT_THAT(page, HasSubstr(guide_row("SIGTERM, SIGINT or SIGHUP to mpirun", [](const auto& each) {
                return fmt::format("SIGCONT at once, SIGTERM after {:g} s, SIGKILL after {:g} s", each.kill_s / 2,
                                   each.kill_s);
              })));
  EXPECT_THAT(page, HasSubstr(guide_row("these times", [](const auto& each) {
                return each.kill_parameter.empty() ? "cannot be set" : "`" + each.kill_parameter + "`";
              })));
}

TEST(LauncherTable, KnowsVersionsAndExecutables) {
  EXPECT_EQ(open_mpi_of("mpirun (Open MPI) 4.1.4")->name, "Open MPI 4.1");
  EXPECT_EQ(open_mpi_of("mpirun (Open MPI) 5.0.7")->name, "Open MPI 5.0");
  EXPECT_EQ(open_mpi_of("mpirun (Open MPI) 15.0.7"), nullptr);
  EXPECT_EQ(open_mpi_of("HYDRA build details:"), nullptr);
  EXPECT_EQ(kill_times(), "Open MPI 4.1 after 2 s, Open MPI 5.0 after 0.5 s");
  for (const std::string program : {"mpirun", "orterun", "prterun", "prte", "prun", "mpirun.openmpi"}) {
    EXPECT_TRUE(is_launcher(program) && is_open_mpi(program)) << program;
  }
  for (const std::string program : {"srun", "mpiexec.hydra"}) {
    EXPECT_TRUE(is_launcher(program) && !is_open_mpi(program)) << program;
  }
  for (const std::string program : {"orted", "prted", "bash"}) {
    EXPECT_FALSE(is_launcher(program) || is_open_mpi(program)) << program;
  }
}

RunProgress one_manager(const std::vector<std::string>& signals) {
  RunProgress progress;
  progress.take("r", test::logged({{"event", "start"}, {"host", "here"}, {"pid", 30}, {"directory", "/c"}}));
  progress.take("r", test::logged({{"event", "ready"}, {"signals", signals}}));
  return progress;
}

const RunProgress kUsual = one_manager({"SIGTERM", "SIGUSR1"});

TEST(NoticeTargets, TheLauncherThatWasStarted) {
  for (const char* launcher : {"orterun", "prte"}) {
    EXPECT_THAT(notice_targets(10, {{10, 1, launcher}, {30, 10, "train"}}, kUsual, "here"),
                ElementsAre(NoticeTarget{10, SIGUSR1}));
  }
}

TEST(NoticeTargets, LaunchersInsideOfAScriptButNotTheirHelpers) {
  const std::vector<ProcessInfo> processes{
      {10, 1, "bash"}, {11, 10, "srun"}, {12, 10, "srun"}, {13, 11, "srun"}, {30, 13, "train"}};
  EXPECT_THAT(notice_targets(10, processes, kUsual, "here"),
              ElementsAre(NoticeTarget{11, SIGUSR1}, NoticeTarget{12, SIGUSR1}));
}

TEST(NoticeTargets, WithoutALauncherTheRankItself) {
  const std::vector<ProcessInfo> processes{{10, 1, "bash"}, {30, 10, "train"}};
  EXPECT_THAT(notice_targets(10, processes, kUsual, "here"), ElementsAre(NoticeTarget{30, SIGUSR1}));
  // A process of that number on this host is another one.
  EXPECT_THAT(notice_targets(10, processes, kUsual, "elsewhere"), ElementsAre(NoticeTarget{10, SIGUSR1}));
  EXPECT_THAT(notice_targets(10, {{10, 1, "bash"}}, {}, "here"), ElementsAre(NoticeTarget{10, SIGUSR1}))
      << "the program tells nothing";
}

TEST(NoticeTargets, OnlySignalsThatTheRanksWatch) {
  const std::vector<ProcessInfo> processes{{10, 1, "orterun"}, {30, 10, "train"}};
  EXPECT_THAT(notice_targets(10, processes, one_manager({"SIGUSR2"}), "here"), ElementsAre(NoticeTarget{10, SIGUSR2}));
  // SIGTERM would begin the launcher's tear-down; one rank that hears it is enough.
  EXPECT_THAT(notice_targets(10, processes, one_manager({"SIGTERM"}), "here"), ElementsAre(NoticeTarget{30, SIGTERM}));
  EXPECT_THAT(notice_targets(10, processes, one_manager({}), "here"), IsEmpty());
}

TEST(LaunchEnvironment, ShieldsDaemonsAndNamesTheRecord) {
  const auto changes = launch_environment({"/opt/reprieve", "/tmp/r/1", true, 120}, lookup_in({}));
  EXPECT_EQ(changes.at("REPRIEVE_RUN_DIR"), "/tmp/r/1");
  EXPECT_EQ(changes.at("REPRIEVE_RUN_WATCHES_END"), "1");
  EXPECT_EQ(changes.at("OMPI_MCA_orte_launch_agent"), "/opt/reprieve launch-agent --run-dir /tmp/r/1 orted");
  EXPECT_EQ(changes.at("PRTE_MCA_prte_launch_agent"), "/opt/reprieve launch-agent --run-dir /tmp/r/1 prted");
  for (const std::string prefix : {"OMPI_MCA_", "PRTE_MCA_"}) {
    EXPECT_EQ(changes.at(prefix + "oob_tcp_keepalive_time"), "60");
    EXPECT_EQ(changes.at(prefix + "oob_tcp_keepalive_intvl"), "10");
    EXPECT_EQ(changes.at(prefix + "oob_tcp_keepalive_probes"), "6");
  }
}

TEST(LaunchEnvironment, WhatTheUserHasSetStays) {
  const auto changes =
      launch_environment({"/opt/reprieve", "/tmp/r/1", true, 120},
                         lookup_in({{"OMPI_MCA_orte_launch_agent", "mine"}, {"REPRIEVE_RUN_DIR", "of an outer run"}}));
  EXPECT_FALSE(changes.contains("OMPI_MCA_orte_launch_agent"));
  EXPECT_EQ(changes.at("REPRIEVE_RUN_DIR"), "/tmp/r/1");
}

TEST(LaunchEnvironment, CanBeSwitchedOff) {
  EXPECT_EQ(launch_environment({"/opt/reprieve", "/tmp/r/1", false, 0}, lookup_in({})).size(), 2U);
  LaunchSettings blind{"/opt/reprieve", "/tmp/r/1", false, 0};
  blind.watches_end = false;
  EXPECT_EQ(launch_environment(blind, lookup_in({})).size(), 1U) << "the ranks look for the end of the job themselves";
  LaunchSettings named{"/opt/reprieve", "/tmp/r/1", true, 0};
  named.directory = "/data/task-3";
  const auto with_directory = launch_environment(named, lookup_in({{"REPRIEVE_DIRECTORY", "/data/other"}}));
  EXPECT_EQ(with_directory.at("REPRIEVE_DIRECTORY"), "/data/task-3");
  EXPECT_EQ(with_directory.at("OMPI_MCA_orte_launch_agent"),
            "/opt/reprieve launch-agent --run-dir /tmp/r/1 --directory /data/task-3 orted");
  // The launcher would split the path.
  EXPECT_FALSE(launch_environment({"/opt/my tools/reprieve", "/tmp/r/1", true, 0}, lookup_in({}))
                   .contains("OMPI_MCA_orte_launch_agent"));
}

TEST(SpansNodes, ByOptionsAndByTheScheduler) {
  EXPECT_FALSE(spans_nodes({"mpirun", "-n", "4", "x"}, lookup_in({{"SLURM_JOB_NUM_NODES", "1"}})));
  EXPECT_TRUE(spans_nodes({"mpirun", "--host", "a,b", "x"}, lookup_in({})));
  EXPECT_TRUE(spans_nodes({"srun", "x"}, lookup_in({{"SLURM_JOB_NUM_NODES", "2"}})));
}

TEST(ProcessTree, FindsDescendantsParentsFirst) {
  const pid_t child = spawn({{"sh", "-c", "sleep 1000 & wait"}});
  std::vector<ProcessInfo> found;
  ASSERT_TRUE(test::wait_until([&] { return (found = descendants_of(child)).size() == 1; }, 10s));
  EXPECT_EQ(found[0].parent, child);
  EXPECT_EQ(::kill(found[0].pid, SIGKILL), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

// Which hosts a start gets, and the command that says so.

using Words = std::vector<std::string>;
using Hosts = std::vector<HostSlots>;

TEST(HostList, OfTheOptionHost) {
  EXPECT_EQ(parse_host_list("h0:2,h1"), (Hosts{{"h0", 2}, {"h1", 1}}));
  EXPECT_EQ(parse_host_list("h0,h0,h1:3"), (Hosts{{"h0", 2}, {"h1", 3}})) << "a host named twice has two slots";
  EXPECT_EQ(parse_host_list("h0:*,,h1:auto"), (Hosts{{"h0", 0}, {"h1", 0}}));
  EXPECT_TRUE(parse_host_list("").empty());
  const Hosts hosts{{"h0", 2}, {"h1", 0}};
  EXPECT_EQ(to_text(hosts), "h0:2,h1:*");
  EXPECT_EQ(parse_host_list(to_text(hosts)), hosts);
}

TEST(HostList, OfAFile) {
  EXPECT_EQ(parse_host_file("# ours\nh0 slots=2\n\n  h1   slots = 4 max_slots=8 # big\nh2\n"),
            (Hosts{{"h0", 2}, {"h1", 4}, {"h2", 0}}));
  EXPECT_EQ(parse_host_file("h0\nh0\nh1\nh1\nh1\n"), (Hosts{{"h0", 2}, {"h1", 3}})) << "a line for each slot, as PBS";
  EXPECT_EQ(parse_host_file("h0 max_slots=9"), (Hosts{{"h0", 0}})) << "a limit is no number of slots";
}

TEST(HostList, OfASlurmJob) {
  EXPECT_EQ(slurm_hosts("n1\nn2\nn3\nn7\n", "2(x3),1"), (Hosts{{"n1", 2}, {"n2", 2}, {"n3", 2}, {"n7", 1}}));
  EXPECT_EQ(slurm_hosts("n1\nn2\n", ""), (Hosts{{"n1", 0}, {"n2", 0}}));
}

const Hosts kThree{{"h0", 2}, {"h1", 2}, {"h2", 2}};

void expect_choice(const HostNeed& need, const std::set<std::string>& dead, const Hosts& hosts, int ranks) {
  const auto choice = choose_hosts(need, dead);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->hosts, hosts);
  EXPECT_EQ(choice->ranks, ranks);
}

TEST(ChooseHosts, AllWhereAllAnswerElseASpareTakesThePlaceOfADeadHost) {
  expect_choice({kThree, 0, 6, 6}, {}, kThree, 6);
  expect_choice({kThree, 1, 4, 4}, {}, {{"h0", 2}, {"h1", 2}}, 4);
  expect_choice({kThree, 1, 4, 4}, {"h0"}, {{"h1", 2}, {"h2", 2}}, 4);
  EXPECT_FALSE(choose_hosts({kThree, 1, 4, 4}, {"h0", "h2"})) << "there is room for two only";
  expect_choice({kThree, 1, 4, 2}, {"h0", "h2"}, {{"h1", 2}}, 2);
  const Hosts with_smaller_spares{{"h0", 4}, {"h1", 2}, {"h2", 2}, {"h3", 2}};
  expect_choice({with_smaller_spares, 3, 4, 4}, {"h0"}, {{"h1", 2}, {"h2", 2}}, 4);
}

TEST(ChooseHosts, FewerRanksWhereNoSpareIsLeft) {
  EXPECT_EQ(choose_hosts({kThree, 0, 6, 1}, {"h1"})->ranks, 4);
  EXPECT_EQ(choose_hosts({kThree, 0, 3, 1}, {"h1"})->ranks, 3) << "they have room on the others";
  EXPECT_EQ(choose_hosts({kThree, 0, 12, 1}, {"h1"})->ranks, 8) << "two for each slot, as without dead hosts";
  EXPECT_EQ(choose_hosts({{{"h0", 0}, {"h1", 2}, {"h2", 0}}, 0, 9, 1}, {"h1"})->ranks, 6) << "slots are unknown";
  EXPECT_FALSE(choose_hosts({kThree, 0, 6, 5}, {"h1"}));
  EXPECT_FALSE(choose_hosts({kThree, 0, 6, 0}, {"h0", "h1", "h2"}));
}

TEST(LauncherCommand, NamesHosts) {
  const auto named = hosts_of({"env", "A=1", "mpirun", "-H", "h0,h1", "--mca", "btl", "self", "-n", "4", "--hostfile",
                               "hosts", "--host=h2", "./a", "--host", "mine"});
  ASSERT_TRUE(named);
  EXPECT_EQ(named->lists, (Words{"h0,h1", "h2"}));
  EXPECT_EQ(named->files, Words{"hosts"});
  EXPECT_TRUE(hosts_of({"mpirun", "--display-map", "./a", "--host", "mine"})->lists.empty());
  EXPECT_FALSE(hosts_of({"srun", "./a"}));
  EXPECT_FALSE(hosts_of({"mpiexec.hydra", "./a"}));
  EXPECT_FALSE(hosts_of({"./job.sh"}));
}

TEST(LauncherCommand, OnOtherHosts) {
  EXPECT_EQ(with_hosts({"mpirun", "-n", "4", "--hostfile", "hosts", "--bind-to", "none", "-H", "h0", "./a", "-H", "b"},
                       {{"h1", 2}, {"h2", 0}}),
            (Words{"mpirun", "--host", "h1:2,h2:*", "-n", "4", "--bind-to", "none", "./a", "-H", "b"}));
  EXPECT_EQ(with_hosts({"mpirun", "--", "./a"}, {{"h1", 1}}), (Words{"mpirun", "--host", "h1:1", "--", "./a"}));
  EXPECT_EQ(with_hosts({"mpirun", "./a", "b"}, {{"h1", 1}}), (Words{"mpirun", "--host", "h1:1", "./a", "b"}));
}

TEST(LauncherCommand, RunsSomethingElseOnAHost) {
  EXPECT_EQ(
      on_host({"mpirun", "--mca", "plm_rsh_agent", "/my/ssh", "-n", "4", "--map-by", "node", "--host", "h0,h1",
               "--allow-run-as-root", "./a", "b"},
              "h1", {"true"}),
      (Words{"mpirun", "--mca", "plm_rsh_agent", "/my/ssh", "--allow-run-as-root", "--host", "h1", "-n", "1", "true"}));
  EXPECT_EQ(on_host({"mpirun", "--unknown-flag", "./a", "b"}, "h1", {"true"}),
            (Words{"mpirun", "--host", "h1", "-n", "1", "true"}));
  EXPECT_EQ(on_nodes_of_srun({"nice", "srun", "-n", "4", "./a"}, {"b", "c"}),
            (Words{"srun", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "b", "c"}));
  EXPECT_FALSE(on_nodes_of_srun({"mpirun", "./a"}, {"b"}));
}

TEST(LauncherCommand, ARestKeepsTheCode) {
  const pid_t child = spawn({with_rest({"sh", "-c", "exit $0", "3"})});
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

// What a supervisor reads from Slurm and decides inside of a job.

using namespace termination;

using std::chrono::system_clock;

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
  EXPECT_EQ(parse_slurm_job(""), std::nullopt);
  EXPECT_EQ(parse_slurm_job("slurm_load_jobs error: Invalid job id specified\n"), std::nullopt);
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

TEST(SlurmJob, NoticeIsGivenTheLeadBeforeTheEndButNotInTheFirstHalf) {
  EXPECT_EQ(notice_time(*parse_slurm_job(kJob), 60s), local_time(11, 59));
  EXPECT_EQ(notice_time(*parse_slurm_job(kJob), std::nullopt), local_time(11, 58));
  EXPECT_EQ(notice_time(*parse_slurm_job(kJob), 1h), local_time(11, 55));
  EXPECT_EQ(default_lead(1h), 120s);
  EXPECT_EQ(default_lead(2min), 30s) << "a short job is not told at once";
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
  for (const bool hopeless : {false, true}) {
    const std::string refusal = refusal_after([&](auto& facts) {
      facts.saved = false;
      facts.job->preempted = true;
      facts.hopeless = hopeless;
    });
    EXPECT_EQ(refusal.empty(), !hopeless) << refusal;
  }
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
