// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: a settings file. Whatever is accepted must come back the same from what it is written as.

#include "reprieve/settings.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "reprieve/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string written;
  try {
    written = reprieve::to_json(reprieve::settings_from_json(text, {"trainer"}));
  } catch (const reprieve::ConfigError&) {
    return 0;
  }
  // No exception is expected any more: one ends the fuzzer.
  if (reprieve::to_json(reprieve::settings_from_json(written)) != written) {
    std::abort();
  }
  return 0;
}
