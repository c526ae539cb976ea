#include "cluster/step_agreement.hpp"

#include <algorithm>
#include <limits>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

constexpr BoundaryIndex kNever = std::numeric_limits<BoundaryIndex>::max();
/// A pending reduction gets about so many occasions to make progress before it is waited for: more than the rounds of
/// an allreduce over any number of ranks (their binary logarithm).
constexpr std::int64_t kTestsPerLag = 24;

}  // namespace

StepAgreement::StepAgreement(ReductionChannel& channel, int rank, int size, AgreementOptions options,
                             std::function<LocalView()> look, std::function<void(const Verdict&)> on_verdict)
    : channel_(channel),
      rank_(rank),
      size_(size),
      options_(options),
      look_(std::move(look)),
      on_verdict_(std::move(on_verdict)),
      next_look_(kNever),
      next_post_time_(Clock::time_point::min()),
      last_boundary_(Clock::now()),
      last_check_time_(last_boundary_) {}

void StepAgreement::look_after(Clock::time_point now) {
  if (pending_) {
    if (index_ >= complete_at_) {
      complete();
    } else if (index_ >= next_look_) {
      next_look_ = std::min(complete_at_, index_ + test_stride_);
      AgreementVector result;
      if (channel_.test(result)) {
        on_verdict_(take(result));
      }
    }
    return;
  }
  if (index_ <= post_after_ || (now < next_post_time_ && last_step_ < kLongStep)) {
    return;
  }
  post(Contribution{.index = index_, .lag = choose_lag()});
  if (index_ >= complete_at_) {
    complete();
  }
}

std::int64_t StepAgreement::choose_lag() const {
  const auto step = recent_step_time();
  const auto window = options_.check_interval / 4;
  // The first boundary checks at once: a notice may have come before it.
  return checks_ == 0 ? 0 : window / std::max(step, std::chrono::nanoseconds(1));
}

std::chrono::nanoseconds StepAgreement::recent_step_time() const noexcept {
  const auto steps = std::max<std::int64_t>(1, index_ - last_check_index_);
  return std::max<std::chrono::nanoseconds>(last_step_, (last_boundary_ - last_check_time_) / steps);
}

void StepAgreement::restart_step_clock() noexcept {
  last_boundary_ = Clock::now();
  last_check_time_ = last_boundary_;
  last_check_index_ = index_;
}

void StepAgreement::post(Contribution contribution) {
  const LocalView view = look_();
  contribution.notice = view.notice;
  contribution.time_left = view.time_left;
  contribution.wish = view.wish;
  contribution.step_time = recent_step_time();
  channel_.post(encode(contribution, rank_, size_));
  pending_ = true;
  complete_at_ = contribution.index + contribution.lag;
  test_stride_ = std::max<std::int64_t>(1, contribution.lag / kTestsPerLag);
  next_look_ = std::min(complete_at_, index_ + test_stride_);
}

void StepAgreement::complete() { on_verdict_(take(channel_.wait(where("check"), options_.peer_timeout))); }

void StepAgreement::drain() {
  if (pending_) {
    complete();
  }
}

Verdict StepAgreement::take(const AgreementVector& result) {
  pending_ = false;
  ++checks_;
  const Verdict verdict = decode(result, size_);
  post_after_ = std::max(post_after_, verdict.act_at);
  last_check_time_ = Clock::now();
  last_check_index_ = index_;
  next_post_time_ = last_check_time_ + options_.check_interval;
  next_look_ = kNever;
  return verdict;
}

Verdict StepAgreement::confirm() {
  drain();
  for (;;) {
    post(Contribution{.index = index_, .confirming = true});
    const Verdict verdict = take(channel_.wait(where("confirmation of a save"), options_.peer_timeout));
    on_verdict_(verdict);
    if (!verdict.all_confirming) {
      continue;
    }
    if (verdict.first_index != verdict.last_index) {
      throw UsageError(fmt::format(
          "the ranks made different numbers of step boundaries before a save: from {} to {}, {} on this rank",
          verdict.first_index, verdict.last_index, index_));
    }
    return verdict;
  }
}

Verdict StepAgreement::fail(std::chrono::milliseconds limit) {
  const auto start = Clock::now();
  if (pending_) {
    const Verdict earlier = take(channel_.wait(where("report of an error"), limit));
    if (earlier.failed_rank >= 0) {
      return earlier;  // another rank failed first: its error is the one that all ranks hear
    }
  }
  post(Contribution{.index = index_, .failed = true});
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  return take(channel_.wait(where("report of an error"), std::max(limit - spent, std::chrono::milliseconds(1))));
}

Verdict StepAgreement::close() {
  if (pending_) {
    const Verdict earlier = take(channel_.wait(where("end"), options_.peer_timeout));
    if (earlier.failed_rank >= 0) {
      return earlier;
    }
  }
  for (;;) {
    post(Contribution{.index = index_, .closing = true});
    const Verdict verdict = take(channel_.wait(where("end"), options_.peer_timeout));
    if (verdict.failed_rank >= 0 || verdict.all_closing) {
      return verdict;
    }
  }
}

std::string StepAgreement::where(const char* doing) const {
  return fmt::format("{} at step boundary {}", doing, index_);
}

}  // namespace reprieve::cluster
