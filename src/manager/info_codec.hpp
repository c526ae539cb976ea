#pragma once

/// @file
/// What is known about checkpoints, as bytes that travel from the chief to the other ranks, and as JSON for events.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cluster/communicator.hpp"
#include "reprieve/checkpoint_manager.hpp"

namespace reprieve::manager {

nlohmann::json to_json(const SaveReason& reason);

cluster::Bytes encode(const std::vector<CheckpointInfo>& checkpoints);
std::vector<CheckpointInfo> decode(const cluster::Bytes& bytes);

}  // namespace reprieve::manager
