// SPDX-License-Identifier: BSD-3-Clause
#include "common/program.hpp"

#include <exception>
#include <iostream>
#include <reprieve/reprieve.hpp>
#include <string>

namespace apps {
namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

bool is_chief() {
  int rank = 0;
  return MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0;
}

/// Whether every rank got the same error, so that all can leave in order, and one of them speaks for all.
bool is_shared(const reprieve::Error& error) {
  using reprieve::ErrorCode;
  return error.code() != ErrorCode::mpi && error.code() != ErrorCode::unresponsive &&
         error.code() != ErrorCode::internal;
}

int report_shared(const char* name, const reprieve::Error& error) {
  if (is_chief()) {
    std::cerr << name << ": " << error.what() << std::endl;
  }
  return error.code() == reprieve::ErrorCode::config ? kExitUsage : kExitError;
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
    return report_shared(name, error);
  } catch (const std::exception& error) {
    abort_with(name, error.what());
  }
}

}  // namespace

bool read_options(const Ranks& ranks, ProgramOptions& options, const std::function<void()>& parse) {
  ranks.on_every_rank([&] {
    parse();
    if (options.answer.empty()) {
      reprieve::configure_logging(options.settings.log, ranks.is_chief());
    }
  });
  if (ranks.is_chief()) {
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
