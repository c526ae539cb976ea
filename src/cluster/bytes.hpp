#pragma once

/// @file
/// What ranks exchange.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprieve::cluster {

using Bytes = std::vector<std::byte>;

[[nodiscard]] inline Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

[[nodiscard]] inline std::string to_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace reprieve::cluster
