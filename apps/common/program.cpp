// SPDX-License-Identifier: BSD-3-Clause
#include "common/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <reprieve/error.hpp>
#include <reprieve/version.hpp>
#include <reprieve/version_details.hpp>
#include <system_error>

namespace apps {

namespace {

using PlainJson = nlohmann::json;  // the summaries are in order

std::string option_name(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

std::string key_name(std::string option) {
  std::replace(option.begin(), option.end(), '-', '_');
  return option;
}

bool is_number_option(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
}

bool fits(const CLI::Option& option, const PlainJson& value) {
  if (value.is_array()) {
    const bool takes_many = option.get_items_expected_max() > 1;
    return takes_many && std::all_of(value.begin(), value.end(),
                                     [&](const PlainJson& item) { return !item.is_array() && fits(option, item); });
  }
  return is_number_option(option) ? value.is_number() : value.is_string();
}

std::string expected_type(const CLI::Option& option) {
  const std::string type = is_number_option(option) ? "a number" : "a string";
  return option.get_items_expected_max() > 1 ? type + " or an array of them" : type;
}

std::string configurable_keys(const CLI::App& app) {
  std::string keys;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_configurable(); })) {
    keys += (keys.empty() ? "" : ", ") + key_name(option->get_single_name());
  }
  return keys;
}

/// Reads the section `name` of a JSON file: the keys are the long option names, with `_` for `-`. Strict: an unknown
/// key or a value of another type than the option's is an error that names the key and what is allowed. The other
/// sections are left to their owners.
class JsonSection : public CLI::Config {
 public:
  /// @param app  outlives this
  JsonSection(const CLI::App& app, std::string name) : app_(&app), name_(std::move(name)) {}

  /// Nobody has one written.
  [[nodiscard]] std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }
  [[nodiscard]] std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const PlainJson document = PlainJson::parse(input, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/false);
    // A document that is no JSON object is reported by whoever reads the other sections.
    const auto section = document.is_object() ? document.find(name_) : document.end();
    if (!document.is_object() || section == document.end()) {
      return {};
    }
    if (!section->is_object()) {
      throw reprieve::ConfigError("\"" + name_ + "\" must be an object");
    }
    std::vector<CLI::ConfigItem> result;
    for (const auto& [key, value] : section->items()) {
      const CLI::Option& option = find_option(key);
      if (!fits(option, value)) {
        throw reprieve::ConfigError("\"" + name_ + "." + key + "\" must be " + expected_type(option) + ", not " +
                                    value.dump());
      }
      CLI::ConfigItem item;
      item.name = option_name(key);
      for (const PlainJson& each : value.is_array() ? value : PlainJson::array({value})) {
        item.inputs.push_back(each.is_string() ? each.get<std::string>() : each.dump());
      }
      result.push_back(std::move(item));
    }
    return result;
  }

 private:
  [[nodiscard]] const CLI::Option& find_option(const std::string& key) const {
    const CLI::Option* const option = app_->get_option_no_throw("--" + option_name(key));
    if (option == nullptr || !option->get_configurable() || key != key_name(key)) {
      throw reprieve::ConfigError("unknown key \"" + key + "\" in section \"" + name_ +
                                  "\"; allowed are: " + configurable_keys(*app_));
    }
    return *option;
  }

  const CLI::App* app_;
  std::string name_;
};

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

/// Whether every rank got the same error, so that all can leave in order, and one of them speaks for all.
bool is_shared(const reprieve::Error& error) {
  using reprieve::ErrorCode;
  return error.code() != ErrorCode::mpi && error.code() != ErrorCode::unresponsive &&
         error.code() != ErrorCode::internal;
}

/// Ranks are missing or do not know of the error: waiting for them in MPI_Finalize could take for ever.
[[noreturn]] void abort_with(const char* name, const std::string& message) {
  std::cerr << name << ": " << message << std::endl;
  reprieve::abort_job(MPI_COMM_WORLD, kExitError);
  std::terminate();  // not reached
}

int run_and_report(const char* name, int argc, char** argv, RunFunction run) {
  try {
    return run(argc, argv, MPI_COMM_WORLD);
  } catch (const reprieve::Error& error) {
    if (!is_shared(error)) {
      abort_with(name, error.what());
    }
    int rank = 0;
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0) {
      std::cerr << name << ": " << error.what() << std::endl;
    }
    return error.code() == reprieve::ErrorCode::config ? kExitUsage : kExitError;
  } catch (const std::exception& error) {
    abort_with(name, error.what());
  }
}

}  // namespace

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
      "time from a notice to the kill: saves at once, continues, and saves again before its end")
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
      "how much the library logs on rank 0: off, error, warning, info or debug");
}

void CommandLine::add_common_options(ProgramOptions& options) {
  app_.add_option("--summary", options.summary, "write the result to this JSON file, finished or preempted")
      ->type_name("FILE");
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

/// @return empty, or the text to show instead of running the program
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

std::string ranks_text(int count) { return fmt::format("{} rank{}", count, count == 1 ? "" : "s"); }

std::string format_duration(std::chrono::duration<double> duration) {
  constexpr double kTenthsMatter = 9.95;
  if (duration.count() < kTenthsMatter) {
    return fmt::format("{:.1f} s", duration.count());
  }
  const auto total = std::llround(duration.count());
  const auto hours = total / 3600;
  const auto minutes = total / 60 % 60;
  if (hours > 0) {
    return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  }
  return minutes > 0 ? fmt::format("{}:{:02}", minutes, total % 60) : fmt::format("{} s", total);
}

Json to_json(const Preemption& preemption) {
  return {{"rank", preemption.notice.rank},
          {"host", preemption.notice.host},
          {"source", preemption.notice.source},
          {"save_step", preemption.save_step},
          {"seconds_from_notice_to_commit", preemption.seconds_from_notice_to_commit},
          {"checkpoint", preemption.checkpoint}};
}

std::string resumed_text(const reprieve::CheckpointInfo& from) {
  return fmt::format("resumed from {}, saved by {} ({}): ", from.path.filename().string(), ranks_text(from.world_size),
                     to_string(from.reason.kind));
}

void print(const Preemption& preemption, int exit_code) {
  std::cout << fmt::format(
                   "preempted: {} on rank {} ({})\n"
                   "saved {} at step {}, {:.1f} ms after the notice; leaving with code {} (the same command continues "
                   "from here)",
                   preemption.notice.source, preemption.notice.rank, preemption.notice.host,
                   std::filesystem::path(preemption.checkpoint).filename().string(), preemption.save_step,
                   1000 * preemption.seconds_from_notice_to_commit, exit_code)
            << std::endl;
}

std::string text_of(const Json& summary) { return summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

void write_summary(const Json& summary, const std::filesystem::path& file) {
  const std::filesystem::path temporary = file.string() + ".tmp";
  errno = 0;
  std::ofstream output(temporary);
  output << text_of(summary);
  output.close();
  if (!output) {
    throw reprieve::StorageError(reprieve::ErrorCode::io,
                                 "cannot write the summary " + temporary.string() + ": " + std::strerror(errno));
  }
  std::error_code error;
  std::filesystem::rename(temporary, file, error);
  if (error) {
    throw reprieve::StorageError(reprieve::ErrorCode::io,
                                 "cannot rename the summary to " + file.string() + ": " + error.message());
  }
}

bool read_options(const Ranks& ranks, ProgramOptions& options, const std::function<void()>& parse) {
  ranks.on_every_rank([&] {
    parse();
    if (options.answer.empty()) {
      reprieve::configure_logging(options.settings.log, ranks.is_rank_0());
    }
  });
  if (ranks.is_rank_0()) {
    std::cout << options.answer << std::flush;
  }
  return options.answer.empty();
}

int run_program(const char* name, int argc, char** argv, RunFunction run) {
  reprieve::watch_signals();  // before MPI_Init: a notice that comes while the program starts is kept
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
    std::cerr << name << ": MPI_Init failed" << std::endl;
    return kExitError;
  }
  const int exit_code = run_and_report(name, argc, argv, run);
  return MPI_Finalize() == MPI_SUCCESS ? exit_code : kExitError;
}

}  // namespace apps
