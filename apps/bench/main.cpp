// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "measure.hpp"
#include "reprieve/reprieve.hpp"

namespace {

constexpr const char* kDescription =
    R"(Measures Reprieve on this machine, beside the physical limit and other ways, in one run.

Examples:
  mpirun -n 2 reprieve-bench step
  mpirun -n 2 reprieve-bench --json step --steps-us 10 1000 > step.json
  mpirun -n 2 reprieve-bench save --directory /scratch/me --sizes-mib 512
  mpirun -n 4 reprieve-bench restore --directory /scratch/me --saved-by 2 --ranks 4
  mpirun -n 2 reprieve-bench local
  mpirun -n 16 --oversubscribe reprieve-bench scale
  mpirun -n 1 reprieve-bench scale --pretend-ranks 1000 10000 --variables 10

Candidates are interleaved, after a warm-up; medians and quartiles are printed.)";

int run(int argc, char** argv) {
  CLI::App app(kDescription, "reprieve-bench");
  const std::string version = "reprieve-bench of " + to_text(reprieve::version_details());
  app.set_version_flag("--version", version.substr(0, version.size() - 1));  // CLI11 ends the line
  bool json = false;
  app.add_flag("--json", json, "Print JSON instead of tables");
  app.require_subcommand(1);
  reprieve::bench::add_step_command(app, json);
  reprieve::bench::add_save_command(app, json);
  reprieve::bench::add_background_command(app, json);
  reprieve::bench::add_local_command(app, json);
  reprieve::bench::add_restore_command(app, json);
  reprieve::bench::add_scale_command(app, json);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return rank == 0 ? app.exit(error) : error.get_exit_code();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  reprieve::watch_signals();
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
    std::fputs("reprieve-bench: MPI_Init failed\n", stderr);
    return 1;
  }
  reprieve::configure_logging({.level = "error", .other_ranks = "error"}, true);
  try {
    const int code = run(argc, argv);
    MPI_Finalize();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprieve-bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 1;
}
