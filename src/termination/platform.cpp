#include "termination/platform.hpp"

#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <mutex>
#include <system_error>
#include <utility>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve {

namespace {

/// In the order of the enumerations.
constexpr std::array<const char*, 9> kPlatformNames{"gce", "aws",        "azure",           "slurm", "pbs",
                                                    "lsf", "kubernetes", "restart-managed", "other"};
constexpr std::array<const char*, 2> kDeviceNames{"cpu", "gpu"};

template <class Enum, std::size_t Count>
std::optional<Enum> named(const std::array<const char*, Count>& names, std::string_view name) {
  for (std::size_t i = 0; i < Count; ++i) {
    if (name == names[i]) {
      return static_cast<Enum>(i);
    }
  }
  return std::nullopt;
}

/// Long enough for a server on this machine or its host; what does not answer by then is not there.
constexpr std::chrono::milliseconds kProbeLimit{300};

}  // namespace

const char* to_string(Platform platform) noexcept { return kPlatformNames[static_cast<std::size_t>(platform)]; }
const char* to_string(Device device) noexcept { return kDeviceNames[static_cast<std::size_t>(device)]; }

std::optional<Platform> platform_named(std::string_view name) { return named<Platform>(kPlatformNames, name); }
std::optional<Device> device_named(std::string_view name) { return named<Device>(kDeviceNames, name); }

PlatformInfo detect_platform() {
  return termination::find_platform(termination::environment_variable, "/", kProbeLimit);
}

namespace termination {

namespace {

namespace fs = std::filesystem;

/// A variable that a batch system or an orchestrator gives to every process.
struct Sign {
  const char* variable;
  Platform platform;
};
constexpr std::array<Sign, 4> kSigns{{{"SLURM_JOB_ID", Platform::slurm},
                                      {"PBS_JOBID", Platform::pbs},
                                      {"LSB_JOBID", Platform::lsf},
                                      {"KUBERNETES_SERVICE_HOST", Platform::kubernetes}}};

constexpr std::array<const char*, 5> kFirmwareFiles{"sys_vendor", "product_name", "product_version", "bios_vendor",
                                                    "bios_version"};

constexpr std::array<MetadataServer, 3> kServers{MetadataServer::gce, MetadataServer::aws, MetadataServer::azure};

Platform platform_of(MetadataServer server) {
  switch (server) {
    case MetadataServer::gce:
      return Platform::gce;
    case MetadataServer::aws:
      return Platform::aws;
    case MetadataServer::azure:
      return Platform::azure;
    case MetadataServer::none:
      break;
  }
  return Platform::other;
}

[[noreturn]] void refuse(const char* variable, const std::string& found, const std::string& allowed) {
  throw ConfigError(fmt::format("{}: found \"{}\"; allowed: one of {}", variable, found, allowed));
}

bool contains(const Firmware& firmware, const char* text) {
  for (const auto& [file, content] : firmware) {
    if (content.find(text) != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool names_cloud(const Firmware& firmware, MetadataServer server) {
  switch (server) {
    case MetadataServer::gce:
      return contains(firmware, "Google");
    case MetadataServer::aws:
      return contains(firmware, "Amazon") || contains(firmware, "amazon");  // the older ones call themselves Xen
    case MetadataServer::azure:
      return contains(firmware, "Microsoft Corporation") && contains(firmware, "Virtual Machine");
    case MetadataServer::none:
      break;
  }
  return false;
}

/// The answer of the servers with these addresses, asked once in the life of the process.
MetadataServer find_server_once(const std::vector<MetadataServer>& servers, const EnvironmentLookup& environment,
                                std::chrono::milliseconds limit) {
  static std::mutex mutex;
  static std::map<std::string, MetadataServer> known;  // NOLINT: a cache
  std::string key;
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
    refuse("REPRIEVE_PLATFORM", *name, fmt::format("{}", fmt::join(kPlatformNames, ", ")));
  }
  for (const Sign& sign : kSigns) {
    if (environment(sign.variable)) {
      return PlatformInfo{sign.platform, Device::cpu, sign.variable};
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
  for (const MetadataServer server : kServers) {
    if (server == MetadataServer::aws && environment("AWS_EC2_METADATA_DISABLED") == "true") {
      continue;
    }
    if (names_endpoint(server, environment) || names_cloud(firmware, server) || firmware.empty()) {
      servers.push_back(server);
    }
  }
  return servers;
}

PlatformInfo find_platform(const EnvironmentLookup& environment, const fs::path& root,
                           std::chrono::milliseconds limit) {
  PlatformInfo info;
  if (auto named = platform_in_environment(environment)) {
    info = std::move(*named);
  } else if (const auto server =
                 find_server_once(servers_to_probe(environment, read_firmware(root)), environment, limit);
             server != MetadataServer::none) {
    info.platform = platform_of(server);
    info.evidence = metadata_server_name(server);
  } else {
    info.evidence = "nothing else found";
  }
  info.device = find_device(environment, root);
  return info;
}

std::vector<int> signals_of(Platform platform) {
  // SIGUSR1 everywhere: of the two, mpirun and srun hand only this one on to all ranks without ending them.
  std::vector<int> signals{SIGTERM, SIGUSR1};
  if (platform == Platform::pbs || platform == Platform::lsf) {
    signals.push_back(SIGUSR2);
    signals.push_back(SIGXCPU);
  }
  return signals;
}

MetadataServer metadata_server_of(Platform platform) {
  const auto* const found = std::find_if(kServers.begin(), kServers.end(),
                                         [platform](MetadataServer server) { return platform_of(server) == platform; });
  return found != kServers.end() ? *found : MetadataServer::none;
}

}  // namespace termination

}  // namespace reprieve
