// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The subcommands. Each defines its options on the application and, when it is the one that the user chose, runs and
/// leaves its exit code.

#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reprieve::tool {

/// Exit codes, the same for every subcommand.
enum ExitCode : int {
  kGood = 0,     ///< done; valid; equal
  kBad = 1,      ///< corrupt; different; not safe
  kTrouble = 2,  ///< wrong usage, or something could not be read
};

/// How long another program's answer is waited for.
inline constexpr std::chrono::seconds kAnswerLimit{5};

// Each subcommand has a namespace of its own: they have options and functions of the same names.
namespace status_command {
void add(CLI::App& app, int& exit_code);
}
namespace report_command {
void add(CLI::App& app, int& exit_code);
}
namespace ls_command {
void add(CLI::App& app, int& exit_code);
}
namespace show_command {
void add(CLI::App& app, int& exit_code);
}
namespace verify_command {
void add(CLI::App& app, int& exit_code);
}
namespace diff_command {
void add(CLI::App& app, int& exit_code);
}
namespace prune_command {
void add(CLI::App& app, int& exit_code);
}
namespace unquarantine_command {
void add(CLI::App& app, int& exit_code);
}
namespace drain_command {
void add(CLI::App& app, int& exit_code);
}
namespace xdmf_command {
void add(CLI::App& app, int& exit_code);
}
/// @param program  what stands behind the `--` of the command line; must outlive the parsing
namespace run_command {
void add(CLI::App& app, int& exit_code, const std::vector<std::string>& program);
}
namespace drill_command {
void add(CLI::App& app, int& exit_code, const std::vector<std::string>& program);
}
namespace doctor_command {
void add(CLI::App& app, int& exit_code);
}
namespace advise_command {
void add(CLI::App& app, int& exit_code);
}
namespace launch_agent_command {
void add(CLI::App& app, int& exit_code);
}
namespace sbatch_template_command {
void add(CLI::App& app, int& exit_code);
}

/// Takes a time with a unit into @p seconds: "90", "90s", "5m", "2h".
CLI::Option* add_duration(CLI::App& command, const char* name, double& seconds, const std::string& meaning);

/// An option whose value is one of the names in @p values. A wrong name is told with those that there are.
template <class Value>
CLI::Option* add_choice(CLI::App& command, const char* name, Value& value, std::map<std::string, Value> values,
                        const std::string& meaning) {
  std::string names;
  std::string choice;  // as completion in the shells expects it
  for (const auto& [each, unused] : values) {
    names += (names.empty() ? "" : ", ") + each;
    choice += (choice.empty() ? "" : "|") + each;
  }
  const auto read = [&value, values = std::move(values), names](const std::vector<std::string>& words) {
    const auto found = values.find(words.front());
    if (found == values.end()) {
      throw CLI::ValidationError("found \"" + words.front() + "\"; allowed: " + names);
    }
    value = found->second;
    return true;
  };
  return command.add_option(name, read, meaning)->type_name(choice);
}

/// The usage line of a command that runs a program shows that too: "reprieve run [OPTIONS] -- COMMAND...".
void show_program_in_usage(CLI::App& command);

/// @throws UsageError unless there is a program, and nothing else that is no option
/// @param usage  "reprieve run [options] -- mpirun -n 4 ./program"
void require_program(const std::vector<std::string>& program, const std::vector<std::string>& strays,
                     const char* usage);

/// Makes a subcommand whose @p options are bound by @p define and which runs @p run with them.
template <class Options>
void add_command(CLI::App& app, int& exit_code, const char* name, const char* summary, const char* footer,
                 void (*define)(CLI::App&, Options&), int (*run)(const Options&)) {
  CLI::App* command = app.add_subcommand(name, summary);
  command->footer(footer);
  // The options live as long as the callback, which CLI11 keeps.
  auto options = std::make_shared<Options>();
  define(*command, *options);
  command->callback([options, run, &exit_code] { exit_code = run(*options); });
}

}  // namespace reprieve::tool
