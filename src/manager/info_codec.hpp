// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What is known about checkpoints, as bytes that travel from the chief to the other ranks, and as JSON for events.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "cluster/communicator.hpp"
#include "reprieve/checkpoint_manager.hpp"

namespace reprieve::manager {

nlohmann::json to_json(const SaveReason& reason);
/// Adds a field to those of an event, if there is anything to tell.
void put_if_known(nlohmann::json& fields, const char* name, const std::optional<std::uint64_t>& number);

cluster::Bytes encode(const std::vector<CheckpointInfo>& checkpoints);
std::vector<CheckpointInfo> decode(const cluster::Bytes& bytes);

}  // namespace reprieve::manager
