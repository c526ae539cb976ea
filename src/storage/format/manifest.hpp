// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The manifest of a checkpoint file: its metadata and the list of its variables, as JSON. Pure.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

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

/// What a manifest says of the file. `parse_index` checks whether its fields fit together.
/// @throws CorruptError, nlohmann::json::exception
[[nodiscard]] FileMetadata decode_metadata(const nlohmann::json& from);

/// What a manifest says of the file, without the list of variables. The list goes to @p variables, without a document
/// in memory. Null: the list is not read. `parse_index` checks whether all this fits together.
/// @throws CorruptError, nlohmann::json::exception
[[nodiscard]] nlohmann::json read_manifest(std::span<const std::byte> manifest, std::vector<StoredVariable>* variables);

}  // namespace reprieve::storage
