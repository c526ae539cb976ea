// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/restart_policy.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace reprieve::supervisor {

namespace {

/// So often may a run die while it reads a checkpoint, before the checkpoint is suspected to be the cause.
constexpr int kDeathsAllowed = 1;
constexpr int kMaxDoublings = 20;

}  // namespace

RestartDecision RestartPolicy::decide(const Verdict& verdict, bool begins_elsewhere) {
  RestartDecision decision;
  if (verdict.end == Verdict::End::finished) {
    return decision;
  }
  fruitless_ = verdict.progressed ? 0 : fruitless_ + 1;
  decision.pause = pause_after(verdict);
  if (begins_elsewhere) {
    fruitless_ = 0;
  }
  decision.reason = why_not(verdict);
  decision.restart = decision.reason.empty() && used_ < limits_.restarts;
  used_ += decision.restart ? 1 : 0;
  return decision;
}

std::optional<std::filesystem::path> RestartPolicy::suspect(const Verdict& verdict) {
  if (verdict.died_restoring && ++deaths_[*verdict.died_restoring] > kDeathsAllowed) {
    return verdict.died_restoring;
  }
  return std::nullopt;
}

std::string RestartPolicy::why_not(const Verdict& verdict) const {
  if (limits_.restarts == 0) {
    return "";
  }
  if (verdict.hopeless) {
    return "giving up: another start would meet the same error";
  }
  if (fruitless_ >= limits_.fruitless_runs) {
    return verdict.end == Verdict::End::saved
               ? fmt::format("giving up, no progress: {} runs in a row ended at the step where they began", fruitless_)
               : fmt::format("giving up, crash loop: {} runs in a row ended without a new checkpoint", fruitless_);
  }
  if (used_ >= limits_.restarts) {
    return fmt::format("giving up: all {} restarts are used", limits_.restarts);
  }
  return "";
}

std::chrono::milliseconds RestartPolicy::pause_after(const Verdict& verdict) const {
  if (verdict.end == Verdict::End::saved) {
    return std::chrono::milliseconds(0);
  }
  const int doublings = std::clamp(fruitless_ - 1, 0, kMaxDoublings);
  return std::min(limits_.first_pause * (std::int64_t{1} << doublings), limits_.longest_pause);
}

namespace {

/// The pause after the first notice; it doubles up to the longest.
constexpr std::chrono::seconds kFirstPause{1};
constexpr int kMaxPauseDoublings = 4;

}  // namespace

void NoticePlan::request(Clock::time_point now) {
  if (!requested_) {
    requested_ = now;
  }
}

void NoticePlan::begin_run() { sent_ = 0; }

bool NoticePlan::send_is_due(const RunProgress& progress, Clock::time_point now) {
  if (!requested_ || progress.notice_arrived()) {
    return false;
  }
  const bool says_nothing = progress.chiefs().empty() && now - *requested_ >= patience_;
  if (!progress.ready() && !says_nothing) {
    return false;
  }
  if (sent_ > 0 && now - last_sent_ < kFirstPause * (1 << std::min(sent_ - 1, kMaxPauseDoublings))) {
    return false;
  }
  ++sent_;
  last_sent_ = now;
  return true;
}

SupervisorEvent describe(const std::filesystem::path& suspect, const Suspicion& found) {
  const std::string file = suspect.filename().string();
  switch (found.outcome) {
    case Suspicion::Outcome::valid:
      return {"warning",
              file +
                  " is valid: something else ends the ranks while they read it, such as a lack of memory; it stays "
                  "where it is",
              {}};
    case Suspicion::Outcome::quarantine:
      return {"quarantine", fmt::format("{} is corrupt: quarantined as {}", file, found.text), {}};
    case Suspicion::Outcome::needed:
      return {"give_up",
              fmt::format("giving up: {} is corrupt, and there is no older checkpoint to take instead: {}",
                          suspect.string(), found.text),
              {}};
    case Suspicion::Outcome::unknown:
      break;
  }
  return {"warning", fmt::format("{} cannot be verified, so it stays where it is: {}", file, found.text), {}};
}

}  // namespace reprieve::supervisor
