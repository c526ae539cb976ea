// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/summary.hpp"

#include "common/text.hpp"

namespace trainer {

Summary summary_of(const Training& training) {
  return {{}, training.state().progress, training.evaluate(), training.digests()};
}

apps::Json to_json(const Summary& summary) {
  using apps::Json;
  const auto& restored = summary.restored_digest;
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
      {"restored_shared_state_digest", restored ? Json(apps::to_hex(*restored)) : Json()},
      {"preemption", summary.preemption ? apps::to_json(*summary.preemption) : Json()},
  };
}

}  // namespace trainer
