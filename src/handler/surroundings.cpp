// What the handler finds around it: the platform, and who watches what for a notice.

#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/json_exchange.hpp"
#include "core/log.hpp"
#include "core/run_record.hpp"
#include "core/saturating_time.hpp"
#include "handler/handler_impl.hpp"
#include "manager/manager_impl.hpp"
#include "termination/platform.hpp"
#include "termination/platform_traits.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve {

namespace {

/// A notice that waits for a shorter time is nothing to tell of, however many steps that are.
constexpr std::chrono::milliseconds kShortWait{10};

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
    settings.known = termination::JobEnd{*config.end_time, core::between<std::chrono::seconds>(now, *config.end_time)};
    return settings;
  }
  if (has_supervisor()) {
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
PlatformInfo PreemptionCheckpointHandler::Impl::find_surroundings() {
  Json message;
  comm_.on_chief(
      [&] {
        const PlatformInfo found = where_we_are(config, lookup(manager.options().read_environment));
        const auto metadata = filled_in(config, found).metadata;
        message = {{"platform", to_string(found.platform)},
                   {"device", to_string(found.device)},
                   {"evidence", found.evidence},
                   {"metadata", static_cast<int>(*metadata)}};
      },
      "finding out where the job runs");
  message = cluster::broadcast(comm_, message, 0, "telling where the job runs");
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
  const bool is_cloud = termination::traits_of(platform_.platform).metadata != MetadataServer::none;
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

/// Called at boundaries while a source has a notice. Steps that were short when the checks were planned may have got
/// longer.
void PreemptionCheckpointHandler::Impl::tell_of_waiting_notice() {
  if (notice || decision_is_due() || told_of_wait_) {
    return;
  }
  if (!notice_waits_since_) {
    notice_waits_since_ = agreement_.index();
    return;
  }
  const auto local = local_notice();
  if (!local || agreement_.index() - *notice_waits_since_ < 2 ||
      std::chrono::steady_clock::now() - local->time < kShortWait) {
    return;
  }
  told_of_wait_ = true;
  const bool is_planned = decision_ && decision_->kind == Decision::Kind::preemption;
  const auto left = is_planned ? decision_->at - agreement_.index() : agreement_.boundaries_until_verdict();
  core::log::warning(
      "a notice ({}) has waited for more than two steps, {:.3f} s so far: the steps have got longer than they were "
      "when "
      "the last check was planned; all ranks act on it in {} step boundaries. begin_phase() before longer steps makes "
      "that one",
      local->source, handler::seconds_since(local->time), left);
}

/// For those who want to know whether the run has gone; without it they see less, so nothing here is an error.
void PreemptionCheckpointHandler::Impl::record_workers() {
  const Json all = cluster::gather(comm_, to_json(core::Worker::self(comm_.rank(), comm_.host())), "listing the ranks");
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

/// A hint is reason for a checkpoint, and for nothing else. In any thread.
void PreemptionCheckpointHandler::Impl::heed_hints() {
  if (const auto hint = sources_.take_hint()) {
    core::log::info("{}: saving, and going on", *hint);
    hinted_ = true;
  }
}

}  // namespace reprieve
