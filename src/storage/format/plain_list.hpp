// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The list of variables of a manifest, in the form in which this library writes most of it: read without a parser of
/// JSON, which takes ten times as long. Pure.

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// @param list  what comes after the `[` of the list, up to the end of the manifest
/// @param read_other  an entry that has more, or another form: it is given from brace to brace
/// @return  nothing if the list is not made of such entries, or anything but the end of the manifest comes after it
/// @throws what @p read_other throws; CorruptError
[[nodiscard]] std::optional<std::vector<StoredVariable>> read_plain_list(
    std::string_view list, const std::function<StoredVariable(std::string_view)>& read_other);

}  // namespace reprieve::storage
