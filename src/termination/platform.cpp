// SPDX-License-Identifier: BSD-3-Clause
#include "termination/platform.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <iterator>
#include <mutex>
#include <system_error>
#include <utility>

#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::termination {

namespace {

using std::chrono::seconds;

constexpr std::array kPlatforms{
    PlatformTraits{.platform = Platform::gce,
                   .name = "gce",
                   .firmware = {{{"Google"}}},
                   .metadata = MetadataServer::gce,
                   .gpu_grace = seconds(3600),
                   .restart_code = kTerminatedCode},
    PlatformTraits{.platform = Platform::aws,
                   .name = "aws",
                   .firmware = {{{"Amazon"}, {"amazon"}}},  // the older ones call themselves Xen
                   .metadata = MetadataServer::aws,
                   .grace = seconds(120)},
    PlatformTraits{.platform = Platform::azure,
                   .name = "azure",
                   .firmware = {{{"Microsoft Corporation", "Virtual Machine"}}},
                   .metadata = MetadataServer::azure},
    PlatformTraits{.platform = Platform::slurm,
                   .name = "slurm",
                   .sign = "SLURM_JOB_ID",
                   .warnings = {SIGINT},
                   .begin_variable = "SLURM_JOB_START_TIME",
                   .end_variable = "SLURM_JOB_END_TIME",
                   .asks_slurm = true},
    PlatformTraits{.platform = Platform::pbs, .name = "pbs", .sign = "PBS_JOBID", .wall_time_variable = "PBS_WALLTIME"},
    PlatformTraits{.platform = Platform::lsf, .name = "lsf", .sign = "LSB_JOBID", .warnings = {SIGINT}},
    PlatformTraits{.platform = Platform::sge, .name = "sge", .sign = "SGE_O_HOST", .restart_code = kRequeueCode},
    PlatformTraits{.platform = Platform::htcondor,
                   .name = "htcondor",
                   .sign = "_CONDOR_SCRATCH_DIR",
                   .restart_code = 85},  // checkpoint_exit_code of its manual
    PlatformTraits{.platform = Platform::oar, .name = "oar", .sign = "OAR_JOB_ID", .restart_code = kRequeueCode},
    // SIGALRM at the time limit, 5 s before SIGKILL.
    PlatformTraits{.platform = Platform::flux, .name = "flux", .sign = "FLUX_JOB_ID", .warnings = {SIGALRM}},
    PlatformTraits{
        .platform = Platform::aws_batch, .name = "aws-batch", .sign = "AWS_BATCH_JOB_ID", .grace = seconds(30)},
    PlatformTraits{.platform = Platform::kubernetes,
                   .name = "kubernetes",
                   .sign = "KUBERNETES_SERVICE_HOST",
                   .grace = seconds(30),
                   // terminationGracePeriodSeconds of the pod, if its author hands it on to the container.
                   .grace_variable = "TERMINATION_GRACE_PERIOD_SECONDS"},
    PlatformTraits{.platform = Platform::restart_managed, .name = "restart-managed", .holds_accelerators = true},
    PlatformTraits{.platform = Platform::other, .name = "other"},
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kPlatforms.size(); ++i) {
    if (kPlatforms[i].platform != static_cast<Platform>(i)) {
      return false;
    }
  }
  return kPlatforms.back().platform == Platform::other;
}
static_assert(rows_are_in_order(), "a platform's row is found by its number, and the last platform is `other`");

}  // namespace

std::span<const PlatformTraits> platforms() noexcept { return kPlatforms; }

const PlatformTraits& traits_of(Platform platform) noexcept { return kPlatforms[static_cast<std::size_t>(platform)]; }

}  // namespace reprieve::termination

namespace reprieve {

namespace {

/// In the order of the enumeration.
constexpr std::array<const char*, 2> kDeviceNames{"cpu", "gpu"};

/// Long enough for a server on this machine or its host; what does not answer by then is not there.
constexpr std::chrono::milliseconds kProbeLimit{300};

}  // namespace

const char* to_string(Platform platform) noexcept { return termination::traits_of(platform).name; }
const char* to_string(Device device) noexcept { return kDeviceNames[static_cast<std::size_t>(device)]; }

std::optional<Platform> platform_named(std::string_view name) {
  for (const auto& row : termination::platforms()) {
    if (name == row.name) {
      return row.platform;
    }
  }
  return std::nullopt;
}

std::optional<Device> device_named(std::string_view name) {
  const auto* const found = std::find(kDeviceNames.begin(), kDeviceNames.end(), name);
  return found == kDeviceNames.end() ? std::nullopt : std::optional(static_cast<Device>(found - kDeviceNames.begin()));
}

PlatformInfo detect_platform() {
  return termination::find_platform(termination::environment_variable, "/", kProbeLimit);
}

namespace termination {

namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 5> kFirmwareFiles{"sys_vendor", "product_name", "product_version", "bios_vendor",
                                                    "bios_version"};

[[noreturn]] void refuse(const char* variable, const std::string& found, const std::string& allowed) {
  throw ConfigError(fmt::format("{}: found \"{}\"; allowed: one of {}", variable, found, allowed));
}

bool says(const Firmware& firmware, const char* word) {
  return word == nullptr || std::any_of(firmware.begin(), firmware.end(), [word](const auto& file) {
           return file.second.find(word) != std::string::npos;
         });
}

bool is_named_in(const Firmware& firmware, const PlatformTraits& row) {
  return std::any_of(row.firmware.begin(), row.firmware.end(), [&firmware](const FirmwareWords& words) {
    return words.first != nullptr && says(firmware, words.first) && says(firmware, words.second);
  });
}

std::string all_names() {
  std::vector<const char*> names;
  for (const PlatformTraits& row : platforms()) {
    names.push_back(row.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The answer of the servers with these addresses, asked once in the life of the process.
MetadataServer find_server_once(const std::vector<MetadataServer>& servers, const EnvironmentLookup& environment,
                                std::chrono::milliseconds limit) {
  static std::mutex mutex;
  static std::map<std::string, MetadataServer> known;  // NOLINT: a cache
  std::string key = std::to_string(limit.count()) + '\n';
  for (const MetadataServer server : servers) {
    key += metadata_endpoint(server, environment) + ' ' + metadata_server_name(server) + '\n';
  }
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) {
    return found->second;
  }
  const MetadataServer server = find_metadata_server(servers, environment, limit);
  known.emplace(std::move(key), server);
  return server;
}

}  // namespace

std::optional<PlatformInfo> platform_in_environment(const EnvironmentLookup& environment) {
  if (const auto name = environment("REPRIEVE_PLATFORM"); name && *name != "null") {
    if (const auto platform = platform_named(*name)) {
      return PlatformInfo{*platform, Device::cpu, "REPRIEVE_PLATFORM"};
    }
    refuse("REPRIEVE_PLATFORM", *name, all_names());
  }
  for (const PlatformTraits& row : platforms()) {
    if (row.sign != nullptr && environment(row.sign)) {
      return PlatformInfo{row.platform, Device::cpu, row.sign};
    }
  }
  return std::nullopt;
}

Device find_device(const EnvironmentLookup& environment, const fs::path& root) {
  if (const auto name = environment("REPRIEVE_DEVICE"); name && *name != "null") {
    if (const auto device = device_named(*name)) {
      return *device;
    }
    refuse("REPRIEVE_DEVICE", *name, fmt::format("{}", fmt::join(kDeviceNames, ", ")));
  }
  // Of NVIDIA, AMD and Intel's accelerators. Not /dev/dri, which every desktop has.
  for (const char* file : {"dev/nvidia0", "dev/nvidiactl", "dev/kfd", "dev/accel/accel0"}) {
    std::error_code ignored;
    if (fs::exists(root / file, ignored)) {
      return Device::gpu;
    }
  }
  return Device::cpu;
}

Firmware read_firmware(const fs::path& root) {
  Firmware firmware;
  for (const char* name : kFirmwareFiles) {
    std::ifstream file(root / "sys/class/dmi/id" / name);
    std::string line;
    if (std::getline(file, line) && !line.empty()) {
      firmware[name] = line;
    }
  }
  return firmware;
}

std::vector<MetadataServer> servers_to_probe(const EnvironmentLookup& environment, const Firmware& firmware) {
  std::vector<MetadataServer> servers;
  for (const PlatformTraits& row : platforms()) {
    if (row.metadata == MetadataServer::none || is_switched_off(row.metadata, environment)) {
      continue;
    }
    if (names_endpoint(row.metadata, environment) || is_named_in(firmware, row) || firmware.empty()) {
      servers.push_back(row.metadata);
    }
  }
  return servers;
}

namespace {

/// That of one of these servers.
Platform platform_of(MetadataServer server) {
  const auto is_its = [server](const PlatformTraits& row) { return row.metadata == server; };
  return std::find_if(platforms().begin(), platforms().end(), is_its)->platform;
}

/// Warnings of schedulers, as users choose them (`sbatch --signal`, `qsub -notify`, LSF's `-wa`), and of the kernel at
/// the soft limit of the processor's time. mpirun and srun hand SIGUSR1 on to all ranks without ending them.
constexpr std::array kUsualWarnings{SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};

/// A server that the firmware or the environment names may answer late, on a busy host.
MetadataServer find_cloud(const EnvironmentLookup& environment, const Firmware& firmware,
                          std::chrono::milliseconds limit) {
  constexpr int kMorePatience = 10;
  const std::vector<MetadataServer> servers = servers_to_probe(environment, firmware);
  MetadataServer server = find_server_once(servers, environment, limit);
  const bool is_named = servers.size() == 1 && http_problem().empty();
  if (server == MetadataServer::none && is_named) {
    server = find_server_once(servers, environment, limit * kMorePatience);
    if (server == MetadataServer::none) {
      core::log::warning(
          "the {} gives no answer: this machine is not known as one of its cloud. Set REPRIEVE_PLATFORM to {}, or to "
          "`other`",
          metadata_server_name(servers.front()), to_string(platform_of(servers.front())));
    }
  }
  return server;
}

}  // namespace

PlatformInfo find_platform(const EnvironmentLookup& environment, const fs::path& root,
                           std::chrono::milliseconds limit) {
  PlatformInfo info;
  if (auto named = platform_in_environment(environment)) {
    info = std::move(*named);
  } else if (const auto server = find_cloud(environment, read_firmware(root), limit); server != MetadataServer::none) {
    info.platform = platform_of(server);
    info.evidence = metadata_server_name(server);
  } else {
    info.evidence = "nothing else found";
  }
  info.device = find_device(environment, root);
  return info;
}

std::vector<int> free_signals_of(Platform platform) {
  std::vector<int> signals(kUsualWarnings.begin(), kUsualWarnings.end());
  std::ranges::copy_if(traits_of(platform).warnings, std::back_inserter(signals),
                       [](int signal) { return signal > 0; });
  std::erase_if(signals, [](int signal) { return !is_notice_everywhere(signal) && is_taken(signal); });
  return signals;
}

}  // namespace termination

}  // namespace reprieve
