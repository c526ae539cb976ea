// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a process finds out where it runs, in parts that can be given another world.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reprieve/platform.hpp"
#include "termination/metadata_source.hpp"

namespace reprieve::termination {

/// The platform that the environment names, without a device; nothing if it names none. Pure.
/// @throws ConfigError if REPRIEVE_PLATFORM names one that does not exist
std::optional<PlatformInfo> platform_in_environment(const EnvironmentLookup& environment);

/// The device that REPRIEVE_DEVICE names, or that device files below @p root show.
/// @throws ConfigError if REPRIEVE_DEVICE names one that does not exist
Device find_device(const EnvironmentLookup& environment, const std::filesystem::path& root);

/// What the firmware says of the machine, by file name (sys_vendor, product_name, ...); empty if it says nothing.
using Firmware = std::map<std::string, std::string>;
Firmware read_firmware(const std::filesystem::path& root);

/// The metadata servers that may be there: those whose address the environment gives; that of the cloud that the
/// firmware names; all, if the firmware says nothing. Pure.
std::vector<MetadataServer> servers_to_probe(const EnvironmentLookup& environment, const Firmware& firmware);

/// Everything together; asks the servers for @p limit at most.
PlatformInfo find_platform(const EnvironmentLookup& environment, const std::filesystem::path& root,
                           std::chrono::milliseconds limit);

/// The signals that are a notice on a platform.
std::vector<int> signals_of(Platform platform);

}  // namespace reprieve::termination
