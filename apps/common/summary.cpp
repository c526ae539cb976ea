// SPDX-License-Identifier: BSD-3-Clause
#include "common/summary.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <reprieve/error.hpp>
#include <system_error>

#include "common/text.hpp"

namespace apps {

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
  return "resumed from " + from.path.filename().string() + ", saved by " + ranks_text(from.world_size) + " (" +
         std::string(to_string(from.reason.kind)) + "): ";
}

void print(const Preemption& preemption, int exit_code) {
  std::cout << "preempted: " << preemption.notice.source << " on rank " << preemption.notice.rank << " ("
            << preemption.notice.host << ")\n"
            << "saved " << std::filesystem::path(preemption.checkpoint).filename().string() << " at step "
            << preemption.save_step << ", " << fixed(1000 * preemption.seconds_from_notice_to_commit, 1)
            << " ms after the notice; leaving with code " << exit_code << " (the same command goes on from here)"
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

}  // namespace apps
