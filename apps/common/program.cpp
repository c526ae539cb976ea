// SPDX-License-Identifier: BSD-3-Clause
#include "common/program.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <reprieve/error.hpp>
#include <reprieve/reprieve.hpp>
#include <string>
#include <system_error>

namespace apps {

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

Preemption preemption_of(const reprieve::ExitContext& context, std::uint64_t run_calls) {
  const std::chrono::duration<double> since_notice = std::chrono::steady_clock::now() - context.notice.time;
  return {context.notice, run_calls, since_notice.count(), context.checkpoint};
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
