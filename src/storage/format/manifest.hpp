#pragma once

/// @file
/// The manifest of a checkpoint file: its metadata and the list of its variables, as JSON. Pure.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/strict_json.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// @throws CorruptError with @p what unless the condition holds
inline void require(bool condition, const char* what) {
  if (!condition) {
    throw CorruptError(what);
  }
}

/// An integer that T can hold; nlohmann's own conversion would accept fractions and wrap around.
template <class T>
T integer(const nlohmann::json& value) {
  if (value.is_number_unsigned() && std::in_range<T>(value.get<std::uint64_t>())) {
    return static_cast<T>(value.get<std::uint64_t>());
  }
  if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.get<std::int64_t>())) {
    return static_cast<T>(value.get<std::int64_t>());
  }
  throw CorruptError("'" + core::shown(value) + "' where an integer is expected");
}

/// @throws CorruptError if it is nested deeper than any manifest; nlohmann::json::exception if it is no JSON
[[nodiscard]] nlohmann::json parse_json(const Bytes& manifest);

/// What a manifest says of the file, and an entry of its list of variables, each by itself: whether they fit together
/// is looked at by `parse_index`. @throws CorruptError, nlohmann::json::exception
[[nodiscard]] FileMetadata decode_metadata(const nlohmann::json& from);
[[nodiscard]] StoredVariable decode_variable(const nlohmann::json& from);

}  // namespace reprieve::storage
