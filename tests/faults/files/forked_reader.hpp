// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Tries in child processes with a limit of time and memory: a try may crash, hang or eat memory without taking the
/// test with it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace reprieve::test {

/// What became of one try.
enum class Fate : std::uint8_t {
  pending,
  refused,    ///< an error that names the place
  unchanged,  ///< everything was read as it was written
  wrong,      ///< something else was read
  odd,        ///< an exception that should not come out, or one without a place
  crashed,
  hung,
};

/// How often each fate was met, and the first tries that did not end well.
struct Tally {
  std::map<Fate, std::size_t> counts;
  std::vector<std::string> bad;  ///< "try 17: crashed (signal 11)"

  [[nodiscard]] std::size_t operator[](Fate fate) const;
};

struct ReaderLimits {
  std::size_t memory_bytes = std::size_t{512} << 20U;  ///< on top of what the process has
  int seconds = 60;                                    ///< for one try
};

/// Runs @p attempt(i) for every i below @p count, one after the other, in child processes: a new one after each that
/// died. In each child @p prepare runs first.
Tally try_all(std::size_t count, const std::function<void()>& prepare, const std::function<Fate(std::size_t)>& attempt,
              ReaderLimits limits = {});

}  // namespace reprieve::test
