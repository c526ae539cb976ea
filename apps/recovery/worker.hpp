// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace recovery {

struct WorkerOptions {
  std::filesystem::path directory;
  unsigned steps = 200;
  unsigned step_ms = 20;
  double grace_s = 0;
  bool fail_in_grace = false;  ///< the last rank throws in the first step after a notice
};

/// One rank of the run. Returns the exit code.
int run_worker(const WorkerOptions& options, int argc, char** argv);

}  // namespace recovery
