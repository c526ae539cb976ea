// SPDX-License-Identifier: BSD-3-Clause
#include "termination/platform_traits.hpp"

#include <algorithm>

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
                   .begin_variable = "SLURM_JOB_START_TIME",
                   .end_variable = "SLURM_JOB_END_TIME",
                   .asks_slurm = true},
    PlatformTraits{.platform = Platform::pbs,
                   .name = "pbs",
                   .sign = "PBS_JOBID",
                   .has_batch_signals = true,
                   .wall_time_variable = "PBS_WALLTIME"},
    PlatformTraits{.platform = Platform::lsf, .name = "lsf", .sign = "LSB_JOBID", .has_batch_signals = true},
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

const PlatformTraits* platform_with(MetadataServer server) noexcept {
  const auto* const found = std::find_if(kPlatforms.begin(), kPlatforms.end(), [server](const PlatformTraits& row) {
    return server != MetadataServer::none && row.metadata == server;
  });
  return found == kPlatforms.end() ? nullptr : found;
}

}  // namespace reprieve::termination
