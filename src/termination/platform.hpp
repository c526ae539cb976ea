// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a process finds out where it runs, in parts that can be given another world.

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprieve/notice.hpp"
#include "reprieve/platform.hpp"
#include "termination/metadata_source.hpp"

namespace reprieve::termination {

// What is known of each platform, in one table: everything else asks it. Pure.

/// The exit code that means "saved, start me again", where the platform wants no other.
inline constexpr int kRestartCode = 42;
/// What a shell shows for a process that SIGTERM ended: managers on GCE take it for a preemption.
inline constexpr int kTerminatedCode = 143;
/// Grid Engine and OAR put a job with this code back into the queue.
inline constexpr int kRequeueCode = 99;

/// Words that the firmware of a machine says, all of them.
struct FirmwareWords {
  const char* first = nullptr;  ///< nothing: no words
  const char* second = nullptr;
};

struct PlatformTraits {
  Platform platform = Platform::other;
  const char* name = "other";
  /// The variable that it gives to every process, if it does.
  const char* sign = nullptr;
  /// What names it in the firmware, one or the other.
  std::array<FirmwareWords, 2> firmware{};
  /// Who announces the end there. A platform with a metadata server is a cloud.
  MetadataServer metadata = MetadataServer::none;
  /// What its scheduler sends as a warning, besides those that all send.
  std::array<int, 2> warnings{};
  /// From a notice to the kill, if the notice itself says nothing.
  std::chrono::seconds grace{0};
  /// The same on accelerators, where that is another.
  std::optional<std::chrono::seconds> gpu_grace{};
  /// The variable with the grace in seconds, if its user hands it on.
  const char* grace_variable = nullptr;
  int restart_code = kRestartCode;
  /// On accelerators, a manager takes the processes away some time after the notice; they must stay until then.
  bool holds_accelerators = false;
  /// Variables with the begin and the end of the job, in seconds since 1970; or with the time that it may run.
  const char* begin_variable = nullptr;
  const char* end_variable = nullptr;
  const char* wall_time_variable = nullptr;
  /// `scontrol` describes the job.
  bool asks_slurm = false;
};

/// All platforms, in the order of the enumeration.
std::span<const PlatformTraits> platforms() noexcept;

const PlatformTraits& traits_of(Platform platform) noexcept;

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

/// The signals that are a notice on a platform: those that are one everywhere, and others that the program has not
/// taken.
std::vector<int> free_signals_of(Platform platform);

}  // namespace reprieve::termination
