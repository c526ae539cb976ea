// SPDX-License-Identifier: BSD-3-Clause
#include "handler/surroundings.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/json_exchange.hpp"
#include "core/log.hpp"
#include "core/run_record.hpp"
#include "core/saturating_time.hpp"
#include "termination/platform.hpp"
#include "termination/platform_traits.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::handler {

namespace {

using Json = nlohmann::json;
using termination::environment_variable;
using termination::WallClock;

/// Long enough for a metadata server on this machine or its host.
constexpr std::chrono::milliseconds kProbeLimit{300};

/// The environment, without what is said to the library if that does not count.
core::EnvironmentLookup lookup(bool with_settings) {
  return [with_settings](const std::string& name) {
    return with_settings || !name.starts_with("REPRIEVE_") ? environment_variable(name) : std::nullopt;
  };
}

/// Without asking any server if the configuration says it.
PlatformInfo where_we_are(const TerminationConfig& config, const core::EnvironmentLookup& environment) {
  if (!config.platform) {
    PlatformInfo found = termination::find_platform(environment, "/", kProbeLimit);
    found.device = config.device.value_or(found.device);
    return found;
  }
  const Device device = config.device ? *config.device : termination::find_device(environment, "/");
  return {*config.platform, device, "the configuration"};
}

/// A supervisor sees to the file.
bool has_supervisor() { return environment_variable(core::kRunDirectoryVariable).has_value(); }

/// Told twice of the end of the job, the run would end at the earlier of two leads.
bool supervisor_watches_end() { return environment_variable(core::kWatchesEndVariable).has_value(); }

std::optional<termination::DeadlineSettings> deadline_of(const TerminationConfig& config, bool asked_for_grace) {
  const auto now = WallClock::now();
  termination::DeadlineSettings settings;
  settings.lead = config.end_lead;
  if (!settings.lead && asked_for_grace && config.grace_period->count() > 0) {
    settings.lead = config.grace_period;
  }
  if (config.end_time) {
    settings.known = termination::JobEnd{*config.end_time, core::between<std::chrono::seconds>(now, *config.end_time)};
    return settings;
  }
  if (supervisor_watches_end()) {
    return std::nullopt;
  }
  settings.known = termination::end_in_environment(*config.platform, environment_variable, now);
  if (termination::traits_of(*config.platform).asks_slurm) {
    settings.slurm_job = termination::slurm_job_id(environment_variable);
  }
  return settings.known || settings.slurm_job ? std::optional(std::move(settings)) : std::nullopt;
}

}  // namespace

/// Asked on the chief alone: a thousand ranks would overrun a metadata server.
Surroundings find_surroundings(cluster::Communicator& comm, TerminationConfig& config, bool reads_settings) {
  Json message;
  comm.on_chief(
      [&] {
        const PlatformInfo found = where_we_are(config, lookup(reads_settings));
        const auto metadata = filled_in(config, found).metadata;
        message = {{"platform", to_string(found.platform)},
                   {"device", to_string(found.device)},
                   {"evidence", found.evidence},
                   {"metadata", static_cast<int>(*metadata)}};
      },
      "finding out where the job runs");
  message = cluster::broadcast(comm, message, 0, "telling where the job runs");
  PlatformInfo where{*platform_named(message["platform"].get<std::string>()),
                     *device_named(message["device"].get<std::string>()), message["evidence"]};
  const bool grace_was_asked_for = config.grace_period.has_value();
  config = filled_in(std::move(config), where);
  config.metadata = static_cast<MetadataServer>(message["metadata"].get<int>());
  core::log::debug("platform: {} ({}), device: {}", to_string(where.platform), where.evidence, to_string(where.device));
  return {std::move(where), grace_was_asked_for};
}

termination::SourceSettings sources_of(cluster::Communicator& comm, const TerminationConfig& config,
                                       const Surroundings& surroundings, const std::filesystem::path& directory) {
  termination::SourceSettings settings;
  settings.signals = *config.signals;
  settings.poll_interval = config.poll_interval;
  settings.grace = *config.grace_period;
  // The grace of a cloud is what its metadata server announces. A signal there announces nothing.
  const bool is_cloud = termination::traits_of(surroundings.platform.platform).metadata != MetadataServer::none;
  settings.signal_grace =
      is_cloud && !surroundings.grace_was_asked_for ? std::chrono::milliseconds(0) : *config.grace_period;
  settings.watcher_fn = config.termination_watcher_fn;
  if (config.metadata != MetadataServer::none && comm.is_node_leader()) {
    settings.metadata = *config.metadata;
  }
  if (comm.is_chief()) {
    if (config.preempt_file && !has_supervisor()) {
      settings.preempt_file = directory / core::kPreemptFile;
    }
    settings.deadline = deadline_of(config, surroundings.grace_was_asked_for);
  }
  return settings;
}

/// Without the list others see less, so nothing here is an error.
std::unique_ptr<core::WorkerLock> record_workers(cluster::Communicator& comm, const std::filesystem::path& directory) {
  const Json all = cluster::gather(comm, to_json(core::Worker::self(comm.rank(), comm.host())), "listing the ranks");
  if (comm.is_chief()) {
    try {
      core::write_worker_record(directory, all);
    } catch (const Error& error) {
      core::log::warning("{}; a supervisor cannot see when the ranks have gone", error.what());
    }
  }
  comm.barrier("listing the ranks");
  return std::make_unique<core::WorkerLock>(directory);
}

}  // namespace reprieve::handler
