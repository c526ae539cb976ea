// SPDX-License-Identifier: BSD-3-Clause
#include "settings/settings_table.hpp"

#include "core/log.hpp"
#include "settings/manager_settings.hpp"
#include "termination/platform_traits.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve {
namespace {

using core::OrderedJson;

using Second = std::ratio<1>;

/// Exit codes that launchers use by themselves would start the job again after any failure.
constexpr int kLauncherCode = 110;

/// Signals that schedulers and people send to announce an end. Not SIGCONT, which launchers send during a tear-down,
/// nor those that tell of a crash.
core::Names<int> notice_signals() {
  core::Names<int> names;
  for (const int signal :
       {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGURG, SIGALRM, SIGXCPU, SIGPWR, SIGTSTP}) {
    names.emplace_back(termination::signal_name(signal), signal);
  }
  return names;
}

/// Each has the name of its platform.
core::Names<MetadataServer> metadata_servers() {
  core::Names<MetadataServer> names{{"none", MetadataServer::none}};
  for (const auto& row : termination::platforms()) {
    if (row.metadata != MetadataServer::none) {
      names.emplace_back(row.name, row.metadata);
    }
  }
  return names;
}

core::Names<Platform> platform_names() {
  core::Names<Platform> names;
  for (const auto& row : termination::platforms()) {
    names.emplace_back(row.name, row.platform);
  }
  return names;
}

core::Names<Device> device_names() {
  return {{to_string(Device::cpu), Device::cpu}, {to_string(Device::gpu), Device::gpu}};
}

/// In seconds since 1970, as `date +%s` writes it.
core::Setting<TerminationConfig> end_time_setting() {
  using Time = std::chrono::system_clock::time_point;
  auto row = core::whole_number("end_time_s", &core::Holder<std::int64_t>::value, {0, 4e9},
                                "when the job will be ended, in seconds since 1970 (date +%s)");
  row.rule.open = "what the batch system says";
  return {
      row.key, row.meaning, row.rule,
      [](const TerminationConfig& config) {
        return config.end_time
                   ? core::Json(
                         std::chrono::duration_cast<std::chrono::seconds>(config.end_time->time_since_epoch()).count())
                   : core::Json();
      },
      [](TerminationConfig& config, const core::Json& value) {
        config.end_time =
            value.is_null() ? std::nullopt : std::optional(Time(std::chrono::seconds(value.get<std::int64_t>())));
      }};
}

/// They stand at the top, so that their variables are REPRIEVE_PLATFORM and REPRIEVE_DEVICE.
core::Table<TerminationConfig> platform_settings() {
  using C = TerminationConfig;
  using P = core::Holder<Platform>;
  using D = core::Holder<Device>;
  return {core::optional(&C::platform, core::choice("platform", &P::value, platform_names(), "where the job runs"),
                         "found out"),
          core::optional(&C::device, core::choice("device", &D::value, device_names(), "what the job computes on"),
                         "found out")};
}

core::Table<LogOptions> log_settings() {
  core::Names<std::string> levels;
  for (const auto level : core::log::kLevelNames) {
    levels.emplace_back(level, level);
  }
  return {core::choice("level", &LogOptions::level, levels, "how much rank 0 logs"),
          core::choice("other_ranks", &LogOptions::other_ranks, levels, "how much each other rank logs")};
}

}  // namespace

core::Table<TerminationConfig> termination_settings() {
  using core::duration;
  using C = TerminationConfig;
  using Milliseconds = core::Holder<std::chrono::milliseconds>;
  return {
      core::own_for_each_rank(
          core::optional(&C::signals,
                         core::list_of_choices("signals", &core::Holder<std::vector<int>>::value, notice_signals(),
                                               "signals that are a termination notice"),
                         "those of the platform")),
      core::optional(&C::restart_code,
                     core::whole_number("restart_code", &core::Holder<int>::value, {2, 125},
                                        "exit code that means: saved, start me again", {kLauncherCode},
                                        {termination::kTerminatedCode}),
                     "that of the platform"),
      core::optional(&C::grace_period,
                     duration<Second>("grace_period_s", &Milliseconds::value, {0, kYear},
                                      "time from a notice to the kill; with more than 0: save, train on, save again"),
                     "that of the platform"),
      core::optional(&C::metadata,
                     core::choice("metadata", &core::Holder<MetadataServer>::value, metadata_servers(),
                                  "the metadata server that is asked whether the machine will be taken away"),
                     "that of the platform"),
      core::choice("save_fn_mode", &C::save_fn_mode,
                   core::Names<SaveFnMode>{{"besides", SaveFnMode::besides}, {"instead", SaveFnMode::instead}},
                   "whether the save function adds files to the checkpoint or makes it"),
      core::flag("count_boundaries", &C::count_boundaries,
                 "save_checkpoint_if_preempted counts in total_run_calls, as run does"),
      core::flag("preempt_file", &C::preempt_file, "a file PREEMPT in the checkpoint directory is a notice"),
      core::own_for_each_rank(end_time_setting()),  // the chief's counts
      core::optional(&C::end_lead,
                     duration<Second>("end_lead_s", &Milliseconds::value, {0, kYear},
                                      "how long before the end of the job the notice comes"),
                     "the grace period, or else 120 s or a quarter of the time"),
      core::whole_number("total_steps", &C::total_steps, {0, 1e15},
                         "how many calls the run makes in all, for tools that tell when it ends; 0: not known"),
      core::whole_number("save_every_steps", &C::save_every_steps, {0, 1e15}, "checkpoint every so many calls; 0: off"),
      duration<Second>("save_every_s", &C::save_every, {0, kYear}, "checkpoint every so many seconds; 0: off"),
      duration<Second>("poll_interval_s", &C::poll_interval, {0.001, 3600},
                       "how often the watcher function, the metadata server and the file are asked for"),
      core::choice(
          "agreement", &C::agreement,
          core::Names<Agreement>{
              {"auto", Agreement::automatic}, {"boundaries", Agreement::boundaries}, {"threads", Agreement::threads}},
          "where the ranks check for notices: at planned boundaries, or where a thread of each rank says; auto: by "
          "threads if MPI runs with MPI_THREAD_MULTIPLE"),
      duration<std::milli>("check_interval_ms", &C::check_interval, {0, 60'000},
                           "longest time between two agreement checks while steps are short"),
      duration<Second>("peer_timeout_s", &C::peer_timeout, {0.001, kYear},
                       "how long a rank waits for the others at a step boundary"),
      duration<Second>("error_timeout_s", &C::error_timeout, {0, kYear},
                       "how long a rank whose step failed waits for the others to hear of it"),
      duration<Second>("grace_margin_s", &C::grace_margin, {0, kYear},
                       "safety margin between the expected end of the last save and the kill"),
  };
}

core::Table<Settings> all_settings() {
  core::Table<Settings> table{
      core::text("directory", &Settings::directory, "directory of the checkpoints; empty: the application decides")};
  for (const auto& row : platform_settings()) {
    table.push_back(
        {row.key, row.meaning, row.rule,
         [get = row.get](const Settings& settings) { return get(settings.termination); },
         [set = row.set](Settings& settings, const core::Json& value) { set(settings.termination, value); }});
  }
  core::append_section(table, "termination", &Settings::termination, termination_settings());
  core::append_section(table, "checkpoints", &Settings::manager, manager_settings());
  core::append_section(table, "log", &Settings::log, log_settings());
  return table;
}

OrderedJson settings_schema() {
  OrderedJson properties{{"$schema", {{"type", "string"}}}};
  const Settings defaults;
  for (const auto& row : all_settings()) {
    OrderedJson schema{{"description", row.meaning}};
    schema.update(core::schema_of(row.rule));
    schema["default"] = row.get(defaults);
    const auto dot = row.key.find('.');
    if (dot == std::string::npos) {
      properties[row.key] = schema;
      continue;
    }
    auto& section = properties[row.key.substr(0, dot)];
    if (section.is_null()) {
      section = {{"type", "object"}, {"additionalProperties", false}, {"properties", OrderedJson::object()}};
    }
    section["properties"][row.key.substr(dot + 1)] = schema;
  }
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "Settings of Reprieve"},
          {"description", "Other sections belong to the application that reads the file."},
          {"type", "object"},
          {"additionalProperties", {{"type", "object"}}},
          {"properties", properties}};
}

void validate(const TerminationConfig& config) { core::check_all(termination_settings(), config); }

}  // namespace reprieve
