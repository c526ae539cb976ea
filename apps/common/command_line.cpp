// SPDX-License-Identifier: BSD-3-Clause
#include "common/command_line.hpp"

#include <memory>
#include <reprieve/error.hpp>
#include <reprieve/version.hpp>
#include <reprieve/version_details.hpp>
#include <utility>

#include "common/json_section.hpp"

namespace apps {

CommandLine::CommandLine(const std::string& description, std::string name, std::string section)
    : app_(description, std::move(name)), section_(std::move(section)) {
  // The last one counts, so that a script can append to a command line.
  app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app_.set_version_flag("--version", REPRIEVE_VERSION);
  app_.set_config("--config", "",
                  "JSON file: the library's settings, and these options in its section \"" + section_ + "\"")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app_.config_formatter(std::make_shared<JsonSection>(app_, section_));
}

/// An option that belongs to the library: not part of the program's section, and applied after file and environment.
template <class T, class Apply>
CLI::Option* CommandLine::add_library_option(const std::string& name, Apply apply, const std::string& help) {
  const auto remember = [this, apply](const T& value) {
    overrides_.emplace_back([apply, value](reprieve::Settings& settings) { apply(settings, value); });
  };
  return app_.add_option_function<T>(name, remember, help)->configurable(false)->group("Checkpoints");
}

void CommandLine::add_library_options() {
  using reprieve::Settings;
  add_library_option<std::string>(
      "--checkpoint-dir", [](Settings& s, const std::string& v) { s.directory = v; },
      "directory of the checkpoints (default: checkpoints)");
  add_library_option<std::uint64_t>(
      "--checkpoint-every", [](Settings& s, std::uint64_t v) { s.termination.save_every_steps = v; },
      "save every so many steps, too; 0: only when preempted and at the end")
      ->type_name("STEPS");
  add_library_option<std::uint64_t>(
      "--max-to-keep", [](Settings& s, std::uint64_t v) { s.manager.max_to_keep = v; },
      "newest checkpoints to keep; 0: all");
  add_library_option<double>(
      "--grace-period",
      [](Settings& s, double v) {
        s.termination.grace_period = std::chrono::milliseconds(static_cast<std::int64_t>(v * 1000));
      },
      "time from a notice to the kill: saves at once, goes on, and saves again before its end")
      ->type_name("SECONDS")
      ->check(between(0.0, 1e6));
  add_library_option<std::string>(
      "--writer",
      [](Settings& s, const std::string& v) {
        s.manager.writer = v == "mpio" ? reprieve::WriterKind::mpio : reprieve::WriterKind::direct;
      },
      "how checkpoints are written")
      ->check(CLI::IsMember({"direct", "mpio"}));
  add_library_option<std::string>(
      "--log-level", [](Settings& s, const std::string& v) { s.log.level = v; },
      "how much the library logs on the chief: off, error, warning, info or debug");
}

void CommandLine::add_common_options(ProgramOptions& options) {
  add_library_options();
  const auto delay = [&options](std::int64_t ms) { options.step_delay = std::chrono::milliseconds(ms); };
  app_.add_option_function<std::int64_t>("--step-delay-ms", delay, "sleep in every step; changes nothing else")
      ->check(between(std::int64_t{0}, std::int64_t{3'600'000}))
      ->group(kForTests);
}

void CommandLine::parse(int argc, const char* const* argv, ProgramOptions& options) {
  options.answer = parse_or_answer(argc, argv);
  if (options.answer.empty()) {
    options.settings = library_settings();
  }
}

/// @return empty, or what is to be shown instead of running the program
std::string CommandLine::parse_or_answer(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app_.help() + "\n";
  } catch (const CLI::CallForVersion&) {
    return app_.get_name() + " of " + to_text(reprieve::version_details());
  } catch (const CLI::ParseError& error) {
    throw reprieve::ConfigError(std::string(error.what()) + " (see " + app_.get_name() + " --help)");
  }
  return {};
}

/// Defaults, then the file, then the environment, then the command line.
reprieve::Settings CommandLine::library_settings() const {
  const CLI::Option* const file = app_.get_config_ptr();
  reprieve::Settings settings =
      file->count() > 0 ? reprieve::settings_from_file(file->as<std::string>(), {section_}) : reprieve::Settings{};
  reprieve::apply_environment(settings);
  for (const auto& override_setting : overrides_) {
    override_setting(settings);
  }
  if (settings.directory.empty()) {
    settings.directory = "checkpoints";
  }
  return settings;
}

}  // namespace apps
