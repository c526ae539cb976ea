// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests of `reprieve drill` have in common: small simulations (programs/steps.cpp) under it, and its report.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace reprieve::test {

class DrillTest : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  /// Longer than anything takes on an overloaded machine.
  static constexpr auto kLimit = std::chrono::seconds(180);
  static constexpr int kRanks = 2;

  struct Result {
    int code = -1;
    nlohmann::json report;  ///< null if there was none
    std::string out;
    std::string err;

    /// The finding of this name, or null.
    [[nodiscard]] nlohmann::json finding(const std::string& id) const;
    /// "good", "problem", ...; "none" if there is no such finding.
    [[nodiscard]] std::string grade(const std::string& id) const;
    [[nodiscard]] std::string all() const { return out + err; }
  };

  /// Drills a command, with --json.
  [[nodiscard]] Result drill(const Words& options, const Words& command) const;

  /// The words of an mpirun with a program of this build.
  [[nodiscard]] static Words mpirun(const std::string& name, const Words& arguments);

  /// An endless simulation whose steps last @p step_ms.
  [[nodiscard]] Words simulation(int step_ms, const Words& faults = {}) const;

  /// `sh -c script`, in which "$@" is the command.
  [[nodiscard]] static Words in_shell(const std::string& script, const Words& command);

  /// The drill leaves neither processes nor checkpoints behind.
  void expect_nothing_left() const;

  [[nodiscard]] std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }

  TemporaryDirectory directory_;
  TemporaryDirectory shared_memory_{"/dev/shm"};
};

}  // namespace reprieve::test
