#pragma once

/// @file
/// The agreement on the step boundary at which all ranks act.
///
/// Every check is one reduction (element-wise maximum) of an AgreementVector. The protocol:
///
/// 1. A rank posts reduction n at the first boundary after `check_interval` has passed since reduction n-1, on its own
///    clock; with steps of 10 ms and longer at every boundary. No schedule in numbers of steps has to be kept up to
///    date, so a loop that goes from steps of microseconds to steps of seconds is checked at its very next boundary.
/// 2. It contributes its boundary index and a lag: the number of further boundaries that it may make before it waits
/// for the
///    result. The lag hides the reduction's latency and the ranks' skew; it spans a quarter of the interval, so it is
///    zero for long steps.
/// 3. All ranks act on the result at the same boundary, the greatest `index + lag` of all. No rank can have passed it,
/// since
///    each stops at its own `index + lag`. It is also later than every step at which a notice was seen.
/// 4. The next reduction is posted after that boundary: indices stay aligned, whatever the clocks do.
/// 5. Before a save, all ranks confirm that they stand at the same boundary with further reductions in the same
/// sequence, so
///    that a rank which failed or finished in between is heard before anyone waits for it inside of the save.
///
/// Every rank takes part in the same sequence of reductions and sees the same verdicts in the same order; all decisions
/// follow from them alone. The scheme descends from TensorFlow's failure handling, in which workers agree on the
/// greatest step of all plus one; there a key-value store carries the message, here the reduction does.

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cluster/agreement_vector.hpp"

namespace reprieve::cluster {

/// A sequence of reductions, one at a time. The seam between the protocol and MPI.
class ReductionChannel {
 public:
  virtual ~ReductionChannel() = default;
  virtual void post(const AgreementVector& mine) = 0;
  /// True if the posted reduction is complete; then it is gone and @p result is set.
  virtual bool test(AgreementVector& result) = 0;
  /// Waits for it. @throws UnresponsiveError after @p limit
  virtual AgreementVector wait(const std::string& what, std::chrono::milliseconds limit) = 0;
};

/// What a rank adds to its contribution; asked for whenever it posts.
struct LocalView {
  bool notice = false;
  std::optional<std::chrono::milliseconds> time_left;
  SaveWish wish = SaveWish::none;
};

struct AgreementOptions {
  std::chrono::nanoseconds check_interval{std::chrono::milliseconds(12)};
  std::chrono::milliseconds peer_timeout{1'800'000};
};

/// One rank's side of the protocol. Not thread-safe.
class StepAgreement {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param look  asked for this rank's view when it posts
  /// @param on_verdict  called with every verdict, in order; may throw, which ends the agreement
  StepAgreement(ReductionChannel& channel, int rank, int size, AgreementOptions options,
                std::function<LocalView()> look, std::function<void(const Verdict&)> on_verdict);

  /// Counts one boundary and does what is due there. Cost when nothing is due: a clock reading and a few comparisons.
  void at_boundary() {
    ++index_;
    const auto now = Clock::now();
    last_step_ = now - last_boundary_;
    last_boundary_ = now;
    if (index_ >= next_look_ || now >= next_post_time_ || last_step_ >= kLongStep) {
      look_after(now);
    }
  }

  /// Waits until all ranks stand at a boundary of the same index and confirm it; verdicts of checks that complete on
  /// the way are delivered first. @throws UsageError if ranks confirm at different indices; UnresponsiveError
  Verdict confirm();

  /// Tells the other ranks that this one failed. Returns when all have heard it: the verdict is delivered to on_verdict
  /// there, not here. @throws UnresponsiveError after @p limit
  Verdict fail(std::chrono::milliseconds limit);

  /// Ends the sequence. Returns the verdict in which all ranks close, or the first one in which a rank failed; verdicts
  /// are not delivered to on_verdict. @throws UnresponsiveError
  Verdict close();

  [[nodiscard]] BoundaryIndex index() const noexcept { return index_; }
  /// Sets the time of the last boundary to now, so that the time of a save or a pause does not count as a step's.
  void restart_step_clock() noexcept;
  [[nodiscard]] std::chrono::nanoseconds recent_step_time() const noexcept;
  /// Number of reductions that completed on this rank.
  [[nodiscard]] std::int64_t checks() const noexcept { return checks_; }

 private:
  /// Steps from here on are checked at every boundary: a reduction of some 10 us is then below 0.1 % of the step.
  static constexpr std::chrono::milliseconds kLongStep{10};

  void look_after(Clock::time_point now);
  void post(Contribution contribution);
  void complete();
  void drain();
  Verdict take(const AgreementVector& result);
  [[nodiscard]] std::int64_t choose_lag() const;
  [[nodiscard]] std::string where(const char* doing) const;

  ReductionChannel& channel_;
  int rank_;
  int size_;
  AgreementOptions options_;
  std::function<LocalView()> look_;
  std::function<void(const Verdict&)> on_verdict_;

  BoundaryIndex index_ = 0;
  BoundaryIndex next_look_;  ///< boundary of the next test or wait of a pending reduction
  Clock::time_point next_post_time_;
  Clock::time_point last_boundary_;
  Clock::duration last_step_{0};

  bool pending_ = false;
  BoundaryIndex complete_at_ = 0;  ///< the pending reduction's `index + lag` on this rank
  std::int64_t test_stride_ = 1;
  BoundaryIndex post_after_ = 0;  ///< the last verdict's act_at
  BoundaryIndex last_check_index_ = 0;
  Clock::time_point last_check_time_;
  std::int64_t checks_ = 0;
};

}  // namespace reprieve::cluster
