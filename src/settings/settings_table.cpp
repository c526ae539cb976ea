// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "settings/settings.hpp"
#include "termination/platform.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve {

namespace {

using Second = std::ratio<1>;

/// Exit codes that launchers use by themselves would start the job again after any failure.
constexpr int kLauncherCode = 110;

/// Signals that schedulers and people send to announce an end. Not SIGCONT, which launchers send during a tear-down,
/// nor those that report a crash.
core::Names<int> notice_signals() {
  core::Names<int> names;
  for (const int signal :
       {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGURG, SIGALRM, SIGXCPU, SIGPWR, SIGTSTP}) {
    names.emplace_back(termination::signal_name(signal), signal);
  }
  return names;
}

/// Each metadata server has the name of its platform.
core::Names<MetadataServer> metadata_servers() {
  core::Names<MetadataServer> names{{"none", MetadataServer::none}};
  for (const auto& row : termination::platforms()) {
    if (row.metadata != MetadataServer::none) {
      names.emplace_back(row.name, row.metadata);
    }
  }
  return names;
}

/// Of the rows of a table.
template <class T, class Row>
core::Names<T> names_in(std::span<const Row> rows, const T Row::*value) {
  core::Names<T> names;
  for (const Row& row : rows) {
    names.emplace_back(row.name, row.*value);
  }
  return names;
}

/// In seconds since 1970, as `date +%s` writes it.
core::Setting<TerminationConfig> end_time_setting() {
  using Time = std::chrono::system_clock::time_point;
  using std::chrono::seconds;
  return core::left_open(
      core::make_row(
          "end_time_s", "when the job will be ended, in seconds since 1970 (date +%s)",
          core::Rule{.kind = core::Rule::Kind::whole_number, .max = 4e9}, &TerminationConfig::end_time,
          [](Time time) { return core::Json(std::chrono::duration_cast<seconds>(time.time_since_epoch()).count()); },
          [](const core::Json& value) { return Time(seconds(value.get<std::int64_t>())); }),
      "what the batch system says");
}

/// They stand at the top, so that their variables are REPRIEVE_PLATFORM and REPRIEVE_DEVICE.
core::Table<TerminationConfig> platform_settings() {
  using C = TerminationConfig;
  const auto platforms = names_in(termination::platforms(), &termination::PlatformTraits::platform);
  const core::Names<Device> devices{{to_string(Device::cpu), Device::cpu}, {to_string(Device::gpu), Device::gpu}};
  return {core::left_open(core::choice("platform", &C::platform, platforms, "where the job runs"), "found out"),
          core::left_open(core::choice("device", &C::device, devices, "what the job computes on"), "found out")};
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
  using core::left_open;
  const auto optional_seconds = [](const char* name, auto member, const char* meaning, const char* otherwise) {
    return left_open(duration<Second>(name, member, {0, kYear}, meaning), otherwise);
  };
  return {
      core::own_for_each_rank(left_open(
          core::list_of_choices("signals", &C::signals, notice_signals(), "signals that are a termination notice"),
          "those of the platform")),
      left_open(
          core::whole_number("restart_code", &C::restart_code, {2, 125}, "exit code that means: saved, start me again",
                             {kLauncherCode}, {termination::kTerminatedCode}),
          "that of the platform"),
      optional_seconds("grace_period_s", &C::grace_period,
                       "time from a notice to the kill; with more than 0: save, train on, save again",
                       "that of the platform"),
      left_open(core::choice("metadata", &C::metadata, metadata_servers(),
                             "the metadata server that is asked whether the machine will be taken away"),
                "that of the platform"),
      core::choice("save_fn_mode", &C::save_fn_mode,
                   core::Names<SaveFnMode>{{"besides", SaveFnMode::besides}, {"instead", SaveFnMode::instead}},
                   "whether the save function adds files to the checkpoint or makes it"),
      core::flag("count_boundaries", &C::count_boundaries,
                 "save_checkpoint_if_preempted counts in total_run_calls, as run does"),
      core::flag("save_at_finish", &C::save_at_finish, "the end of the run saves its last step"),
      core::flag("preempt_file", &C::preempt_file,
                 "a file PREEMPT in the checkpoint directory is a notice, and a file SAVE asks for a checkpoint"),
      core::own_for_each_rank(end_time_setting()),  // rank 0's counts
      optional_seconds("end_lead_s", &C::end_lead, "how long before the end of the job the notice comes",
                       "the grace period, or else 120 s or a quarter of the time"),
      core::whole_number("total_steps", &C::total_steps, {0, 1e15},
                         "how many calls the run makes in all, for tools that tell when it ends; 0: not known"),
      core::whole_number("save_every_steps", &C::save_every_steps, {0, 1e15}, "checkpoint every so many calls; 0: off"),
      optional_seconds("save_every_s", &C::save_every, "checkpoint every so many seconds; 0: off",
                       "off with save_every_steps, else every ten minutes or less often, by the cost of a save"),
      core::whole_number("save_attempts", &C::save_attempts, {1, 1e9},
                         "how many periodic saves in a row may fail until that is an error; 1: the first is"),
      duration<Second>("poll_interval_s", &C::poll_interval, {0.001, 3600},
                       "how often the watcher function, the metadata server and the file are asked for"),
      core::choice(
          "agreement", &C::agreement,
          core::Names<Agreement>{
              {"auto", Agreement::automatic}, {"boundaries", Agreement::boundaries}, {"threads", Agreement::threads}},
          "where the ranks check for notices: at planned boundaries, or where a thread of each rank says; auto: by "
          "threads if MPI runs with MPI_THREAD_MULTIPLE"),
      duration<Second>("peer_timeout_s", &C::peer_timeout, {0.001, kYear},
                       "how long a rank waits for the others at a step boundary"),
      duration<Second>("error_timeout_s", &C::error_timeout, {0, kYear},
                       "how long a rank whose step failed waits for the others to receive the error"),
      optional_seconds("grace_margin_s", &C::grace_margin,
                       "safety margin between the expected end of the last save and the kill",
                       "3 where mpirun started the ranks, else 1"),
  };
}

core::Table<Settings> all_settings() {
  core::Table<Settings> table{
      core::text("directory", &Settings::directory, "directory of the checkpoints; empty: the application decides")};
  core::append_section(table, "", &Settings::termination, platform_settings());
  core::append_section(table, "termination", &Settings::termination, termination_settings());
  core::append_section(table, "checkpoints", &Settings::manager, manager_settings());
  core::append_section(table, "log", &Settings::log, log_settings());
  return table;
}

std::span<const FormerSetting> former_settings() {
  static constexpr std::array<FormerSetting, 8> kFormer{{
      {"termination.check_interval_ms", "gone: ranks check as often as 1 % of the time of their steps allows"},
      {"checkpoints.background_memory_bytes", "gone: a copy is made where the memory of the node has room for it"},
      {"checkpoints.restart_finished", "gone: a finished run can be started again"},
      {"checkpoints.near_directory", "its name is local_directory now"},
      {"checkpoints.near_every_s", "its name is local_every_s now"},
      {"checkpoints.near_partner", "its name is local_partner now"},
      {"checkpoints.near_domains", "its name is local_domains now"},
      {"checkpoints.near_rescue_after_s", "its name is emergency_save_after_s now"},
  }};
  return kFormer;
}

const FormerSetting* former_setting(std::string_view name) {
  for (const FormerSetting& former : former_settings()) {
    if (former.key == name || settings::variable_of(std::string(former.key)) == name) {
      return &former;
    }
  }
  return nullptr;
}

void validate(const TerminationConfig& config) { core::check_all(termination_settings(), config); }

// A prefix has at most 180 bytes: file systems allow names of 255, and number, time and suffixes take up to 60.
core::Table<ManagerOptions> manager_settings() {
  using core::duration;
  using O = ManagerOptions;
  const auto writers = names_in(std::span<const detail::WriterTraits>(detail::kWriters), &detail::WriterTraits::kind);
  return {
      // A program that looks for other files than it has written would begin at zero.
      core::only_in_code(core::text("prefix", &O::prefix, "checkpoint files are called <prefix>-<number>.h5",
                                    R"([^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,179})",
                                    "1 to 180 characters, without / and control characters, not beginning with a dot")),
      core::whole_number("max_to_keep", &O::max_to_keep, {0, 1e9}, "newest checkpoints to keep; 0: all"),
      duration<Second>("keep_every_s", &O::keep_every, {0, kYear},
                       "beyond max_to_keep, keep one checkpoint for every such span of time; 0: off"),
      core::choice("writer", &O::writer, writers,
                   "how the data reach the file: each rank by itself, or collectively through MPI-IO"),
      core::choice("io", &O::io,
                   {{"auto", FileIo::automatic}, {"page_cache", FileIo::page_cache}, {"direct", FileIo::direct}},
                   "how the direct writer hands bytes to the file system; what it cannot do is replaced by something "
                   "simpler"),
      core::choice("compress", &O::compress,
                   {{"none", Compression::none}, {"lz4", Compression::lz4}, {"zstd", Compression::zstd}},
                   "compress large arrays while the disk is busy, by the direct writer; for disks that are slower than "
                   "the processors"),
      core::flag("durable", &O::durable, "fsync before the commit; without it a power cut can lose checkpoints"),
      core::flag("background", &O::background, "write periodic and requested checkpoints while the program continues"),
      core::choice("background_busy", &O::background_busy,
                   {{"wait", BackgroundBusy::wait}, {"skip", BackgroundBusy::skip}},
                   "what to do with such a save while the one before is still being written"),
      core::text("local_directory", &O::local_directory,
                 "where each node keeps copies of the state for a start after a crash, mostly /dev/shm; empty: none",
                 R"((/.*)?)", "an absolute path, or nothing"),
      duration<Second>("local_every_s", &O::local_every, {0.001, kYear}, "how often such a copy is taken"),
      core::flag("local_partner", &O::local_partner, "keep each part of such a copy on another host as well"),
      core::text("local_domains", &O::local_domains,
                 "a file with lines `<host> <domain>`: partners lie in different domains, such as racks", R"((/.*)?)",
                 "an absolute path, or nothing"),
      duration<Second>("emergency_save_after_s", &O::emergency_save_after, {0, kYear},
                       "how long a notice stands without a save before each rank brings its node-local copy into the "
                       "directory by itself"),
      core::flag("recycle", &O::recycle, "write over the file of the checkpoint that was retired last"),
      core::flag("reserve", &O::reserve, "take the space for the next checkpoint in advance"),
      core::flag("array_task_is_constant", &O::array_task_is_constant,
                 "inside of a Slurm array, a task does not resume from the state of another one"),
      core::flag("verify_on_restore", &O::verify_on_restore, "verify the checksums of what is restored"),
      core::flag("event_log", &O::event_log, "write events.jsonl in the directory"),
      duration<Second>("lock_timeout_s", &O::lock_timeout, {0, kYear},
                       "how long to wait for a run that still holds the directory"),
      duration<Second>("io_timeout_s", &O::io_timeout, {0.001, kYear},
                       "how long a rank waits for the others in one stage of a save or a restore"),
  };
}

void validate(const ManagerOptions& options) {
  core::check_all(manager_settings(), options);
  // What need not be durable goes to the page cache.
  const bool in_page_cache = options.io == FileIo::page_cache || (options.io == FileIo::automatic && !options.durable);
  if (options.compress != Compression::none && (options.writer != WriterKind::direct || in_page_cache)) {
    throw ConfigError(
        "only the direct writer compresses, and not into the page cache: set writer and io to direct, or compress to "
        "none");
  }
  for (const detail::WriterTraits& writer : detail::kWriters) {
    if (options.background && options.writer == writer.kind && !writer.in_background) {
      throw ConfigError(std::string("the ") + writer.name +
                        " writer does not write in the background: set writer to direct, or background to false");
    }
  }
}

}  // namespace reprieve
