// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The metadata servers of clouds: where they are, whether one is there, and what it says of this machine's end.

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/environment.hpp"
#include "reprieve/notice.hpp"
#include "termination/http.hpp"
#include "termination/poller.hpp"

namespace reprieve::termination {

using core::environment_variable;
using core::EnvironmentLookup;

/// "metadata server of AWS".
std::string metadata_server_name(MetadataServer server);

/// The address of a metadata server: "http://169.254.169.254", or what the environment says: GCE_METADATA_HOST or
/// GCE_METADATA_IP (host, and port if need be), AWS_EC2_METADATA_SERVICE_ENDPOINT or AZURE_METADATA_SERVICE_ENDPOINT
/// (URL). Pure.
std::string metadata_endpoint(MetadataServer server, const EnvironmentLookup& environment);
/// Whether the environment gives an address. Pure.
bool names_endpoint(MetadataServer server, const EnvironmentLookup& environment);
/// Whether the environment says that the server is not to be asked: AWS_EC2_METADATA_DISABLED. Pure.
bool is_switched_off(MetadataServer server, const EnvironmentLookup& environment);

/// The first of @p servers, in order, that answers like itself; asks all side by side. Waits @p limit at most.
MetadataServer find_metadata_server(const std::vector<MetadataServer>& servers, const EnvironmentLookup& environment,
                                    std::chrono::milliseconds limit);

/// Asks a server, as a source of notices. @p server is not none.
std::unique_ptr<PolledSource> make_metadata_source(MetadataServer server, const EnvironmentLookup& environment);

}  // namespace reprieve::termination
