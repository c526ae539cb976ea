// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A command line that goes before the environment, which goes before a JSON file: for the program's own options and
/// for the library's settings.

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <reprieve/settings.hpp>
#include <string>
#include <vector>

namespace apps {

/// A group of options.
inline constexpr const char* kForTests = "For tests and demonstrations";

/// A range that is not repeated in the help, where the text says what matters.
template <class T>
CLI::Validator between(T least, T greatest) {
  return CLI::Range(least, greatest).description("");
}

/// The options that all step-by-step programs share.
struct ProgramOptions {
  std::string answer;  ///< not empty: this is shown instead of running the program (--help, --version)
  std::filesystem::path summary;
  std::chrono::milliseconds step_delay{0};

  /// Those of the library: command line over environment over file over defaults.
  reprieve::Settings settings;
};

/// The command line of one program. Its own options are added to `app()`, before `parse`.
class CommandLine {
 public:
  /// @param name  of the program
  /// @param section  of the settings file that holds the program's own options
  CommandLine(const std::string& description, std::string name, std::string section);

  [[nodiscard]] CLI::App& app() noexcept { return app_; }

  /// Adds the options that belong to the library, and the delay of steps.
  void add_common_options(ProgramOptions& options);

  /// Fills in what the options of all programs have in common, and what was bound to `app()`.
  /// @throws reprieve::ConfigError, reprieve::StorageError
  void parse(int argc, const char* const* argv, ProgramOptions& options);

 private:
  void add_library_options();
  std::string parse_or_answer(int argc, const char* const* argv);
  [[nodiscard]] reprieve::Settings library_settings() const;

  template <class T, class Apply>
  CLI::Option* add_library_option(const std::string& name, Apply apply, const std::string& help);

  CLI::App app_;
  std::string section_;
  std::vector<std::function<void(reprieve::Settings&)>> overrides_;
};

}  // namespace apps
