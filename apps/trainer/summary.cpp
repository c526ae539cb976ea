#include "trainer/summary.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <reprieve/error.hpp>
#include <system_error>

namespace trainer {
namespace {

using Json = nlohmann::ordered_json;

Json hex_or_null(const std::optional<std::uint64_t>& digest) { return digest ? Json(to_hex(*digest)) : Json(); }

Json preemption_json(const Preemption& preemption) {
  return {{"rank", preemption.notice.rank},
          {"host", preemption.notice.host},
          {"source", preemption.notice.source},
          {"save_step", preemption.save_step},
          {"seconds_from_notice_to_commit", preemption.seconds_from_notice_to_commit},
          {"checkpoint", preemption.checkpoint}};
}

}  // namespace

std::string to_json(const Summary& summary) {
  const Json json = {
      {"status", summary.preemption ? "preempted" : "finished"},
      {"world_size", summary.world_size},
      {"run_calls", summary.run_calls},
      {"epoch", summary.progress.epoch},
      {"step", summary.progress.step},
      {"restored_from", summary.restored_from ? Json(*summary.restored_from) : Json()},
      {"loss", summary.evaluation.loss},
      {"accuracy", summary.evaluation.accuracy},
      {"state_digest", to_hex(summary.digests.all)},
      {"shared_state_digest", to_hex(summary.digests.shared)},
      {"restored_shared_state_digest", hex_or_null(summary.restored_shared_digest)},
      {"preemption", summary.preemption ? preemption_json(*summary.preemption) : Json()},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_summary(const Summary& summary, const std::filesystem::path& file) {
  const std::filesystem::path temporary = file.string() + ".tmp";
  errno = 0;
  std::ofstream output(temporary);
  output << to_json(summary);
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

}  // namespace trainer
