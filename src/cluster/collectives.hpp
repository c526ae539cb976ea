// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// JSON between ranks. Bytes that are not UTF-8 are replaced. Collective; throws as the communicator does.

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cluster/communicator.hpp"

namespace reprieve::cluster {

/// @p root's document on every rank.
[[nodiscard]] nlohmann::json broadcast(Communicator& comm, const nlohmann::json& document, int root,
                                       std::string_view what);

/// All ranks' documents on rank 0, as an array by rank; an empty one on the others.
[[nodiscard]] nlohmann::json gather(Communicator& comm, const nlohmann::json& document, std::string_view what);

}  // namespace reprieve::cluster
