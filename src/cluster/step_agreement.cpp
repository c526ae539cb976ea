// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/step_agreement.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::cluster {

namespace {

/// A pending reduction gets about so many occasions to make progress before it is waited for: more than the rounds of
/// an allreduce over any number of ranks (their binary logarithm).
constexpr std::int64_t kTestsPerLag = 24;

/// Ranks that have not come to the same point for so long may never come.
constexpr std::chrono::milliseconds kLongWait{1000};

}  // namespace

StepAgreement::StepAgreement(ReductionChannel& channel, int rank, int size, AgreementOptions options,
                             std::function<LocalView()> local_view,
                             std::function<void(const CheckResult&)> on_check_result)
    : channel_(channel),
      rank_(rank),
      size_(size),
      options_(options),
      local_view_(std::move(local_view)),
      on_check_result_(std::move(on_check_result)),
      plan_(options.check_interval),
      clock_index_(1),  // the first step begins at the first boundary
      clock_start_(options_.now()),
      step_time_(options.check_interval) {}

void StepAgreement::handle_event(bool stopped) {
  if (rounds_ != nullptr) {
    check_if_due(stopped);
    return;
  }
  if (!pending_) {
    post(Contribution{.index = index_, .lag = plan_.lag()});
  }
  if (index_ >= complete_at_) {
    complete();
    return;
  }
  next_event_ = std::min(complete_at_, index_ + test_stride_);
  AgreementVector result;
  if (channel_.test(result)) {
    check_cost_ = post_cost_;
    on_check_result_(take(result));
  }
}

/// A planned check is made by all ranks, wherever a round puts another one.
void StepAgreement::check_if_due(bool stopped) {
  const bool is_planned = index_ >= next_event_;
  const BoundaryIndex due = stopped ? rounds_->next_check() : RoundThread::kNever;
  if (is_planned || index_ >= due) {
    post(Contribution{.index = index_});
    complete();
  }
}

std::chrono::nanoseconds StepAgreement::measure_step_time(Clock::time_point now) {
  if (index_ > clock_index_) {
    step_time_ = (now - clock_start_) / (index_ - clock_index_);
  }
  if (rounds_ != nullptr && rounds_->longest_step().count() > 0) {
    return rounds_->longest_step();  // the mean since the check before would reach back too far
  }
  return step_time_;
}

void StepAgreement::restart_step_clock() noexcept {
  clock_start_ = options_.now();
  clock_index_ = index_;
  if (rounds_ != nullptr) {
    rounds_->restart_step_clock();
  }
}

/// From the result alone, so that all ranks plan alike.
void StepAgreement::plan_next_check(const CheckResult& check_result) {
  if (rounds_ != nullptr) {
    rounds_->exchanged(index_);
    next_event_ = RoundThread::kNever;
    return;
  }
  plan_.take({check_result.step_time, check_result.check_cost, check_result.last_index - planned_index_});
  planned_index_ = check_result.last_index;
  next_event_ = check_result.act_at + plan_.stride() - plan_.lag();
}

void StepAgreement::begin_phase() {
  drain();
  plan_.restart();
  next_event_ = index_ + 1;
}

std::int64_t StepAgreement::boundaries_until_result() const noexcept {
  if (pending_ && notice_is_sent_) {
    return complete_at_ - index_;
  }
  const BoundaryIndex post = pending_ ? complete_at_ + plan_.stride() - plan_.lag() : next_event_;
  return post + plan_.lag() - index_;
}

void StepAgreement::post(Contribution contribution) {
  const auto begin = options_.now();
  const LocalView view = local_view_();
  contribution.notice = view.notice;
  notice_is_sent_ = view.notice;
  contribution.time_left = view.time_left;
  contribution.requested = view.requested;
  contribution.written = view.written;
  contribution.step_time = measure_step_time(begin);
  contribution.check_cost = check_cost_;
  channel_.post(encode(contribution, rank_, size_));
  pending_ = true;
  complete_at_ = contribution.index + contribution.lag;
  test_stride_ = std::max<std::int64_t>(1, contribution.lag / kTestsPerLag);
  restart_step_clock();
  post_cost_ = clock_start_ - begin;
}

void StepAgreement::complete() {
  const auto begin = options_.now();
  const AgreementVector result = wait("check", options_.peer_timeout);
  check_cost_ = post_cost_ + (options_.now() - begin);
  on_check_result_(take(result));
}

void StepAgreement::drain() {
  if (pending_) {
    complete();
  }
}

CheckResult StepAgreement::take(const AgreementVector& result) {
  pending_ = false;
  const CheckResult check_result = decode(result, size_);
  plan_next_check(check_result);
  return check_result;
}

CheckResult StepAgreement::confirm() {
  drain();
  post(Contribution{.index = index_, .confirming = true});
  return take(wait("confirmation of a save", options_.peer_timeout));
}

void StepAgreement::check_met(const CheckResult& check_result) const {
  if (!check_result.all_confirming || check_result.first_index != check_result.last_index) {
    throw UsageError(
        fmt::format("the ranks make different calls: they met at step boundaries {} to {}, while rank {} is at {}, to "
                    "save or to finish",
                    check_result.first_index, check_result.last_index, rank_, index_));
  }
}

CheckResult StepAgreement::fail(std::chrono::milliseconds limit) {
  const auto start = Clock::now();
  if (pending_) {
    const CheckResult earlier = take(wait("report of an error", limit));
    if (earlier.failed_rank >= 0) {
      return earlier;  // another rank failed first: its error is the one that all ranks get
    }
  }
  post(Contribution{.index = index_, .failed = true});
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  return take(wait("report of an error", std::max(limit - spent, std::chrono::milliseconds(1))));
}

CheckResult StepAgreement::close() {
  if (pending_) {
    const CheckResult earlier = take(wait("end", options_.peer_timeout));
    if (earlier.failed_rank >= 0) {
      return earlier;
    }
  }
  for (;;) {
    post(Contribution{.index = index_, .closing = true});
    const CheckResult check_result = take(wait("end", options_.peer_timeout));
    if (check_result.failed_rank >= 0 || check_result.all_closing) {
      return check_result;
    }
  }
}

/// Ranks that are elsewhere by mistake make no check by themselves where threads agree: a round brings them to one.
AgreementVector StepAgreement::wait(const char* doing, std::chrono::milliseconds limit) {
  if (rounds_ != nullptr) {
    rounds_->set_alarm(Clock::now() + kLongWait);
  }
  // Without memory of its own: a rank that throws here is missing in what the others do next.
  std::array<char, 100> text{};
  std::snprintf(text.data(), text.size(), "%s at step boundary %lld", doing, static_cast<long long>(index_));
  return channel_.wait(text.data(), limit);
}

MpiReductionChannel::MpiReductionChannel(Communicator& comm) : comm_(comm), buffers_(std::make_unique<Buffers>()) {}

MpiReductionChannel::~MpiReductionChannel() {
  if (request_ != MPI_REQUEST_NULL) {
    // Ranks are missing: MPI may still write into the buffers, so they are left to it.
    core::log::debug("a reduction was left incomplete");
    static_cast<void>(buffers_.release());
  }
}

void MpiReductionChannel::post(const AgreementVector& mine) {
  comm_.check_usable("step boundary");
  buffers_->mine = mine;
  check_mpi(MPI_Iallreduce(buffers_->mine.data(), buffers_->result.data(), static_cast<int>(mine.size()), MPI_INT64_T,
                           MPI_MAX, comm_.handle(), &request_),
            "MPI_Iallreduce");
}

bool MpiReductionChannel::test(AgreementVector& result) {
  int done = 0;
  check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done != 0) {
    result = buffers_->result;
  }
  return done != 0;
}

AgreementVector MpiReductionChannel::wait(std::string_view what, std::chrono::milliseconds limit) {
  comm_.wait(request_, what, limit);
  return buffers_->result;
}

}  // namespace reprieve::cluster
