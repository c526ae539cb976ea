// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Where a job runs. The platform decides how an end is noticed, how long there is, and how to leave: see `preset` in
/// termination_config.hpp and apps/guide/platforms.md.

#include <optional>
#include <string>
#include <string_view>

#include "reprieve/export.h"

namespace reprieve {

enum class Platform {
  gce,              ///< a virtual machine of Google Compute Engine
  aws,              ///< an EC2 instance, spot or not
  azure,            ///< a virtual machine of Azure
  slurm,            ///< a job of Slurm
  pbs,              ///< a job of PBS Pro, OpenPBS or TORQUE
  lsf,              ///< a job of LSF
  sge,              ///< a job of Grid Engine
  htcondor,         ///< a job of HTCondor
  oar,              ///< a job of OAR
  flux,             ///< a job of Flux
  aws_batch,        ///< a job of AWS Batch
  kubernetes,       ///< a pod
  restart_managed,  ///< something that starts the job again whenever it leaves with the restart code
  other,            ///< anything else
};

/// What the job computes on.
enum class Device { cpu, gpu };

struct PlatformInfo {
  Platform platform = Platform::other;
  Device device = Device::cpu;
  std::string evidence;  ///< what showed the platform: "SLURM_JOB_ID", "metadata server of AWS", ...
};

/// "gce", "aws", "azure", "slurm", "pbs", "lsf", "sge", "htcondor", "oar", "flux", "aws-batch", "kubernetes",
/// "restart-managed", "other".
REPRIEVE_EXPORT const char* to_string(Platform platform) noexcept;
/// "cpu", "gpu".
REPRIEVE_EXPORT const char* to_string(Device device) noexcept;
/// The platform or device of that name; nothing if there is none.
REPRIEVE_EXPORT std::optional<Platform> platform_named(std::string_view name);
REPRIEVE_EXPORT std::optional<Device> device_named(std::string_view name);

/// Finds out where this process runs. The environment decides if it can: `REPRIEVE_PLATFORM` first, then the variables
/// of a batch system or of Kubernetes. Otherwise, where the firmware names a cloud, or names nothing, or the
/// environment names the address of a metadata server, the metadata servers are asked, side by side, for 0.3 s at most
/// (3 s more if one alone may be there). That answer is kept for the life of the process. The device is a GPU if there
/// is a device file of one, or what `REPRIEVE_DEVICE` says.
///
/// A handler does this on rank 0 alone and sends it to the others. Collective: no. Thread: any.
/// @throws ConfigError if one of the two variables has a value that does not exist
REPRIEVE_EXPORT PlatformInfo detect_platform();

}  // namespace reprieve
