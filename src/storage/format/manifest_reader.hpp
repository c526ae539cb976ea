// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reads the manifest without a document in memory: it can have an entry for each of a hundred thousand variables.
/// Pure.

#include <nlohmann/json.hpp>
#include <vector>

#include "storage/format/file_index.hpp"

namespace reprieve::storage {

struct ReadManifest {
  nlohmann::json fields;  ///< all but the list of variables
  std::vector<StoredVariable> variables;
};

/// Whether they fit together is looked at by `parse_index`.
/// @throws CorruptError, nlohmann::json::exception
[[nodiscard]] ReadManifest read_manifest(const Bytes& manifest);

/// What a manifest says of the file; ends before the list of variables. @throws CorruptError, nlohmann::json::exception
[[nodiscard]] nlohmann::json read_manifest_fields(const Bytes& manifest);

}  // namespace reprieve::storage
