// SPDX-License-Identifier: BSD-3-Clause
#include "handler/runtime_info.hpp"

#include <optional>
#include <tuple>
#include <utility>

#include "core/log.hpp"
#include "core/run_record.hpp"
#include "core/values.hpp"
#include "reprieve/termination_config.hpp"
#include "termination/platform.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::handler {

namespace {

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

/// With two notices of the end of the job, the run would end at the earlier of two leads.
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

/// Asked on rank 0 alone: a thousand ranks would overrun a metadata server.
RuntimeInfo find_runtime_info(cluster::Communicator& comm, TerminationConfig& config, bool reads_settings) {
  PlatformInfo where;
  MetadataServer metadata{};
  std::tie(where.platform, where.device, where.evidence, metadata) = comm.from_rank_0(
      [&] {
        const PlatformInfo found = where_we_are(config, lookup(reads_settings));
        return std::tuple(found.platform, found.device, found.evidence, *filled_in(config, found).metadata);
      },
      "finding out where the job runs");
  const bool grace_was_asked_for = config.grace_period.has_value();
  const bool by_mpirun = core::environment_variable("OMPI_COMM_WORLD_SIZE").has_value();
  config.grace_margin = config.grace_margin.value_or(std::chrono::seconds(by_mpirun ? 3 : 1));
  config = filled_in(std::move(config), where);
  config.metadata = metadata;
  core::log::debug("platform: {} ({}), device: {}", to_string(where.platform), where.evidence, to_string(where.device));
  return {std::move(where), grace_was_asked_for};
}

termination::SourceSettings sources_of(cluster::Communicator& comm, const TerminationConfig& config,
                                       const RuntimeInfo& runtime_info, const std::filesystem::path& directory) {
  termination::SourceSettings settings;
  settings.signals = *config.signals;
  settings.poll_interval = config.poll_interval;
  settings.grace = *config.grace_period;
  // The grace of a cloud is what its metadata server announces. A signal there announces nothing.
  const bool is_cloud = termination::traits_of(runtime_info.platform.platform).metadata != MetadataServer::none;
  settings.signal_grace =
      is_cloud && !runtime_info.grace_was_asked_for ? std::chrono::milliseconds(0) : *config.grace_period;
  settings.watcher_fn = config.termination_watcher_fn;
  if (config.metadata != MetadataServer::none && comm.is_node_leader()) {
    settings.metadata = *config.metadata;
  }
  if (comm.is_rank_0()) {
    if (config.preempt_file) {
      settings.save_file = directory / core::kSaveFile;
    }
    if (config.preempt_file && !has_supervisor()) {
      settings.preempt_file = directory / core::kPreemptFile;
    }
    if (has_supervisor()) {
      settings.run_directory = environment_variable(core::kRunDirectoryVariable);
    }
    settings.deadline = deadline_of(config, runtime_info.grace_was_asked_for);
  }
  return settings;
}

/// Without the list others see less, so nothing here is an error.
std::unique_ptr<core::WorkerLock> record_workers(cluster::Communicator& comm, const std::filesystem::path& directory) {
  const auto all = comm.gather_values(core::Worker::self(comm.rank(), comm.host()), "listing the ranks");
  if (comm.is_rank_0()) {
    try {
      core::write_worker_record(directory, core::json_of(all));
    } catch (const Error& error) {
      core::log::warning("{}; a supervisor cannot see when the ranks have gone", error.what());
    }
  }
  comm.barrier("listing the ranks");
  return std::make_unique<core::WorkerLock>(directory);
}

}  // namespace reprieve::handler

// What fits each platform, by the table of platforms.

namespace reprieve {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What the environment says of the grace, if the platform has a variable for it.
std::optional<seconds> grace_in_environment(const termination::PlatformTraits& traits) {
  const auto text =
      traits.grace_variable != nullptr ? termination::environment_variable(traits.grace_variable) : std::nullopt;
  if (!text || text->empty()) {
    return std::nullopt;
  }
  if (const auto value = core::number_in<int>(*text); value && *value >= 0) {
    return seconds(*value);
  }
  core::log::warning("{}: found \"{}\"; allowed: a whole number of seconds. Assuming {}", traits.grace_variable, *text,
                     traits.grace.count());
  return std::nullopt;
}

/// The grace that the platform grants if the notice itself says nothing.
milliseconds grace_of(const termination::PlatformTraits& traits, Device device) {
  const seconds usual = device == Device::gpu ? traits.gpu_grace.value_or(traits.grace) : traits.grace;
  return grace_in_environment(traits).value_or(usual);
}

}  // namespace

TerminationConfig preset(const PlatformInfo& where) {
  const termination::PlatformTraits& traits = termination::traits_of(where.platform);
  TerminationConfig config;
  config.platform = where.platform;
  config.device = where.device;
  config.signals = termination::free_signals_of(where.platform);
  config.grace_period = grace_of(traits, where.device);
  config.restart_code = traits.restart_code;
  config.metadata = traits.metadata;
  const bool is_held = traits.holds_accelerators && where.device == Device::gpu;
  config.exit_fn = is_held ? hold_until_taken : leave_together;
  return config;
}

TerminationConfig filled_in(TerminationConfig config, const PlatformInfo& where) {
  const auto fill = [](auto& mine, const auto& standard) {
    if (!mine) {
      mine = standard;
    }
  };
  const TerminationConfig standard = preset(where);
  fill(config.platform, standard.platform);
  fill(config.device, standard.device);
  fill(config.signals, standard.signals);
  fill(config.grace_period, standard.grace_period);
  fill(config.restart_code, standard.restart_code);
  fill(config.metadata, standard.metadata);
  fill(config.exit_fn, config.return_when_saved ? ExitFn([](const ExitContext&) {}) : standard.exit_fn);
  return config;
}

}  // namespace reprieve
