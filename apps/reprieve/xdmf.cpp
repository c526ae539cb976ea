// SPDX-License-Identifier: BSD-3-Clause
// reprieve xdmf DIR

#include "reprieve/xdmf.hpp"

#include <filesystem>
#include <iostream>

#include "command.hpp"
#include "files.hpp"
#include "text.hpp"

namespace reprieve::tool::xdmf_command {

namespace {

constexpr const char* kFooter =
    R"(Writes a side file with which ParaView, VisIt and others open the checkpoints of a directory directly, as a series in
time; no data are copied. It shows the distributed arrays of one to three dimensions, of integers and of float and
double, as values at the points of a regular grid. Write it anew when there are more checkpoints, or fewer.

Examples:
  reprieve xdmf checkpoints                                 checkpoints/checkpoints.xdmf; the time is the number
  reprieve xdmf checkpoints --time progress/time            the time is a replicated number in the state
  reprieve xdmf checkpoints --spacing 0.1,0.1,0.05          of the dimensions as h5dump shows them: z,y,x
  paraview checkpoints/checkpoints.xdmf                     choose one of the XDMF readers

Exit codes: 0 written, 2 unreadable directory, no such time variable, or wrong usage.)";

struct Options {
  std::filesystem::path directory;
  std::filesystem::path output;
  XdmfOptions xdmf;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("DIR", options.directory, "Directory of checkpoints")->required();
  command.add_option("--output", options.output, "The file to write (default: checkpoints.xdmf in DIR)")
      ->type_name("FILE");
  command.add_option("--time", options.xdmf.time_variable, "The variable that is the time (default: the number)")
      ->type_name("NAME");
  command
      .add_option("--origin", options.xdmf.origin, "Position of the first point, slowest dimension first (default: 0)")
      ->delimiter(',')
      ->type_name("Z,Y,X");
  command.add_option("--spacing", options.xdmf.spacing, "Distance of neighbours, slowest dimension first (default: 1)")
      ->delimiter(',')
      ->type_name("Z,Y,X");
  command.add_flag("--json", options.json, "Print JSON");
}

int run(const Options& options) {
  require_directory(options.directory);
  const std::filesystem::path file = options.output.empty() ? options.directory / "checkpoints.xdmf" : options.output;
  const XdmfReport report = write_xdmf(options.directory, file, options.xdmf);
  if (options.json) {
    print_json(std::cout, {{"file", file.string()}, {"checkpoints", report.checkpoints}, {"arrays", report.arrays}});
  } else {
    std::cout << printable(file.string()) << ": " << report.checkpoints << " checkpoints with " << report.arrays
              << " arrays\n";
  }
  return kGood;
}

}  // namespace

void add(CLI::App& app, int& exit_code) {
  add_command<Options>(app, exit_code, "xdmf", "Let ParaView open the checkpoints of a directory", kFooter, define,
                       run);
}

}  // namespace reprieve::tool::xdmf_command
