// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/requeue.hpp"

namespace reprieve::supervisor {

namespace {

/// SIGNALING is what Slurm shows while it sends a job a signal, thus at the very time of a notice.
bool is_running(const std::string& state) { return state == "RUNNING" || state == "SIGNALING"; }

}  // namespace

std::optional<std::string> requeue_refusal(const RequeueFacts& facts) {
  if (!facts.saved && (facts.hopeless || !facts.job || !facts.job->preempted)) {
    return "nothing was saved";
  }
  if (facts.slurm_decided) {
    return "Slurm has sent SIGTERM, so it has decided already: requeued, cancelled or out of time";
  }
  if (facts.by_hand) {
    return "it was stopped by hand";
  }
  if (!facts.job) {
    return "Slurm does not answer";
  }
  if (!facts.job->requeue) {
    return "the job was submitted with --no-requeue";
  }
  if (!is_running(facts.job->state)) {
    return "the job is " + facts.job->state + " already";
  }
  return std::nullopt;
}

}  // namespace reprieve::supervisor
