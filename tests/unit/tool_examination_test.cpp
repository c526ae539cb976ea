// SPDX-License-Identifier: BSD-3-Clause
// What `reprieve doctor` makes of a machine.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "doctor.hpp"
#include "values.hpp"

namespace reprieve::tool {
namespace {

using supervisor::Finding;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MachineFacts healthy_machine() {
  MachineFacts facts;
  facts.directory = {"/scratch", "ext4", false, "", true, true, 0.01, 1e9, std::uint64_t{1} << 40U};
  facts.mpirun = "mpirun (Open MPI) 4.1.4";
  facts.shared_memory_bytes = facts.temporary_bytes = std::uint64_t{1} << 30U;
  facts.open_files_limit = 1024;
  return facts;
}

/// Those that are not good, by their names.
std::vector<std::string> troubles(const MachineFacts& facts) {
  std::vector<std::string> ids;
  for (const Finding& finding : examine(facts)) {
    if (finding.grade != Finding::Grade::good) {
      EXPECT_NE(finding.advice, "") << finding.id << ": what is one to do?";
      ids.push_back(finding.id);
    }
  }
  return ids;
}

TEST(Examination, OfAHealthyMachine) {
  EXPECT_THAT(troubles(healthy_machine()), IsEmpty());
  EXPECT_GE(examine(healthy_machine()).size(), 4U);
}

/// Empty if there is none of that name.
std::string finding(const MachineFacts& facts, const std::string& id) {
  const auto findings = examine(facts);
  const auto found = std::ranges::find(findings, id, &Finding::id);
  return found == findings.end() ? "" : found->text;
}

TEST(Examination, SaysWhenThisMpirunKillsItsRanks) {
  const auto says = [](const std::string& version) {
    MachineFacts facts = healthy_machine();
    facts.mpirun = version;
    return finding(facts, "mpirun");
  };
  EXPECT_THAT(says("mpirun (Open MPI) 4.1.4"), HasSubstr("4.1.4; 2 s after a SIGTERM"));
  EXPECT_THAT(says("mpirun (Open MPI) 5.0.7"), HasSubstr("5.0.7; 0.5 s after a SIGTERM"));
  EXPECT_THAT(says("mpirun (Open MPI) 6.0.0"), HasSubstr("not tested"));
}

TEST(Examination, SaysWhetherMpiSurvivesDeadRanks) {
  MachineFacts facts = healthy_machine();
  EXPECT_EQ(finding(facts, "recovery"), "");
  facts.mpi_survives_deaths = true;
  EXPECT_THAT(finding(facts, "recovery"), HasSubstr("--with-ft ulfm"));
}

TEST(Examination, EachTroubleIsNamedAlone) {
  const auto with = [](auto change) {
    MachineFacts facts = healthy_machine();
    change(facts);
    return troubles(facts);
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(with([](auto& facts) { facts.directory.failure = "cannot write"; }), Ids{"directory"});
  EXPECT_EQ(with([](auto& facts) { facts.directory.in_memory = true; }), Ids{"memory"});
  EXPECT_EQ(with([](auto& facts) { facts.directory.locks = false; }), Ids{"locks"});
  EXPECT_EQ(with([](auto& facts) { facts.directory.direct = false; }), Ids{"direct"});
  EXPECT_EQ(with([](auto& facts) { facts.directory.sync_s = 2.0; }), Ids{"sync"});
  EXPECT_EQ(with([](auto& facts) { facts.mpirun.clear(); }), Ids{"mpirun"});
  EXPECT_EQ(with([](auto& facts) { facts.in_slurm_job = true; }), Ids{"slurm"});
  EXPECT_EQ(with([](auto& facts) { facts.settings_error = "REPRIEVE_X"; }), Ids{"settings"});
  EXPECT_EQ(with([](auto& facts) { facts.unknown_variables = {"REPRIEVE_X"}; }), Ids{"variables"});
  EXPECT_EQ(with([](auto& facts) { facts.shared_memory_bytes = 0; }), Ids{"shared_memory"});
  EXPECT_EQ(with([](auto& facts) { facts.temporary_bytes = 0; }), Ids{"temporary"});
  EXPECT_EQ(with([](auto& facts) { facts.file_size_limit = 1000; }), Ids{"file_size"});
  EXPECT_EQ(with([](auto& facts) { facts.open_files_limit = 64; }), Ids{"open_files"});
}

constexpr const char* kConfig = R"(Configuration data as of 2026-03-01T12:00:00
KillWait                = 30 sec
PreemptMode             = REQUEUE
RequeueExit             = 42
SlurmctldParameters     = enable_configless,preempt_send_user_signal
)";

TEST(SlurmConfig, IsReadAndWhatIsMissingIsNotSet) {
  const SlurmFacts facts = parse_slurm_config(kConfig);
  EXPECT_TRUE(facts.signals_before_preemption);
  EXPECT_EQ(facts.kill_wait_s, 30);
  EXPECT_EQ(facts.requeue_exit, "42");
  EXPECT_EQ(facts.preempt_mode, "REQUEUE");
  const SlurmFacts none = parse_slurm_config("RequeueExit = (null)\nKillWait = soon\nrubbish\n=\n");
  EXPECT_FALSE(none.signals_before_preemption);
  EXPECT_FALSE(none.kill_wait_s.has_value());
  EXPECT_EQ(none.requeue_exit, "");
}

TEST(Examination, OfASiteThatNotifiesJobsTooLate) {
  MachineFacts facts = healthy_machine();
  facts.slurm = parse_slurm_config("KillWait = 2 sec\nPreemptMode = CANCEL,GANG\n");
  EXPECT_EQ(troubles(facts), (std::vector<std::string>{"preempt_mode", "preempt_send_user_signal", "kill_wait"}));
  facts.slurm = parse_slurm_config(kConfig);
  EXPECT_THAT(troubles(facts), IsEmpty());
}

TEST(Examination, OfAPbsJob) {
  const PbsFacts facts = parse_pbs_job(
      "Job Id: 17.server\n"
      "    Job_Name = heat\n"
      "    Rerunable = False\n"
      "    Resource_List.walltime = 01:30:00\n");
  EXPECT_EQ(facts.rerunnable, false);
  EXPECT_EQ(facts.wall_time, "01:30:00");
  EXPECT_FALSE(parse_pbs_job("qstat: unknown job").rerunnable.has_value());

  MachineFacts machine = healthy_machine();
  machine.in_pbs_job = true;
  machine.pbs = facts;
  EXPECT_THAT(troubles(machine), ElementsAre("pbs_rerunnable", "pbs_wall_time"));
  machine.pbs->rerunnable = true;
  machine.knows_wall_time = true;
  EXPECT_THAT(troubles(machine), IsEmpty());
}

template <class T>
ArrayComparison compare(const std::vector<T>& a, const std::vector<T>& b) {
  ArrayComparison comparison;
  compare_piece(comparison, element_type_of<T>(), 0, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
  return comparison;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ToolCompare, EqualAndEmpty) {
  EXPECT_EQ(compare<double>({1, kNan, -0.0}, {1, kNan, -0.0}).different, 0U);
  const ArrayComparison empty = compare<double>({}, {});
  EXPECT_EQ(empty.different, 0U);
  EXPECT_FALSE(empty.first_index);
  EXPECT_FALSE(empty.max_absolute);
}

TEST(ToolCompare, GreatestDifferencesMayBeOfDifferentElements) {
  const ArrayComparison found = compare<double>({100, 1, 5}, {110, 2, 5});
  EXPECT_EQ(found.different, 2U);
  EXPECT_EQ(found.first_index, 0U);
  EXPECT_EQ(found.max_absolute, 10.0L);
  EXPECT_EQ(found.max_relative, 0.5L);
}

TEST(ToolCompare, WhatIsEqualSetsNoScale) {
  const ArrayComparison found = compare<double>({kInfinity, 1e30, 2.0, 3.0}, {kInfinity, 1e30, 2.5, 3.0});
  EXPECT_EQ(found.not_finite, 0U);
  EXPECT_EQ(found.largest, 2.5L);
  EXPECT_EQ(compare<double>({1.0}, {kInfinity}).largest, 0.0L);
}

TEST(ToolCompare, SignOfZeroCounts) {
  const ArrayComparison found = compare<float>({0.0F}, {-0.0F});
  EXPECT_EQ(found.different, 1U);
  EXPECT_EQ(found.max_absolute, 0.0L);
  EXPECT_EQ(found.max_relative, 0.0L);
}

TEST(ToolCompare, NaNAndInfinityAreLeftOutOfTheGreatest) {
  const ArrayComparison found = compare<double>({kNan, kInfinity, 1}, {1, -kInfinity, 3});
  EXPECT_EQ(found.different, 3U);
  EXPECT_EQ(found.not_finite, 2U);
  EXPECT_EQ(found.max_absolute, 2.0L);
}

TEST(ToolCompare, IntegersDoNotOverflow) {
  using Signed = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(compare<std::int64_t>({Signed::min()}, {Signed::max()}).max_absolute, std::exp2(64.0L) - 1);
  EXPECT_EQ(compare<std::uint64_t>({0}, {~std::uint64_t{0}}).max_absolute, std::exp2(64.0L) - 1);
  // A double could not tell these two apart.
  EXPECT_EQ(compare<std::int64_t>({Signed::max()}, {Signed::max() - 1}).max_absolute, 1.0L);
  EXPECT_EQ(compare<std::int8_t>({-128}, {127}).max_absolute, 255.0L);
}

TEST(ToolCompare, ComplexNumbersByTheirDistance) {
  const ArrayComparison found = compare<std::complex<float>>({{1, 1}, {0, 0}}, {{1, 1}, {3, -4}});
  EXPECT_EQ(found.first_index, 1U);
  EXPECT_EQ(found.max_absolute, 5.0L);
  EXPECT_EQ(found.max_relative, 1.0L);
}

TEST(ToolCompare, UnusedBytesOfLongDoubleDoNotCount) {
  std::array<std::byte, sizeof(long double)> a{};
  std::array<std::byte, sizeof(long double)> b{};
  const long double value = 1.5L;
  constexpr std::size_t kUsed = 10;
  std::memcpy(a.data(), &value, kUsed);
  std::memcpy(b.data(), &value, kUsed);
  b.back() = std::byte{1};
  ArrayComparison comparison;
  compare_piece(comparison, element_type_of<long double>(), 0, a, b);
  EXPECT_EQ(comparison.different, 0U);
}

TEST(ToolCompare, OpaqueElementsAsAWhole) {
  const std::array<std::byte, 6> a{};
  std::array<std::byte, 6> b{};
  b[2] = b[3] = std::byte{9};
  ArrayComparison comparison;
  compare_piece(comparison, {ElementClass::opaque, 2}, 0, a, b);
  EXPECT_EQ(comparison.different, 1U);
  EXPECT_EQ(comparison.first_index, 1U);
  EXPECT_FALSE(comparison.max_absolute);
}

TEST(ToolCompare, PiecesAddUp) {
  ArrayComparison comparison;
  const std::vector<int> a{1, 2};
  const std::vector<int> b{1, 4};
  const auto compare_at = [&](std::uint64_t first) {
    compare_piece(comparison, element_type_of<int>(), first, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
  };
  compare_at(2000);  // chunks do not come in the order of the array
  compare_at(1000);
  EXPECT_EQ(comparison.different, 2U);
  EXPECT_EQ(comparison.first_index, 1001U);
  EXPECT_EQ(comparison.max_absolute, 2.0L);
}

}  // namespace
}  // namespace reprieve::tool
