// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/slurm.hpp"

#include "core/log.hpp"

namespace reprieve::supervisor {

namespace {

/// An answer not older than this is as good as a new one.
constexpr std::chrono::seconds kFresh{5};
/// How long an answer that decides is waited for.
constexpr std::chrono::seconds kPatience{5};

/// SIGNALING is what Slurm shows while it sends a job a signal, thus at the very time of a notice.
bool is_running(const std::string& state) { return state == "RUNNING" || state == "SIGNALING"; }

}  // namespace

void SlurmClient::take_answer() {
  if (!question_ || !question_->code()) {
    return;
  }
  const auto answer = termination::parse_slurm_job(question_->output());
  question_.reset();
  if (answer) {
    job_ = answer;
    learned_ = Clock::now();
    failure_logged_ = false;
  } else if (!std::exchange(failure_logged_, true)) {
    core::log::warning("scontrol does not tell about job {}; asking again later", job_id_);
  }
}

bool SlurmClient::notice_is_due() {
  const auto due = job_ ? termination::notice_time(*job_, lead_) : std::nullopt;
  const auto now = std::chrono::system_clock::now();
  if (!due || now < *due) {
    return false;
  }
  if (job_->preempted || Clock::now() - learned_ <= kFresh) {
    return true;
  }
  ask();
  return now >= *due + kPatience;
}

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
