// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The agreement on the step boundary at which all ranks act.
///
/// Every check is one reduction (element-wise maximum) of an AgreementVector. The protocol:
///
/// 1. All ranks post reduction n at the same boundary. Which one that is, and the lag of 2., follow from the results
///    of the reductions before it alone, so all ranks know both. The stride between checks is the least that keeps
///    their cost at one percent of the steps (`CheckPlan`); long steps are checked at every boundary.
/// 2. All ranks act on the result at the same boundary, `lag` boundaries after the post: each waits there, and not
///    earlier, for the reduction to complete. The lag, a fifth of the stride, hides the latency and the ranks' skew.
/// 3. Before a save, all ranks confirm that they stand at the same boundary with a further reduction in the same
/// sequence. So all know of a rank that failed or finished in between before they wait for it in the save.
/// 4. A rank that fails or finishes posts the next reduction of the sequence out of turn; the others meet it at their
///    next one.
///
/// Every rank takes part in the same sequence of reductions and sees the same results in the same order; all decisions
/// follow from them alone. The scheme descends from TensorFlow's failure handling, in which workers agree on the
/// greatest step of all plus one; there a key-value store carries the message, here the reduction does.
///
/// Posting by each rank's own clock would react sooner when steps suddenly get longer, but it deadlocks: a rank that is
/// ahead may wait in a collective call of the application for one that is behind, which waits for its post. A post at
/// an agreed boundary lies before all that a rank does later. The price is the bound on the stride: when steps get
/// longer at once, a notice is acted on within stride and lag of the long ones: 24 after steps of 10 us, 2 after steps
/// of 1 ms. A program that knows that longer steps begin says so (`begin_phase`), and then it is within one.
///
/// Where a thread of each rank may communicate, there are no planned checks but the first one and those of
/// `begin_phase`: the threads find the boundary of the next check when a rank has something to report (`RoundThread`).
/// What is done at a check is the same.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "cluster/agreement_vector.hpp"
#include "cluster/communicator.hpp"
#include "cluster/round_thread.hpp"

namespace reprieve::cluster {

/// A sequence of reductions, one at a time. The seam between the protocol and MPI.
class ReductionChannel {
 public:
  virtual ~ReductionChannel() = default;
  virtual void post(const AgreementVector& mine) = 0;
  /// True if the posted reduction is complete; then it is gone and @p result is set.
  virtual bool test(AgreementVector& result) = 0;
  /// Waits for it. @throws UnresponsiveError after @p limit
  virtual AgreementVector wait(std::string_view what, std::chrono::milliseconds limit) = 0;
};

/// What a rank adds to its contribution; asked for whenever it posts.
struct LocalView {
  bool notice = false;
  std::optional<std::chrono::milliseconds> time_left;
  RequestedSave requested = RequestedSave::none;
  std::int64_t written = 0;
};

struct AgreementOptions {
  std::chrono::nanoseconds check_interval = kCheckInterval;
  std::chrono::milliseconds peer_timeout{1'800'000};
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

/// One rank's side of the protocol. Not thread-safe.
class StepAgreement {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param look  asked for this rank's view when it posts
  /// @param on_check_result  called with every result, in order; may throw, which ends the agreement
  StepAgreement(ReductionChannel& channel, int rank, int size, AgreementOptions options,
                std::function<LocalView()> local_view, std::function<void(const CheckResult&)> on_check_result);

  /// From here on @p rounds decides at which boundaries the ranks check. All ranks call it before the first boundary.
  /// It must live as long as this.
  void check_by(RoundThread& rounds) noexcept { rounds_ = &rounds; }

  /// Counts one boundary and does what is due there. Cost when nothing is due: a comparison, and with threads that of
  /// `RoundThread::pass`.
  void at_boundary() {
    ++index_;
    const bool stopped = rounds_ != nullptr && !rounds_->pass();
    if (index_ >= next_event_ || stopped) {
      handle_event(stopped);
    }
  }

  /// Waits until all ranks confirm that they stand at this boundary; a check under way is completed first. The caller
  /// checks the result, which is not delivered to on_check_result: a rank may have failed, and may stand elsewhere.
  /// @throws UnresponsiveError; what on_check_result throws
  CheckResult confirm();
  /// @throws UsageError unless @p check_result says that all ranks have confirmed this boundary
  void check_met(const CheckResult& check_result) const;

  /// Reports the failure of this rank to the others. Returns when all know it: the result is delivered to
  /// on_check_result there, not here. @throws UnresponsiveError after @p limit
  CheckResult fail(std::chrono::milliseconds limit);

  /// Ends the sequence. Returns the result in which all ranks close, or the first one in which a rank failed; results
  /// are not delivered to on_check_result. @throws UnresponsiveError
  CheckResult close();

  [[nodiscard]] BoundaryIndex index() const noexcept { return index_; }
  /// Boundaries between checks, at present.
  [[nodiscard]] std::int64_t stride() const noexcept { return plan_.stride(); }
  /// Boundaries from this one until a notice that this rank has is acted on. Not with threads.
  [[nodiscard]] std::int64_t boundaries_until_result() const noexcept;
  /// Other steps begin: the next boundary checks, whatever the steps before took. All ranks call it between the same
  /// boundaries; a check under way is completed, so that they then have the same results. Throws what on_check_result
  /// throws; UnresponsiveError
  void begin_phase();
  /// Lets the time since the last check not count as that of steps: after a save or a pause.
  void restart_step_clock() noexcept;

 private:
  void handle_event(bool stopped);
  void check_if_due(bool stopped);
  void post(Contribution contribution);
  void complete();
  void drain();
  CheckResult take(const AgreementVector& result);
  void plan_next_check(const CheckResult& check_result);
  std::chrono::nanoseconds measure_step_time(Clock::time_point now);
  AgreementVector wait(const char* doing, std::chrono::milliseconds limit);

  ReductionChannel& channel_;
  RoundThread* rounds_ = nullptr;  ///< if threads decide where the checks are
  int rank_;
  int size_;
  AgreementOptions options_;
  std::function<LocalView()> local_view_;
  std::function<void(const CheckResult&)> on_check_result_;

  BoundaryIndex index_ = 0;
  BoundaryIndex next_event_ = 1;  ///< boundary of the next post, test or completion

  bool pending_ = false;
  BoundaryIndex complete_at_ = 0;  ///< where the pending reduction's result is acted on
  bool notice_is_sent_ = false;    ///< in the pending reduction, by this rank
  std::int64_t test_stride_ = 1;

  // The same on all ranks, from the results. The first check is at the first boundary, since a notice may have come
  // before it, and is acted on there.
  CheckPlan plan_;
  BoundaryIndex planned_index_ = 1;  ///< where the check was posted that was last planned from

  std::chrono::nanoseconds check_cost_{0};  ///< of the last check that is complete, on this rank; 0: none yet
  std::chrono::nanoseconds post_cost_{0};   ///< of the one under way

  // For the mean step time since the last check.
  BoundaryIndex clock_index_;
  Clock::time_point clock_start_;
  std::chrono::nanoseconds step_time_;  ///< the last one known; long at first, so that checks begin close together
};

// Reductions of agreement vectors by MPI_Iallreduce.

/// Uses @p comm, which must outlive it and on which nothing else may be in progress between `post` and completion.
class MpiReductionChannel final : public ReductionChannel {
 public:
  explicit MpiReductionChannel(Communicator& comm);
  ~MpiReductionChannel() override;
  MpiReductionChannel(const MpiReductionChannel&) = delete;
  MpiReductionChannel& operator=(const MpiReductionChannel&) = delete;

  void post(const AgreementVector& mine) override;
  bool test(AgreementVector& result) override;
  AgreementVector wait(std::string_view what, std::chrono::milliseconds limit) override;

 private:
  struct Buffers {
    AgreementVector mine{};
    AgreementVector result{};
  };
  Communicator& comm_;
  std::unique_ptr<Buffers> buffers_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace reprieve::cluster
