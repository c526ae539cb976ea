// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The options of the program, on the command line and in a JSON file.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/command_line.hpp"
#include "trainer/model.hpp"

namespace trainer {

/// Where in a step `--fail-rank` throws.
enum class FailPoint : std::uint8_t {
  begin,  ///< before the ranks exchange gradients: the others are stuck in the exchange
  end,    ///< after it: the others get it at the next check, unless they wait in the next exchange before that
};

struct Options : apps::ProgramOptions {
  std::filesystem::path data;  ///< empty: the data set that comes with the program
  std::uint64_t epochs = 40;
  std::uint64_t steps_per_epoch = 0;  ///< 0: as many as the training set has batches
  std::uint64_t batch_size = 64;      ///< of all ranks together
  std::vector<std::size_t> hidden{64};
  OptimizerKind optimizer = OptimizerKind::adam;
  std::optional<double> learning_rate;
  double noise = 0.1;
  std::uint64_t seed = 1;

  int fail_rank = -1;
  std::uint64_t fail_step = 0;
  FailPoint fail_point = FailPoint::end;
};

/// Reads the command line, the file that `--config` names, and the environment. Not collective.
/// @throws reprieve::ConfigError, reprieve::StorageError
Options parse_options(int argc, const char* const* argv);

}  // namespace trainer
