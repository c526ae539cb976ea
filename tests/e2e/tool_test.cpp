// SPDX-License-Identifier: BSD-3-Clause
#include "tool_test.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>

namespace reprieve::test {

using namespace std::chrono_literals;

ToolTest::Result ToolTest::tool(const std::vector<std::string>& arguments, const Environment& environment) {
  Command command{{program("reprieve")}, environment};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  Process process(command);
  const std::optional<int> code = process.wait(120s);
  return {code.value_or(-1), process.out(), process.err()};
}

nlohmann::json ToolTest::tool_json(std::vector<std::string> arguments, int code) {
  arguments.emplace_back("--json");
  const Result result = tool(arguments);
  EXPECT_EQ(result.code, code) << result.err;
  nlohmann::json parsed = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << result.out;
  return parsed;
}

void ToolTest::expect_trouble(const std::vector<std::string>& arguments, const std::string& words) {
  const Result result = tool(arguments);
  EXPECT_EQ(result.code, 2) << result.out << result.err;
  EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
}

std::string ToolTest::write(const std::string& directory, const std::string& variant, const std::vector<int>& numbers,
                            int ranks) const {
  std::string path = directory_ / directory;
  MpiCommand command{.ranks = ranks, .arguments = {program("e2e_writer"), path, variant}};
  for (const int number : numbers) {
    command.arguments.push_back(std::to_string(number));
  }
  Mpirun job(command);
  EXPECT_EQ(job.wait(120s), 0) << job.out() << job.err();
  return path;
}

std::string ToolTest::file(const std::string& directory, int number) const {
  return directory_ / directory / ("ckpt-" + std::to_string(number) + ".h5");
}

void ToolTest::corrupt_value(const std::string& file, double value) {
  std::string content = read_text(file);
  const auto bytes = std::bit_cast<std::array<char, sizeof value>>(value);
  const auto place = std::search(content.begin(), content.end(), bytes.begin(), bytes.end());
  ASSERT_NE(place, content.end()) << "no such value in " << file;
  *place = static_cast<char>(*place ^ 1);
  std::ofstream(file, std::ios::binary) << content;
}

}  // namespace reprieve::test
