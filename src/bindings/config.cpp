// SPDX-License-Identifier: BSD-3-Clause
// Settings: reprieve_config_...

#include <algorithm>

#include "bindings/handles.hpp"
#include "reprieve/error.hpp"
#include "settings/settings.hpp"

namespace reprieve::bindings {
namespace {

/// For the text of a watcher function, with the zero at its end.
constexpr std::size_t kMessageSize = 1024;

template <class Operation>
int configuring(reprieve_config* config, Operation&& operation) {
  if (config == nullptr) {
    return guarded([] { reject_null("config"); });
  }
  return guarded_and_kept(config->first_failure, [&] { operation(config->settings); });
}

/// Makes @p call the function of the settings; none if that of the program is null.
template <class Part, class Member, class Function, class Call>
int set_function(reprieve_config* config, Part Settings::*part, Member Part::*member, Function function, Call call) {
  return configuring(config, [&](Settings& settings) {
    settings.*part.*member = function == nullptr ? Member() : Member(std::move(call));
  });
}

template <class Member, class Function, class Call>
int set_function(reprieve_config* config, Member TerminationConfig::*member, Function function, Call call) {
  return set_function(config, &Settings::termination, member, function, std::move(call));
}

/// Takes over @p read, but for the functions, which no text can hold.
void replace(Settings& settings, Settings read) {
  read.termination.termination_watcher_fn = std::move(settings.termination.termination_watcher_fn);
  read.termination.exit_fn = std::move(settings.termination.exit_fn);
  read.termination.save_fn = std::move(settings.termination.save_fn);
  read.termination.return_when_saved = settings.termination.return_when_saved;
  read.termination.step_fn = std::move(settings.termination.step_fn);
  read.termination.abort_fn = std::move(settings.termination.abort_fn);
  read.manager.after_commit = std::move(settings.manager.after_commit);
  read.manager.read_environment = settings.manager.read_environment;
  settings = std::move(read);
}

void set_one(Settings& settings, const std::string& key, const std::string& text) {
  const auto table = all_settings();
  const auto row = std::ranges::find_if(table, [&](const auto& each) { return each.key == key; });
  core::Problems problems;
  if (const FormerSetting* const former = former_setting(key)) {
    problems.add(key, std::string(former->fate));
  } else if (row == table.end()) {
    problems.add_unknown(key, core::keys_of(table), core::keys_of(table));
  } else if (const core::Json value = core::value_from_text(row->rule, text); problems.check(key, row->rule, value)) {
    row->set(settings, value);
  }
  problems.throw_if_any();
}

ExitFn exit_function(int way) {
  switch (way) {
    case REPRIEVE_EXIT_DEFAULT:
    case REPRIEVE_EXIT_LATER:
      return {};
    case REPRIEVE_EXIT_LEAVE:
      return leave_together;
    case REPRIEVE_EXIT_HOLD:
      return hold_until_taken;
    case REPRIEVE_EXIT_RETURN:
      return throw_preempted;
    default:
      throw UsageError("there is no way to leave number " + std::to_string(way) +
                       ": pass REPRIEVE_EXIT_DEFAULT, _LEAVE, _HOLD, _RETURN or _LATER");
  }
}

WatchResult ask(reprieve_watcher_fn watcher, void* user) {
  std::string message(kMessageSize, '\0');
  double time_left_s = -1;
  WatchResult result;
  result.notice = watcher(message.data(), message.size(), &time_left_s, user) != 0;
  result.message = message.substr(0, message.find('\0'));
  if (time_left_s >= 0) {
    result.time_left = std::chrono::milliseconds(static_cast<std::int64_t>(std::min(time_left_s, 1e9) * 1000));
  }
  return result;
}

}  // namespace
}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_config_create(reprieve_config** config) {
  return guarded([&] {
    result_at(config, "config") = nullptr;
    *config = std::make_unique<reprieve_config>().release();
  });
}

int reprieve_config_destroy(reprieve_config** config) {
  return guarded(
      [&] { const std::unique_ptr<reprieve_config> owner(std::exchange(result_at(config, "config"), nullptr)); });
}

int reprieve_config_load_file(reprieve_config* config, const char* path) {
  return configuring(config,
                     [&](Settings& settings) { replace(settings, settings_from_file(checked_text(path, "path"))); });
}

int reprieve_config_load_json(reprieve_config* config, const char* json) {
  return configuring(
      config, [&](Settings& settings) { replace(settings, settings_from_json(checked_text(json, "JSON text"))); });
}

int reprieve_config_set(reprieve_config* config, const char* key, const char* value) {
  return configuring(
      config, [&](Settings& settings) { set_one(settings, checked_text(key, "key"), checked_text(value, "value")); });
}

int reprieve_config_apply_environment(reprieve_config* config) {
  return configuring(config, [](Settings& settings) { apply_environment(settings); });
}

int reprieve_config_read_environment(reprieve_config* config, int read) {
  return configuring(config, [read](Settings& settings) { settings.manager.read_environment = read != 0; });
}

const char* reprieve_config_json(reprieve_config* config) {
  const char* text = nullptr;
  static_cast<void>(guarded([&] {
    reprieve_config& handle = checked(config, "config");
    handle.json = to_json(handle.settings);
    text = handle.json.c_str();
  }));
  return text;
}

int reprieve_config_set_exit(reprieve_config* config, int way) {
  return configuring(config, [&](Settings& settings) {
    settings.termination.exit_fn = exit_function(way);
    settings.termination.return_when_saved = way == REPRIEVE_EXIT_LATER;
  });
}

int reprieve_config_set_exit_fn(reprieve_config* config, reprieve_exit_fn exit, void* user) {
  return set_function(config, &TerminationConfig::exit_fn, exit, [exit, user](const ExitContext& context) {
    check_callback("the exit function",
                   [&] { return exit(context.comm, context.exit_code, context.checkpoint.c_str(), user); });
  });
}

int reprieve_config_set_save_fn(reprieve_config* config, reprieve_save_files_fn save, void* user) {
  return set_function(config, &TerminationConfig::save_fn, save, [save, user](const SaveFnContext& context) {
    check_callback("the save function", [&] {
      return save(context.write_directory.c_str(), context.number, context.is_chief ? 1 : 0, user);
    });
  });
}

int reprieve_config_set_step_fn(reprieve_config* config, reprieve_step_fn step, void* user) {
  return set_function(config, &TerminationConfig::step_fn, step, [step, user] { return step(user); });
}

int reprieve_config_set_watcher_fn(reprieve_config* config, reprieve_watcher_fn watcher, void* user) {
  return set_function(config, &TerminationConfig::termination_watcher_fn, watcher,
                      [watcher, user] { return ask(watcher, user); });
}

int reprieve_config_set_abort_fn(reprieve_config* config, reprieve_abort_fn abort_job, void* user) {
  return set_function(config, &TerminationConfig::abort_fn, abort_job,
                      [abort_job, user](MPI_Comm comm, int code) { abort_job(comm, code, user); });
}

int reprieve_config_set_after_commit_fn(reprieve_config* config, reprieve_after_commit_fn after_commit, void* user) {
  return set_function(config, &Settings::manager, &ManagerOptions::after_commit, after_commit,
                      [after_commit, user](const std::filesystem::path& file) {
                        check_callback("it", [&] { return after_commit(file.c_str(), user); });
                      });
}

}  // extern "C"
