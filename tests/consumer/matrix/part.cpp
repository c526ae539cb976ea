// SPDX-License-Identifier: BSD-3-Clause
// A shared library of a user's that uses Reprieve, in the namespace PART. The program `parts` has two of them.
#include <mpi.h>

#include <reprieve/reprieve.hpp>
#include <string>

#include "parts.hpp"

bool PART::saves(const std::string& folder) {
  int value = 0;
  for (const bool again : {false, true}) {
    value = again ? 0 : 42;
    reprieve::Checkpoint state;
    state.add_constant("length", folder.size());
    state.add_replicated("value", value);
    reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, folder);
    handler.request_checkpoint();
    while (!again && !handler.last_save()) {
      handler.run([] {});
    }
  }
  return value == 42;
}

void PART::fails() { reprieve::settings_from_json("{"); }

bool PART::catches(void (*other)()) {
  try {
    other();
  } catch (const reprieve::ConfigError& error) {
    return error.code() == reprieve::ErrorCode::config;
  }
  return false;
}
