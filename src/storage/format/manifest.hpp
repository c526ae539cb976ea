// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The manifest of a checkpoint file: its metadata and the list of its variables, as JSON. Pure.

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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

/// What a manifest says of the file: whether its fields fit together is looked at by `parse_index`.
/// @throws CorruptError, nlohmann::json::exception
[[nodiscard]] FileMetadata decode_metadata(const nlohmann::json& from);

/// Takes what few variables have from an entry of the list: annotation and members.
/// @throws CorruptError, nlohmann::json::exception
void decode_rare_fields(const nlohmann::json& from, StoredVariable& variable);

/// Where the list of variables begins in what `encode_manifest` made of an index, with the comma before its name.
inline constexpr std::string_view kListBegins = R"(,"variables":[)";

/// @throws CorruptError if there is no such name
[[nodiscard]] state::Distribution distribution_named(std::string_view name);
[[nodiscard]] ElementClass element_class_named(std::string_view name);

// Reads the manifest without a document in memory: it can have an entry for each of a hundred thousand variables.
// Pure.

struct ReadManifest {
  nlohmann::json fields;  ///< all but the list of variables
  std::vector<StoredVariable> variables;
};

/// Whether they fit together is looked at by `parse_index`.
/// @throws CorruptError, nlohmann::json::exception
[[nodiscard]] ReadManifest read_manifest(const Bytes& manifest);

/// What a manifest says of the file; ends before the list of variables. @throws CorruptError, nlohmann::json::exception
[[nodiscard]] nlohmann::json read_manifest_fields(const Bytes& manifest);

// The list of variables of a manifest, in the form in which this library writes most of it: read without a parser of
// JSON, which takes ten times as long. Pure.

/// @param list  what comes after the `[` of the list, up to the end of the manifest
/// @param read_other  an entry that has more, or another form: it is given from brace to brace
/// @return  nothing if the list is not made of such entries, or anything but the end of the manifest comes after it
/// @throws what @p read_other throws; CorruptError
[[nodiscard]] std::optional<std::vector<StoredVariable>> read_plain_list(
    std::string_view list, const std::function<StoredVariable(std::string_view)>& read_other);

}  // namespace reprieve::storage
