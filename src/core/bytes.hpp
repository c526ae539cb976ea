// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Bytes that ranks exchange and files hold.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprieve::core {

using Bytes = std::vector<std::byte>;

[[nodiscard]] inline Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

[[nodiscard]] inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace reprieve::core
