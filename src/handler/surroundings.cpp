// What the handler finds around it: the platform, and who watches what for a notice.

#include <nlohmann/json.hpp>
#include <utility>

#include "core/log.hpp"
#include "core/run_record.hpp"
#include "handler/handler_impl.hpp"
#include "handler/json_exchange.hpp"
#include "manager/manager_impl.hpp"
#include "termination/platform.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve {

namespace {

using Json = nlohmann::json;
using termination::environment_variable;
using termination::WallClock;

/// Without asking any server if the configuration says it.
PlatformInfo where_we_are(const TerminationConfig& config) {
  if (!config.platform) {
    PlatformInfo found = detect_platform();
    found.device = config.device.value_or(found.device);
    return found;
  }
  const Device device = config.device ? *config.device : termination::find_device(environment_variable, "/");
  return {*config.platform, device, "the configuration"};
}

/// A supervisor sees to the file and to the end of the job; told twice, the run would end at the earlier of two leads.
bool has_supervisor() { return environment_variable(core::kRunDirectoryVariable).has_value(); }

std::optional<termination::DeadlineSettings> deadline_of(const TerminationConfig& config, bool asked_for_grace) {
  const auto now = WallClock::now();
  termination::DeadlineSettings settings;
  settings.lead = config.end_lead;
  if (!settings.lead && asked_for_grace && config.grace_period->count() > 0) {
    settings.lead = config.grace_period;
  }
  if (config.end_time) {
    settings.known =
        termination::JobEnd{*config.end_time, std::chrono::duration_cast<std::chrono::seconds>(*config.end_time - now)};
    return settings;
  }
  if (has_supervisor()) {
    return std::nullopt;
  }
  settings.known = termination::end_in_environment(*config.platform, environment_variable, now);
  if (config.platform == Platform::slurm) {
    settings.slurm_job = termination::slurm_job_id(environment_variable);
  }
  return settings.known || settings.slurm_job ? std::optional(std::move(settings)) : std::nullopt;
}

}  // namespace

/// Asked on the chief alone: a thousand ranks would overrun a metadata server.
PlatformInfo PreemptionCheckpointHandler::Impl::find_surroundings() {
  Json message;
  comm_.on_chief(
      [&] {
        const PlatformInfo found = where_we_are(config);
        const auto metadata = filled_in(config, found).metadata;
        message = {{"platform", to_string(found.platform)},
                   {"device", to_string(found.device)},
                   {"evidence", found.evidence},
                   {"metadata", static_cast<int>(*metadata)}};
      },
      "finding out where the job runs");
  message = handler::broadcast(comm_, message, 0, "telling where the job runs");
  PlatformInfo where{*platform_named(message["platform"].get<std::string>()),
                     *device_named(message["device"].get<std::string>()), message["evidence"]};
  grace_was_asked_for_ = config.grace_period.has_value();
  config = filled_in(std::move(config), where);
  config.metadata = static_cast<MetadataServer>(message["metadata"].get<int>());
  core::log::debug("platform: {} ({}), device: {}", to_string(where.platform), where.evidence, to_string(where.device));
  return where;
}

/// Signals and the watcher function on every rank, the metadata server on one of each node, the rest on the chief.
termination::SourceSettings PreemptionCheckpointHandler::Impl::own_sources() {
  termination::SourceSettings settings;
  settings.signals = *config.signals;
  settings.poll_interval = config.poll_interval;
  settings.grace = *config.grace_period;
  // The grace of a cloud is what its metadata server announces. A signal there announces nothing.
  const bool is_cloud = termination::metadata_server_of(platform_.platform) != MetadataServer::none;
  settings.signal_grace = is_cloud && !grace_was_asked_for_ ? std::chrono::milliseconds(0) : *config.grace_period;
  settings.watcher_fn = config.termination_watcher_fn;
  if (config.metadata != MetadataServer::none && comm_.is_node_leader()) {
    settings.metadata = *config.metadata;
  }
  if (comm_.is_chief()) {
    if (config.preempt_file && !has_supervisor()) {
      settings.preempt_file = manager.directory() / core::kPreemptFile;
    }
    settings.deadline = deadline_of(config, grace_was_asked_for_);
  }
  return settings;
}

std::optional<termination::LocalNotice> PreemptionCheckpointHandler::Impl::local_notice() const {
  return drill_notice_ ? drill_notice_ : sources_.current();
}

/// For those who want to know whether the run has gone; without it they see less, so nothing here is an error.
void PreemptionCheckpointHandler::Impl::record_workers() {
  const Json all = handler::gather(comm_, to_json(core::Worker::self(comm_.rank(), comm_.host())), "listing the ranks");
  if (comm_.is_chief()) {
    try {
      core::write_worker_record(manager.directory(), all);
    } catch (const Error& error) {
      core::log::warning("{}; a supervisor cannot see when the ranks have gone", error.what());
    }
  }
  comm_.barrier("listing the ranks");
  worker_lock_ = std::make_unique<core::WorkerLock>(manager.directory());
}

/// A hint is reason for a checkpoint, and for nothing else.
void PreemptionCheckpointHandler::Impl::heed_hints() {
  if (const auto hint = sources_.take_hint()) {
    core::log::info("{}: saving, and going on", *hint);
    wish = cluster::SaveWish::user;
  }
}

}  // namespace reprieve
