// SPDX-License-Identifier: BSD-3-Clause
#include "manager/outside.hpp"

#include <mutex>
#include <optional>

#include "cluster/json_exchange.hpp"
#include "core/log.hpp"
#include "settings/environment.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;
using core::Json;

/// Whether @p directory is the first one that this process asks for.
bool is_the_first(const fs::path& directory) {
  static std::mutex mutex;
  static std::optional<fs::path> first;  // NOLINT: what came first cannot be found out again
  const std::lock_guard lock(mutex);
  if (!first) {
    first = directory.lexically_normal();
  }
  return *first == directory.lexically_normal();
}

/// What a power cut or a bad disk can do now is no longer what the program was written for.
void warn_of_less_safety(const Json& values, const ManagerOptions& options) {
  const auto switched_off = [&](const char* key, bool in_code) {
    return in_code && values.contains(key) && !values[key].get<bool>();
  };
  if (switched_off("checkpoints.durable", options.durable)) {
    core::log::warning("{}=false: a power cut can lose checkpoints that were reported as saved",
                       settings::variable_of("checkpoints.durable"));
  }
  if (switched_off("checkpoints.verify_on_restore", options.verify_on_restore)) {
    core::log::warning("{}=false: damaged checkpoints are restored without a word",
                       settings::variable_of("checkpoints.verify_on_restore"));
  }
}

/// The chief's.
Json read_environment(const fs::path& directory, const ManagerOptions& options) {
  settings::FromEnvironment found = settings::read(settings::own_variables());
  if (!found.unknown.empty()) {
    core::log::warning("{}", settings::unknown_variables_text(found.unknown));
  }
  if (const auto named = found.values.find("directory"); named != found.values.end() && !is_the_first(directory)) {
    core::log::warning("REPRIEVE_DIRECTORY={} is for the first checkpoint directory of the program: {} stays as it is",
                       named->get<std::string>(), directory.string());
    found.values.erase("directory");
  }
  if (!found.values.empty()) {
    core::log::info("settings of the environment: {}", found.values.dump());
  }
  warn_of_less_safety(found.values, options);
  return found.values;
}

}  // namespace

Json agree_on_environment(cluster::Communicator& comm, const fs::path& directory, const ManagerOptions& options) {
  constexpr const char* what = "reading the environment";
  Json values = Json::object();
  comm.on_chief(
      [&] {
        if (options.read_environment) {
          values = read_environment(directory, options);
        }
      },
      what);
  values = cluster::broadcast(comm, values, 0, what);
  if (values.contains("log.level") || values.contains("log.other_ranks")) {
    Settings settings;
    settings::apply(values, settings);
    const bool is_set = values.contains(comm.is_chief() ? "log.level" : "log.other_ranks");
    if (is_set) {
      configure_logging(settings.log, comm.is_chief());
    }
  }
  return values;
}

ManagerOptions in_environment(ManagerOptions options, const Json& environment) {
  Settings settings;
  settings.manager = std::move(options);
  settings::apply(environment, settings);
  return std::move(settings.manager);
}

fs::path in_environment(const fs::path& directory, const Json& environment) {
  const auto named = environment.find("directory");
  return named == environment.end() ? directory : fs::path(named->get<std::string>());
}

}  // namespace reprieve::manager
