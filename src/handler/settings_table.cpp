#include "core/log.hpp"
#include "handler/settings_check.hpp"
#include "manager/manager_settings.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve {
namespace {

using core::OrderedJson;
using core::Table;

constexpr double kYear = 31'536'000;
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

Table<LogOptions> log_settings() {
  core::Names<std::string> levels;
  for (const auto level : core::log::kLevelNames) {
    levels.emplace_back(level, level);
  }
  return {core::choice("level", &LogOptions::level, levels, "how much rank 0 logs"),
          core::choice("other_ranks", &LogOptions::other_ranks, levels, "how much each other rank logs")};
}

}  // namespace

Table<TerminationConfig> termination_settings() {
  using core::duration;
  using C = TerminationConfig;
  return {
      core::list_of_choices("signals", &C::signals, notice_signals(), "signals that are a termination notice"),
      core::whole_number("restart_code", &C::restart_code, {2, 125}, "exit code that means: saved, start me again",
                         {kLauncherCode}),
      duration<Second>("grace_period_s", &C::grace_period, {0, kYear},
                       "time from a notice to the kill; with more than 0: save, train on, save again"),
      core::whole_number("save_every_steps", &C::save_every_steps, {0, 1e15}, "checkpoint every so many calls; 0: off"),
      duration<Second>("save_every_s", &C::save_every, {0, kYear}, "checkpoint every so many seconds; 0: off"),
      duration<Second>("poll_interval_s", &C::poll_interval, {0.001, 3600}, "how often the watcher function is asked"),
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

Table<Settings> all_settings() {
  Table<Settings> table{
      core::text("directory", &Settings::directory, "directory of the checkpoints; empty: the application decides")};
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
