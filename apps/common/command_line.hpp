#pragma once

/// @file
/// A command line that goes before the environment, which goes before a JSON file: for the program's own options and
/// for the library's settings.

#include <CLI/CLI.hpp>
#include <functional>
#include <reprieve/settings.hpp>
#include <string>
#include <vector>

namespace apps {

/// A range that is not repeated in the help, where the text says what matters.
template <class T>
CLI::Validator between(T least, T greatest) {
  return CLI::Range(least, greatest).description("");
}

/// The command line of one program. Its own options are added to `app()`, before `parse`.
class CommandLine {
 public:
  /// @param name  of the program
  /// @param section  of the settings file that holds the program's own options
  CommandLine(const std::string& description, std::string name, std::string section);

  [[nodiscard]] CLI::App& app() noexcept { return app_; }

  /// Adds the options that belong to the library.
  void add_library_options();

  /// @return empty, or what is to be shown instead of running the program (--help, --version)
  /// @throws reprieve::ConfigError
  std::string parse(int argc, const char* const* argv);

  /// The library's settings: defaults, then the file, then the environment, then the command line.
  /// @throws reprieve::ConfigError, reprieve::StorageError
  [[nodiscard]] reprieve::Settings library_settings() const;

 private:
  template <class T, class Apply>
  CLI::Option* add_library_option(const std::string& name, Apply apply, const std::string& help);

  CLI::App app_;
  std::string section_;
  std::vector<std::function<void(reprieve::Settings&)>> overrides_;
};

}  // namespace apps
