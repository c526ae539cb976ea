// What fits each platform: the one place that knows.

#include <charconv>

#include "core/log.hpp"
#include "reprieve/termination_config.hpp"
#include "termination/platform.hpp"

namespace reprieve {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kRestartCode = 42;
/// What a shell shows for a process that SIGTERM ended: managers on GCE take it for a preemption.
constexpr int kGceRestartCode = 143;

constexpr seconds kGceGpuGrace{3600};
constexpr seconds kAwsGrace{120};
constexpr seconds kPodGrace{30};

/// terminationGracePeriodSeconds of the pod, if its author hands it on to the container.
seconds pod_grace() {
  const std::string text = termination::environment_variable("TERMINATION_GRACE_PERIOD_SECONDS").value_or("");
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && stop == text.data() + text.size() && value >= 0) {
    return seconds(value);
  }
  if (!text.empty()) {
    core::log::warning(
        "TERMINATION_GRACE_PERIOD_SECONDS: found \"{}\"; allowed: a whole number of seconds. Assuming {}", text,
        kPodGrace.count());
  }
  return kPodGrace;
}

/// The grace that the platform grants if the notice itself says nothing.
milliseconds grace_of(const PlatformInfo& where) {
  switch (where.platform) {
    case Platform::gce:
      return where.device == Device::gpu ? kGceGpuGrace : seconds(0);
    case Platform::aws:
      return kAwsGrace;
    case Platform::kubernetes:
      return pod_grace();
    default:
      return seconds(0);
  }
}

}  // namespace

TerminationConfig preset(const PlatformInfo& where) {
  TerminationConfig config;
  config.platform = where.platform;
  config.device = where.device;
  config.signals = termination::signals_of(where.platform);
  config.grace_period = grace_of(where);
  config.restart_code = where.platform == Platform::gce ? kGceRestartCode : kRestartCode;
  config.metadata = termination::metadata_server_of(where.platform);
  const bool is_held = where.platform == Platform::restart_managed && where.device == Device::gpu;
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
