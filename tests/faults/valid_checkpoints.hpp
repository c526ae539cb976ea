// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What must hold of a checkpoint directory after any fault.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/read/inspect_file.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {

/// Every committed checkpoint is valid, and none was found corrupt. Returns their numbers, in order.
inline std::vector<std::uint64_t> expect_valid_checkpoints(const std::filesystem::path& directory) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, file] : checkpoints_in(directory)) {
    numbers.push_back(number);
    for (const storage::Corruption& corruption : storage::verify_file(file)) {
      ADD_FAILURE() << file << ": " << corruption.variable << " " << corruption.region << " " << corruption.problem;
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    EXPECT_EQ(entry.path().filename().string().find(".corrupt"), std::string::npos) << entry.path();
  }
  return numbers;
}

}  // namespace reprieve::test
