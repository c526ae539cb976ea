#pragma once

/// @file
/// JSON from one rank to all.

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cluster/communicator.hpp"

namespace reprieve::handler {

/// @p root's document on every rank; bytes that are not UTF-8 are replaced. Collective. @throws as the communicator
[[nodiscard]] nlohmann::json broadcast(cluster::Communicator& comm, const nlohmann::json& document, int root,
                                       std::string_view what);

}  // namespace reprieve::handler
