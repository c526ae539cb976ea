// SPDX-License-Identifier: BSD-3-Clause
// What fits each platform, by the table of platforms.

#include <charconv>
#include <optional>

#include "core/log.hpp"
#include "reprieve/termination_config.hpp"
#include "termination/platform.hpp"
#include "termination/platform_traits.hpp"

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
  int value = 0;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc{} && stop == text->data() + text->size() && value >= 0) {
    return seconds(value);
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
  config.signals = termination::signals_of(where.platform);
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
