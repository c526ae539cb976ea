// SPDX-License-Identifier: BSD-3-Clause
// Which hosts a start gets, and the command that says so.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "supervisor/hosts.hpp"
#include "supervisor/launcher.hpp"
#include "supervisor/processes.hpp"

namespace reprieve::supervisor {
namespace {

using Words = std::vector<std::string>;
using Hosts = std::vector<HostSlots>;

TEST(HostList, OfTheOptionHost) {
  EXPECT_EQ(parse_host_list("h0:2,h1"), (Hosts{{"h0", 2}, {"h1", 1}}));
  EXPECT_EQ(parse_host_list("h0,h0,h1:3"), (Hosts{{"h0", 2}, {"h1", 3}})) << "a host named twice has two slots";
  EXPECT_EQ(parse_host_list("h0:*,,h1:auto"), (Hosts{{"h0", 0}, {"h1", 0}}));
  EXPECT_TRUE(parse_host_list("").empty());
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

TEST(HostList, AsTextItIsReadAsTheSame) {
  const Hosts hosts{{"h0", 2}, {"h1", 0}};
  EXPECT_EQ(to_text(hosts), "h0:2,h1:*");
  EXPECT_EQ(parse_host_list(to_text(hosts)), hosts);
}

const Hosts kThree{{"h0", 2}, {"h1", 2}, {"h2", 2}};

TEST(ChooseHosts, AllWhereAllAnswer) {
  const auto choice = choose_hosts({kThree, 0, 6, 6}, {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->hosts, kThree);
  EXPECT_EQ(choice->ranks, 6);
}

TEST(ChooseHosts, ASpareTakesThePlaceOfADeadHost) {
  const auto usual = choose_hosts({kThree, 1, 4, 4}, {});
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->hosts, (Hosts{{"h0", 2}, {"h1", 2}}));
  const auto choice = choose_hosts({kThree, 1, 4, 4}, {"h0"});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->hosts, (Hosts{{"h1", 2}, {"h2", 2}}));
  EXPECT_EQ(choice->ranks, 4);
  EXPECT_FALSE(choose_hosts({kThree, 1, 4, 4}, {"h0", "h2"})) << "there is room for two only";
  EXPECT_EQ(choose_hosts({kThree, 1, 4, 2}, {"h0", "h2"})->ranks, 2);
}

TEST(ChooseHosts, SmallerSparesAreTakenTogether) {
  const Hosts hosts{{"h0", 4}, {"h1", 2}, {"h2", 2}, {"h3", 2}};
  const auto choice = choose_hosts({hosts, 3, 4, 4}, {"h0"});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->hosts, (Hosts{{"h1", 2}, {"h2", 2}}));
  EXPECT_EQ(choice->ranks, 4);
}

TEST(ChooseHosts, FewerRanksWhereNoSpareIsLeft) {
  EXPECT_EQ(choose_hosts({kThree, 0, 6, 1}, {"h1"})->ranks, 4);
  EXPECT_EQ(choose_hosts({kThree, 0, 3, 1}, {"h1"})->ranks, 3) << "they have room on the others";
  EXPECT_FALSE(choose_hosts({kThree, 0, 6, 5}, {"h1"}));
  EXPECT_FALSE(choose_hosts({kThree, 0, 6, 0}, {"h0", "h1", "h2"}));
}

TEST(ChooseHosts, AsManyRanksForEachSlotAsWithoutDeadHosts) {
  EXPECT_EQ(choose_hosts({kThree, 0, 12, 1}, {"h1"})->ranks, 8) << "two for each slot";
  EXPECT_EQ(choose_hosts({{{"h0", 0}, {"h1", 2}, {"h2", 0}}, 0, 9, 1}, {"h1"})->ranks, 6) << "slots are unknown";
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

}  // namespace
}  // namespace reprieve::supervisor
