// SPDX-License-Identifier: BSD-3-Clause
#include "command.hpp"

#include "reprieve/error.hpp"

namespace reprieve::tool {

CLI::Option* add_duration(CLI::App& command, const char* name, std::function<void(double seconds)> take,
                          const std::string& meaning) {
  const std::map<std::string, double> units{{"ms", 0.001}, {"s", 1},    {"m", 60},
                                            {"min", 60},   {"h", 3600}, {"d", 86'400}};
  return command.add_option_function<double>(name, std::move(take), meaning)
      ->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_INSENSITIVE).description(""))
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->type_name("TIME");
}

void require_program(const CLI::App& command, const std::vector<std::string>& program) {
  const std::string usage = fmt::format("reprieve {} [options] -- mpirun -n 4 ./program", command.get_name());
  if (const auto strays = command.remaining(); !strays.empty()) {
    throw UsageError(fmt::format("{} is neither an option nor behind the --: {}", strays.front(), usage));
  }
  if (program.empty()) {
    throw UsageError(fmt::format("the program to run is missing behind the --: {}", usage));
  }
}

void show_program_in_usage(CLI::App& command) {
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

}  // namespace reprieve::tool
