#include "trainer/summary.hpp"

#include "common/text.hpp"

namespace trainer {
namespace {

using apps::Json;

Json hex_or_null(const std::optional<std::uint64_t>& digest) { return digest ? Json(apps::to_hex(*digest)) : Json(); }

}  // namespace

apps::Json to_json(const Summary& summary) {
  return {
      {"status", summary.preemption ? "preempted" : "finished"},
      {"world_size", summary.world_size},
      {"run_calls", summary.run_calls},
      {"epoch", summary.progress.epoch},
      {"step", summary.progress.step},
      {"restored_from", summary.restored_from ? Json(*summary.restored_from) : Json()},
      {"loss", summary.evaluation.loss},
      {"accuracy", summary.evaluation.accuracy},
      {"state_digest", apps::to_hex(summary.digests.all)},
      {"shared_state_digest", apps::to_hex(summary.digests.shared)},
      {"restored_shared_state_digest", hex_or_null(summary.restored_shared_digest)},
      {"preemption", summary.preemption ? apps::to_json(*summary.preemption) : Json()},
  };
}

}  // namespace trainer
