// SPDX-License-Identifier: BSD-3-Clause
#include "drill_test.hpp"

#include <algorithm>

namespace reprieve::test {

using Json = nlohmann::json;

Json DrillTest::Result::finding(const std::string& id) const {
  const Json findings = report.is_object() ? report["findings"] : Json::array();
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Json& each) { return each["id"] == id; });
  return found == findings.end() ? Json() : *found;
}

std::string DrillTest::Result::grade(const std::string& id) const {
  const Json found = finding(id);
  return found.is_null() ? "none" : found["grade"].get<std::string>();
}

DrillTest::Result DrillTest::drill(const Words& options, const Words& command) const {
  Command tool{{program("reprieve"), "drill", "--json"}, {}, directory_.path()};
  tool.arguments.insert(tool.arguments.end(), options.begin(), options.end());
  tool.arguments.emplace_back("--");
  tool.arguments.insert(tool.arguments.end(), command.begin(), command.end());
  tool.environment = mpirun_environment();
  tool.environment["OMPI_MCA_btl_vader_backing_directory"] = shared_memory_.path().string();
  Process process(tool);
  Result result;
  result.code = process.wait(kLimit).value_or(-1);
  result.out = process.out();
  result.err = process.err();
  result.report = Json::parse(result.out, nullptr, false);
  EXPECT_TRUE(result.report.is_object()) << result.all();
  EXPECT_TRUE(process.wait_for_descendants(std::chrono::seconds(10))) << result.all();
  return result;
}

DrillTest::Words DrillTest::mpirun(const std::string& name, const Words& arguments) {
  Words words{"mpirun", "--oversubscribe", "--bind-to", "none", "-n", std::to_string(kRanks), program(name)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

DrillTest::Words DrillTest::simulation(int step_ms, const Words& faults) const {
  Words arguments{checkpoints().string(), "1000000", std::to_string(step_ms)};
  arguments.insert(arguments.end(), faults.begin(), faults.end());
  return mpirun("e2e_steps", arguments);
}

DrillTest::Words DrillTest::in_shell(const std::string& script, const Words& command) {
  Words words{"sh", "-c", script, "sh"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

void DrillTest::expect_nothing_left() const { EXPECT_TRUE(std::filesystem::is_empty(directory_.path())); }

}  // namespace reprieve::test
