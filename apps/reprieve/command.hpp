// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The subcommands. Each defines its options on the application and, when it is the one that the user chose, runs and
/// leaves its exit code.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reprieve/error.hpp"
#include "text.hpp"

namespace reprieve::tool {

/// Exit codes, the same for every subcommand but `run`, which has those of its program besides.
enum ExitCode : int {
  kGood = 0,     ///< done; valid; equal
  kBad = 1,      ///< a check has failed: corrupt (`verify`); different; not safe
  kTrouble = 2,  ///< wrong usage, not a checkpoint, unreadable, or the answer is not known
  kMissing = 3,  ///< there is no such file or directory, no checkpoint, or no run
  kLocked = 4,   ///< a run uses the directory
  kCorrupt = 5,  ///< a checkpoint that is needed is corrupt
};

/// What --help says of them; behind what 0 and 1 are for one command.
inline constexpr const char* kOtherExitCodes =
    "2 wrong usage, not a checkpoint, unreadable or not known, 3 missing, 4 a run uses the directory,\n5 corrupt.";

/// How long another program's answer is waited for.
inline constexpr std::chrono::seconds kAnswerLimit{5};

struct Tool {
  CLI::App& app;
  int& exit_code;
  const std::vector<std::string>& program;  ///< what stands behind the `--` of the command line
};

// Each subcommand has a namespace of its own: they have options and functions of the same names.
// clang-format off
namespace status_command { void add(const Tool& tool); }
namespace report_command { void add(const Tool& tool); }
namespace ls_command { void add(const Tool& tool); }
namespace show_command { void add(const Tool& tool); }
namespace export_command { void add(const Tool& tool); }
namespace verify_command { void add(const Tool& tool); }
namespace diff_command { void add(const Tool& tool); }
namespace prune_command { void add(const Tool& tool); }
namespace pin_command { void add(const Tool& tool); }
namespace request_command { void add(const Tool& tool); }
namespace log_command { void add(const Tool& tool); }
namespace rewind_command { void add(const Tool& tool); }
namespace unquarantine_command { void add(const Tool& tool); }
namespace drain_command { void add(const Tool& tool); }
namespace xdmf_command { void add(const Tool& tool); }
namespace run_command { void add(const Tool& tool); }
namespace drill_command { void add(const Tool& tool); }
namespace doctor_command { void add(const Tool& tool); }
namespace advise_command { void add(const Tool& tool); }
namespace launch_agent_command { void add(const Tool& tool); }
namespace sbatch_template_command { void add(const Tool& tool); }
// clang-format on

/// Gives @p take a time with a unit, in seconds: "90", "90s", "5m", "2h".
inline CLI::Option* add_duration(CLI::App& command, const char* name, std::function<void(double seconds)> take,
                                 const std::string& meaning) {
  const std::map<std::string, double> units{{"ms", 0.001}, {"s", 1},    {"m", 60},
                                            {"min", 60},   {"h", 3600}, {"d", 86'400}};
  return command.add_option_function<double>(name, std::move(take), meaning)
      ->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_INSENSITIVE).description(""))
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->type_name("TIME");
}

/// Takes a time with a unit into @p time, whose value is the default.
template <class Rep, class Period>
CLI::Option* add_duration(CLI::App& command, const char* name, std::chrono::duration<Rep, Period>& time,
                          const std::string& meaning) {
  using Time = std::chrono::duration<Rep, Period>;
  const auto take = [&time](double seconds) {
    time = std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
  };
  return add_duration(command, name, take, meaning)
      ->default_str(fmt::format("{:g}", std::chrono::duration<double>(time).count()));
}

/// The same in seconds; 0 is none.
inline CLI::Option* add_duration(CLI::App& command, const char* name, std::optional<double>& seconds,
                                 const std::string& meaning) {
  return add_duration(
      command, name, [&seconds](double value) { seconds = value > 0 ? std::optional(value) : std::nullopt; }, meaning);
}

/// For numbers from 0 on: without it CLI11 takes -1 for a very large one.
inline CLI::Validator not_negative() {
  return CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000'000'000'000'000}).description("");
}

/// The directory that a command looks at, or the directories. Where none is named, it is that in which the library
/// makes checkpoints, as its pages show it, or where the user has gone to.
template <class Directory>
CLI::Option* add_directory(CLI::App& command, Directory& directory, const std::string& meaning,
                           const char* name = "DIR") {
  std::error_code ignored;
  directory = Directory{std::filesystem::is_directory("checkpoints", ignored) ? "checkpoints" : "."};
  return command.add_option(name, directory, meaning + "; default: checkpoints if it is here, else this directory");
}

/// An option whose value is one of the names of an enum, which stand in its order. The error for a wrong name lists
/// them.
template <class Enum>
CLI::Option* add_choice(CLI::App& command, const char* name, Enum& value, const std::vector<std::string>& names,
                        const std::string& meaning) {
  const std::set<std::string> sorted(names.begin(), names.end());
  const auto read = [&value, names, sorted](const std::vector<std::string>& words) {
    const auto found = std::ranges::find(names, words.front());
    if (found == names.end()) {
      throw CLI::ValidationError(fmt::format("found \"{}\"; allowed: {}", words.front(), fmt::join(sorted, ", ")));
    }
    value = static_cast<Enum>(found - names.begin());
    return true;
  };
  return command.add_option(name, read, meaning)->type_name(fmt::format("{}", fmt::join(sorted, "|")));
}

/// Whether words that matter are coloured on standard output.
inline void add_color(CLI::App& command) {
  const auto take = [](const std::string& when) {
    if (when != "auto" && when != "always" && when != "never") {
      throw CLI::ValidationError("found \"" + when + "\"; allowed: always, auto, never");
    }
    set_color(when == "always", when == "never");
  };
  command
      .add_option_function<std::string>("--color", take, "Colours: on a terminal unless NO_COLOR is set (auto), or not")
      ->type_name("auto|always|never");
}

/// The usage line of a command that runs a program shows that too: "reprieve run [OPTIONS] -- COMMAND...".
inline void show_program_in_usage(CLI::App& command) {
  class WithProgram : public CLI::Formatter {
   public:
    std::string make_usage(const CLI::App* app, std::string name) const override {
      std::string usage = CLI::Formatter::make_usage(app, std::move(name));
      return usage.substr(0, usage.find_last_not_of('\n') + 1) + " -- COMMAND...\n";
    }
  };
  const auto formatter = std::make_shared<WithProgram>();
  formatter->column_width(command.get_formatter()->get_column_width());
  command.formatter(formatter);
}

/// @throws UsageError unless there is a program, and nothing else that is no option
inline void require_program(const CLI::App& command, const std::vector<std::string>& program) {
  const std::string usage = fmt::format("reprieve {} [options] -- mpirun -n 4 ./program", command.get_name());
  if (const auto strays = command.remaining(); !strays.empty()) {
    throw UsageError(fmt::format("{} is neither an option nor behind the --: {}", strays.front(), usage));
  }
  if (program.empty()) {
    throw UsageError(fmt::format("the program to run is missing behind the --: {}", usage));
  }
}

/// Makes a subcommand whose options are bound by @p define and which runs @p run with them. A command whose options
/// have `json` takes --json. One whose options have a `program` gets there what stands behind the `--`. A footer that
/// ends with a comma gets the codes of all.
template <class Options>
void add_command(const Tool& tool, const char* name, const char* summary, const char* footer,
                 void (*define)(CLI::App&, Options&), int (*run)(const Options&)) {
  CLI::App* command = tool.app.add_subcommand(name, summary);
  const std::string help = footer;
  command->footer(help.ends_with(',') ? help + '\n' + kOtherExitCodes : help);
  // The options live as long as the callback, which CLI11 keeps.
  auto options = std::make_shared<Options>();
  define(*command, *options);
  if constexpr (requires { options->json; }) {
    command->add_flag("--json", options->json, "Print JSON, for programs; its fields stay as they are");
  }
  if constexpr (requires { options->program; }) {
    show_program_in_usage(*command);
    command->allow_extras();  // for an error that says more than CLI11's
  }
  command->callback([command, options, run, tool] {
    [[maybe_unused]] CLI::App& parsed = *command;
    if constexpr (requires { options->program; }) {
      require_program(parsed, tool.program);
      options->program = tool.program;
    }
    tool.exit_code = run(*options);
  });
}

}  // namespace reprieve::tool
