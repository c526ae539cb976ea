// SPDX-License-Identifier: BSD-3-Clause
// What the files of the program `everything` have in common.
#pragma once

#include <stdexcept>
#include <string>

namespace reprieve {
class Checkpoint;
}

inline void check(bool is_right, const std::string& what) {
  if (!is_right) {
    throw std::logic_error("wrong: " + what);
  }
}

/// fmt, spdlog, nlohmann/json and Eigen, by themselves.
void neighbours();
/// Values of these libraries, in the state of Reprieve.
void add_neighbours(reprieve::Checkpoint& state);
