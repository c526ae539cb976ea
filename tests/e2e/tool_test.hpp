// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of the command line tool have in common: checkpoints to look at, corruption, and the tool as a
/// process.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace reprieve::test {

class ToolTest : public ::testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string out;
    std::string err;
  };

  /// Runs `reprieve` with the arguments.
  static Result tool(const std::vector<std::string>& arguments, const Environment& environment = {});

  /// The same with --json; fails the test unless the code is @p code and the output is JSON.
  static nlohmann::json tool_json(std::vector<std::string> arguments, int code = 0);

  /// The tool refuses: code 2, and these words on standard error.
  static void expect_trouble(const std::vector<std::string>& arguments, const std::string& words);

  /// Writes checkpoints with e2e_writer (which says what a variant is) on so many ranks; the directory's path.
  std::string write(const std::string& directory, const std::string& variant, const std::vector<int>& numbers,
                    int ranks = 2) const;

  /// Path of a checkpoint in a directory that `write` has made.
  [[nodiscard]] std::string file(const std::string& directory, int number) const;

  /// Flips one bit of the first occurrence of @p value in a file.
  static void corrupt_value(const std::string& file, double value);

  /// The value in the checkpoints of e2e_writer that occurs once: `model/weights` at index 500.
  static constexpr double kRareWeight = 12345.678;

  TemporaryDirectory directory_;
};

}  // namespace reprieve::test
