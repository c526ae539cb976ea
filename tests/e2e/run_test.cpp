// SPDX-License-Identifier: BSD-3-Clause
#include "run_test.hpp"

#include <gmock/gmock.h>

#include <sstream>

namespace reprieve::test {

using ::testing::HasSubstr;

std::vector<nlohmann::json> SupervisedMpirun::events(const std::string& name) const {
  std::vector<nlohmann::json> found;
  std::istringstream lines(err());
  for (std::string line; std::getline(lines, line);) {
    // Lines of the ranks and of mpirun stand between them; that of Open MPI 5 ends its text with a null byte.
    std::erase(line, '\0');
    auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.contains("event") && (name.empty() || event["event"] == name)) {
      found.push_back(std::move(event));
    }
  }
  return found;
}

bool SupervisedMpirun::wait_for_event(const std::string& name, std::size_t count) {
  return wait_until([&] { return events(name).size() >= count || !running(); }, std::chrono::seconds(120)) &&
         events(name).size() >= count;
}

std::vector<std::string> RunTest::program_arguments(const Simulation& simulation) const {
  std::vector<std::string> arguments{program("e2e_steps"), checkpoints().string(), std::to_string(simulation.steps),
                                     std::to_string(simulation.step_ms)};
  arguments.insert(arguments.end(), simulation.faults.begin(), simulation.faults.end());
  return arguments;
}

std::unique_ptr<SupervisedMpirun> RunTest::start(const Simulation& simulation) const {
  MpiCommand command{.ranks = kRanks,
                     .arguments = program_arguments(simulation),
                     .mpirun_options = simulation.mpirun_options,
                     .launch_prefix = {program("reprieve"), "run", "--json"},
                     .environment = simulation.environment};
  command.launch_prefix.insert(command.launch_prefix.end(), simulation.options.begin(), simulation.options.end());
  command.launch_prefix.emplace_back("--");
  return std::make_unique<SupervisedMpirun>(command);
}

std::unique_ptr<SupervisedMpirun> RunTest::start_and_wait(const Simulation& simulation) const {
  auto run = start(simulation);
  EXPECT_TRUE(run->wait_for_event("ready")) << run->all_output();
  return run;
}

void RunTest::expect_end(SupervisedMpirun& run, int code) {
  EXPECT_EQ(run.wait(kLimit), code) << run.all_output();
  EXPECT_TRUE(run.wait_for_descendants(std::chrono::seconds(10))) << run.all_output();
}

void RunTest::expect_saved(SupervisedMpirun& run) const {
  expect_end(run, 42);
  ASSERT_EQ(run.events("exit").size(), 1U) << run.all_output();
  EXPECT_TRUE(std::filesystem::exists(run.events("exit").back()["checkpoint"].get<std::string>()));
  ASSERT_EQ(run.events("end").size(), 1U) << run.all_output();
  EXPECT_EQ(run.events("end").back()["result"], "saved");
}

void RunTest::expect_same_end(Simulation simulation) const {
  simulation.faults.clear();
  simulation.step_ms = 0;
  const auto run = start(simulation);
  expect_end(*run, 0);
  EXPECT_THAT(run->out(), HasSubstr(end_of(simulation.steps)));
}

std::string RunTest::end_of(int steps) {
  std::uint64_t total = 0;
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
    std::uint64_t value = rank + 1;
    for (std::uint64_t step = 1; step <= static_cast<std::uint64_t>(steps); ++step) {
      value = value * 6364136223846793005ULL + step;
    }
    std::uint64_t sum = 0;
    for (int i = 0; i < 1000; ++i) {
      sum = sum * 31 + value;
    }
    total += sum;
  }
  return "digest " + std::to_string(total) + "\n";
}

}  // namespace reprieve::test
