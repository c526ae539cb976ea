// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of the command line tool have in common: checkpoints to look at, corruption, and the tool as a
/// process.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "support/json_page.hpp"
#include "support/process.hpp"

namespace reprieve::test {

class ToolTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kToolLimit{120};

  struct Result {
    int code = -1;
    std::string out;
    std::string err;
  };

  /// Runs `reprieve` with the arguments.
  static Result tool(const std::vector<std::string>& arguments, const Environment& environment = {}) {
    Process process({joined({program("reprieve")}, arguments), environment});
    const std::optional<int> code = process.wait(kToolLimit);
    return {code.value_or(-1), process.out(), process.err()};
  }

  /// The same with --json; fails the test unless the code is @p code and the output is what the page of JSON promises.
  static nlohmann::json tool_json(std::vector<std::string> arguments, int code = 0) {
    arguments.emplace_back("--json");
    const Result result = tool(arguments);
    EXPECT_EQ(result.code, code) << result.err;
    nlohmann::json parsed = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << result.out;
    static const JsonPage page;
    const bool is_of_variable = arguments.front() == "show" && arguments.size() > 3;
    page.expect(is_of_variable ? "show VAR" : arguments.front(), parsed);
    return parsed;
  }

  /// The tool refuses: with this code, and these words on standard error.
  static void expect_trouble(const std::vector<std::string>& arguments, const std::string& words, int code = 2) {
    const Result result = tool(arguments);
    EXPECT_EQ(result.code, code) << result.out << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  }

  /// Writes checkpoints with e2e_writer (which says what a variant is) on so many ranks; the directory's path.
  std::string write(const std::string& directory, const std::string& variant, const std::vector<int>& numbers,
                    int ranks = 2) const {
    std::string path = directory_ / directory;
    MpiCommand command{.ranks = ranks, .arguments = {program("e2e_writer"), path, variant}};
    for (const int number : numbers) {
      command.arguments.push_back(std::to_string(number));
    }
    Mpirun job(command);
    EXPECT_EQ(job.wait(kToolLimit), 0) << job.out() << job.err();
    return path;
  }

  /// Path of a checkpoint in a directory that `write` has made.
  [[nodiscard]] std::string file(const std::string& directory, int number) const {
    return directory_ / directory / ("ckpt-" + std::to_string(number) + ".h5");
  }

  /// Flips one bit of the first occurrence of @p value in a file.
  static void corrupt_value(const std::string& file, double value) {
    std::string content = read_text(file);
    const auto bytes = std::bit_cast<std::array<char, sizeof value>>(value);
    const auto place = std::search(content.begin(), content.end(), bytes.begin(), bytes.end());
    ASSERT_NE(place, content.end()) << "no such value in " << file;
    *place = static_cast<char>(*place ^ 1);
    std::ofstream(file, std::ios::binary) << content;
  }

  /// The value in the checkpoints of e2e_writer that occurs once: `model/weights` at index 500.
  static constexpr double kRareWeight = 12345.678;

  TemporaryDirectory directory_;
};

}  // namespace reprieve::test
