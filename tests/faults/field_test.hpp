// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tests have in common that disturb a field (programs/field.cpp).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/event_log.hpp"
#include "support/process.hpp"

namespace reprieve::test {

class FieldTest : public testing::Test {
 protected:
  using Options = std::vector<std::string>;

  /// Longer than anything lasts, unless it hangs.
  static constexpr std::chrono::seconds kLimit{120};

  [[nodiscard]] std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }

  [[nodiscard]] MpiCommand command(int ranks, int steps, int step_ms, const Options& options = {}) const;
  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, int steps, int step_ms, const Options& options = {}) const {
    return std::make_unique<Mpirun>(command(ranks, steps, step_ms, options));
  }

  /// Waits until rank 0 has done so many steps.
  static void wait_for_step(Mpirun& job, int step);

  /// Waits for the end of mpirun and returns its code; a launcher that hangs (as Open MPI's can after a death) is
  /// killed once its ranks are gone.
  static int end_of(Mpirun& job);

  /// Every checkpoint is valid; returns how many there are.
  int expect_sound_checkpoints() const;

  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& name) const;

  /// The line with the digest in the output.
  static std::string digest_in(const std::string& output);
  /// That of an undisturbed run.
  static std::string digest_of(int steps, const Options& options = {});

  /// Starts once more without disturbance, which must resume from a checkpoint and come to the same end.
  void expect_same_end(int ranks, int steps, const Options& options = {}) const;

  TemporaryDirectory directory_;
};

}  // namespace reprieve::test
