#include "cluster/step_agreement.hpp"

#include <algorithm>
#include <limits>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

/// A pending reduction gets about so many occasions to make progress before it is waited for: more than the rounds of
/// an allreduce over any number of ranks (their binary logarithm).
constexpr std::int64_t kTestsPerLag = 24;

/// The stride grows at most so much from one check to the next: a few short steps do not tell what the next ones take.
/// It shrinks at once.
constexpr std::int64_t kMaxGrowth = 4;

}  // namespace

StepAgreement::StepAgreement(ReductionChannel& channel, int rank, int size, AgreementOptions options,
                             std::function<LocalView()> look, std::function<void(const Verdict&)> on_verdict)
    : channel_(channel),
      rank_(rank),
      size_(size),
      options_(options),
      look_(std::move(look)),
      on_verdict_(std::move(on_verdict)),
      clock_index_(1),  // the first step begins at the first boundary
      clock_start_(Clock::now()),
      step_time_(options.check_interval) {}

void StepAgreement::handle_event() {
  if (!pending_) {
    post(Contribution{.index = index_, .lag = lag_});
  }
  if (index_ >= complete_at_) {
    complete();
    return;
  }
  next_event_ = std::min(complete_at_, index_ + test_stride_);
  AgreementVector result;
  if (channel_.test(result)) {
    on_verdict_(take(result));
  }
}

std::chrono::nanoseconds StepAgreement::measure_step_time() {
  if (index_ > clock_index_) {
    step_time_ = (Clock::now() - clock_start_) / (index_ - clock_index_);
  }
  return step_time_;
}

void StepAgreement::restart_step_clock() noexcept {
  clock_start_ = Clock::now();
  clock_index_ = index_;
}

/// From the verdict alone, so that all ranks plan alike.
void StepAgreement::plan_next_check(const Verdict& verdict) {
  const auto step_time = std::max(verdict.step_time, std::chrono::nanoseconds(1));
  const std::int64_t wanted = std::clamp<std::int64_t>(options_.check_interval / step_time, 1, kMaxStride);
  stride_ = std::min(wanted, kMaxGrowth * stride_);
  lag_ = stride_ / 4;
  next_event_ = verdict.act_at + stride_ - lag_;
}

void StepAgreement::post(Contribution contribution) {
  const LocalView view = look_();
  contribution.notice = view.notice;
  contribution.time_left = view.time_left;
  contribution.wish = view.wish;
  contribution.written = view.written;
  contribution.step_time = measure_step_time();
  channel_.post(encode(contribution, rank_, size_));
  pending_ = true;
  complete_at_ = contribution.index + contribution.lag;
  test_stride_ = std::max<std::int64_t>(1, contribution.lag / kTestsPerLag);
  restart_step_clock();
}

void StepAgreement::complete() { on_verdict_(take(channel_.wait(where("check"), options_.peer_timeout))); }

void StepAgreement::drain() {
  if (pending_) {
    complete();
  }
}

Verdict StepAgreement::take(const AgreementVector& result) {
  pending_ = false;
  const Verdict verdict = decode(result, size_);
  plan_next_check(verdict);
  return verdict;
}

Verdict StepAgreement::confirm() {
  drain();
  post(Contribution{.index = index_, .confirming = true});
  const Verdict verdict = take(channel_.wait(where("confirmation of a save"), options_.peer_timeout));
  on_verdict_(verdict);
  if (!verdict.all_confirming || verdict.first_index != verdict.last_index) {
    throw UsageError(
        fmt::format("the ranks make different calls: they met at step boundaries {} to {}, while rank {} saves at {}",
                    verdict.first_index, verdict.last_index, rank_, index_));
  }
  return verdict;
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
