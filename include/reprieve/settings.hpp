// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// All settings as JSON and from the environment. Handlers and managers read the environment by themselves, and it goes
/// before what code and files say; only what code sets after `apply_environment` goes before the environment.

#include <filesystem>
#include <string>
#include <vector>

#include "reprieve/error.hpp"
#include "reprieve/export.h"
#include "reprieve/manager_options.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve {

/// How much is logged: "off", "error", "warning", "info" or "debug".
struct LogOptions {
  std::string level = "info";           ///< on rank 0
  std::string other_ranks = "warning";  ///< on the other ranks
};

/// Every setting of the library that can be written down. Functions (save_fn, exit_fn, ...) are set in code.
struct Settings {
  std::string directory;  ///< of the checkpoints; empty: the application decides
  TerminationConfig termination;
  ManagerOptions manager;
  LogOptions log;
};

/// Reads a JSON text. Strict: an unknown key, a wrong type or a value out of range is an error that names the key and
/// says what is allowed. The schema is configs/reprieve.schema.json.
/// @param foreign_sections  top-level keys that belong to the application and are passed over
/// @throws ConfigError
REPRIEVE_EXPORT Settings settings_from_json(const std::string& text,
                                            const std::vector<std::string>& foreign_sections = {});

/// Reads a JSON file, see `settings_from_json`.
/// @throws ConfigError, StorageError if it cannot be read
REPRIEVE_EXPORT Settings settings_from_file(const std::filesystem::path& file,
                                            const std::vector<std::string>& foreign_sections = {});

/// Overrides settings by environment variables: `REPRIEVE_` and the key in upper case with `_` between the section and
/// the name, as in `REPRIEVE_TERMINATION_GRACE_PERIOD_S=30`. An empty variable counts as not set. Only a program needs
/// it that wants to go before the environment with some settings (those of its command line, say): it reads this
/// process's environment now, and switches `settings.manager.read_environment` off, so that the handler does not read
/// it again. Variables that are no settings are logged.
/// @throws ConfigError  for a value that is not allowed, for a name that is almost that of a setting, and for what only
/// the program itself can set (the prefix of the files, functions)
REPRIEVE_EXPORT void apply_environment(Settings& settings);

/// The settings as JSON text, complete, so that a run can record what it used.
REPRIEVE_EXPORT std::string to_json(const Settings& settings);

/// Sets the log level of this process; `is_rank_0` picks between the two levels.
/// @throws ConfigError if a level is not known
REPRIEVE_EXPORT void configure_logging(const LogOptions& options, bool is_rank_0);

}  // namespace reprieve
