// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The agreement on the boundary of the next check by a thread of each rank, for programs that run with
/// MPI_THREAD_MULTIPLE. Between notices no rank sends anything, whatever its steps take.
///
/// 1. A rank that has something to report (a notice, an error, a request for a checkpoint) begins a *round*: its thread
///    wakes those of the other ranks, by messages along a tree.
/// 2. Each thread stops its own main thread before the next boundary (`StopFlag`). All threads reduce these limits by
///    MPI_MAX. No main thread is needed for that, so it takes milliseconds whatever the main threads do.
/// 3. The result is the boundary of the check. No rank has passed it; those that stand before it run on up to it, and
///    there all main threads make an ordinary check of the StepAgreement, which alone decides what is done. Up to
///    that check a round only stops main threads and releases them: it decides nothing else.
/// 4. Rounds are numbered, and a rank takes part in the next one when it has made the check of the last. Every rank
///    gets exactly one message from each of its neighbours in each round, so none is left over from an earlier one.
/// 5. Where a rank failed, the others check at once, at the next boundary of each: all will throw.
/// 6. The threads rest after a round in which all ranks closed, and only then may MPI_Finalize or the end follow.
/// 7. A main thread that stands at a boundary does its thread's work, as that one may wait for a core: it begins the
///    round of its own news, looks now and then whether others have begun one, and completes the one that has stopped
///    it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "cluster/agreement_vector.hpp"
#include "cluster/communicator.hpp"
#include "core/threads.hpp"

namespace reprieve::cluster {

// Where a program's main thread counts its step boundaries, and where another thread can stop it.

/// The count and the order to stop share one atomic word, and both are changed by atomic read-modify-writes. These have
/// one order: what `close` returns is where the main thread stands, and every `pass` after it sees that the gate is
/// closed. With two words a plain store and load of one thread could be overtaken by any number of boundaries of the
/// other.
class StopFlag {
 public:
  /// Counts a boundary. False if the gate is closed. Thread: main. Cost: an atomic increment.
  [[nodiscard]] bool pass() noexcept { return (word_.fetch_add(kBoundary, std::memory_order_acq_rel) & kClosed) == 0; }

  /// From here on no boundary passes. Returns how many were counted so far: the next one will be stopped. Any thread.
  BoundaryIndex close() noexcept { return count_in(word_.fetch_or(kClosed, std::memory_order_acq_rel)); }
  /// Boundaries pass again. Any thread.
  void open() noexcept { word_.fetch_and(~kClosed, std::memory_order_acq_rel); }

  /// Boundaries that were counted so far. Any thread.
  [[nodiscard]] BoundaryIndex count() const noexcept { return count_in(word_.load(std::memory_order_relaxed)); }

 private:
  static constexpr std::uint64_t kClosed = 1;
  static constexpr std::uint64_t kBoundary = 2;

  static BoundaryIndex count_in(std::uint64_t word) noexcept { return static_cast<BoundaryIndex>(word / kBoundary); }

  std::atomic<std::uint64_t> word_{0};
};

// How long steps take, seen from another thread that reads their count now and then.

/// The longest steps of the recent past. A step that is shorter than the time between two calls of `observe` counts as
/// the mean of those between them, a longer one is known to within that time. Not thread-safe.
class StepWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// What lies further back than twice this says nothing of what comes.
  static constexpr std::chrono::seconds kWindow{30};

  /// @param count  boundaries that were counted by now
  void observe(BoundaryIndex count, Clock::time_point now) noexcept {
    if (count == count_) {
      return;
    }
    if (count_ > 0) {  // the first boundary ends no step
      add((now - since_) / (count - count_), now);
    }
    restart(count, now);
  }

  /// What was between this count and now is no step: a save, or a pause.
  void restart(BoundaryIndex count, Clock::time_point now) noexcept {
    count_ = count;
    since_ = now;
  }

  /// Of the recent past; zero if none has been seen.
  [[nodiscard]] std::chrono::nanoseconds longest() const noexcept { return std::max(in_window_, in_window_before_); }
  /// With the one that is under way.
  [[nodiscard]] std::chrono::nanoseconds longest_until(Clock::time_point now) const noexcept {
    return count_ > 0 ? std::max<std::chrono::nanoseconds>(longest(), now - since_) : longest();
  }
  /// Of all since this was last asked.
  [[nodiscard]] std::chrono::nanoseconds take_longest() noexcept {
    return std::exchange(not_taken_, std::chrono::nanoseconds(0));
  }

 private:
  void add(std::chrono::nanoseconds step, Clock::time_point now) noexcept {
    if (now - window_began_ > kWindow) {
      in_window_before_ = now - window_began_ > 2 * kWindow ? std::chrono::nanoseconds(0) : in_window_;
      in_window_ = {};
      window_began_ = now;
    }
    in_window_ = std::max(in_window_, step);
    not_taken_ = std::max(not_taken_, step);
  }

  BoundaryIndex count_ = 0;
  Clock::time_point since_{};
  Clock::time_point window_began_{};
  std::chrono::nanoseconds in_window_{0};
  std::chrono::nanoseconds in_window_before_{0};
  std::chrono::nanoseconds not_taken_{0};
};

/// What the threads of the ranks exchange. The seam between the protocol and MPI. Used by one thread at a time.
class RoundChannel {
 public:
  virtual ~RoundChannel() = default;
  /// From here on the begin of a round by another rank is noticed.
  virtual void listen() = 0;
  /// A neighbour has begun a round, or ranks have given up.
  virtual bool woken() = 0;
  /// Wakes the neighbours and posts the reduction.
  virtual void begin(const RoundVector& mine) = 0;
  /// True if the round is complete; then @p result is set. @throws UnresponsiveError if other ranks have given up
  virtual bool test(RoundVector& result) = 0;
  /// Finds out who is missing. @throws UnresponsiveError that names them
  [[noreturn]] virtual void give_up() = 0;
  /// Ends all exchange; what is under way is left alone.
  virtual void leave() noexcept = 0;
};

struct RoundOptions {
  /// How often the thread checks for anything to send or to receive.
  std::chrono::milliseconds poll_interval{4};
  /// How long ranks wait for each other's threads.
  std::chrono::milliseconds peer_timeout{1'800'000};
  /// How often the main thread looks, if its steps are as short as that or shorter.
  std::chrono::microseconds glance_interval{500};
};

/// One rank's thread, and what its main thread asks of it. All members are called by the main thread.
class RoundThread {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr BoundaryIndex kNever = INT64_MAX;

  /// @param has_news  asked in the thread, between rounds: whether this rank has a notice that the others do not know
  RoundThread(RoundChannel& channel, RoundOptions options, std::function<bool()> has_news);
  /// Ends the thread, without the other ranks if it is not at rest.
  ~RoundThread();
  RoundThread(const RoundThread&) = delete;
  RoundThread& operator=(const RoundThread&) = delete;

  /// Makes the thread, which rests until it is resumed. @throws std::system_error if the system has no more of them
  void start();
  void resume();
  /// Lets the thread rest when those of all ranks do: all ranks call it at the same point. If @p limit passes the
  /// thread is ended alone, and the agreement is broken. @throws UnresponsiveError then
  void rest(std::chrono::milliseconds limit);
  /// Ends the thread without the others, for good. It makes no more calls of MPI.
  void abandon() noexcept;

  /// Counts a boundary. False if a round or its check stops this thread there. Cost: an atomic increment, and a check
  /// of the messages now and then.
  [[nodiscard]] bool pass() {
    if (--boundaries_until_glance_ <= 0) [[unlikely]] {
      glance();
    }
    return gate_.pass();
  }
  /// A boundary did not pass: where is the next check? Completes a round under way. `kNever` if there is none.
  /// @throws UnresponsiveError if ranks are missing
  [[nodiscard]] BoundaryIndex next_check();
  /// The ranks have exchanged everything at this boundary.
  void exchanged(BoundaryIndex index);

  /// There is something to report: a round begins, which stops this thread at its next boundary.
  /// @param has_notice  it is a notice
  void request(bool has_notice = false);
  /// Begins a round at this time, unless the ranks agree before.
  void set_alarm(std::optional<Clock::time_point> time);
  /// The step of this rank failed. Returns when the other ranks know where to get it, or after @p limit.
  void announce_failure(std::chrono::milliseconds limit);

  /// What was since the last boundary is no step.
  void restart_step_clock();
  /// The longest step of this rank in the recent past, the one under way included; zero if none was seen.
  [[nodiscard]] std::chrono::nanoseconds longest_step() const;
  /// The longest one of any rank, as of the last round.
  [[nodiscard]] std::chrono::nanoseconds longest_step_of_all() const;
  /// The longest one of this rank since this was last asked.
  [[nodiscard]] std::chrono::nanoseconds take_longest_step();

  /// Whether some rank has a notice that waits for the next check. This rank knows it although its main thread may be
  /// in a step of hours. It may be read in any thread, and for longer than this lives.
  [[nodiscard]] const std::shared_ptr<std::atomic<bool>>& notice_waits() const noexcept { return notice_waits_; }

  /// The thread has ended by an error.
  [[nodiscard]] bool broken() const;

 private:
  enum class Phase { idle, running, decided, broken };

  void run() noexcept;
  [[nodiscard]] bool wait_for_check();
  [[nodiscard]] bool may_have_news() const;
  [[nodiscard]] bool ask_for_news() const;
  void glance();
  void drive(const std::unique_lock<std::mutex>& channel_lock, bool has_news = false) noexcept;
  void progress(bool has_news);
  [[nodiscard]] bool is_occasion(bool has_news);
  [[nodiscard]] bool is_at_work() const;
  void begin_round(bool has_news);
  void end_round(const RoundResult& check_result);
  void break_down(std::exception_ptr error) noexcept;
  [[nodiscard]] bool may_begin() const { return phase_ == Phase::idle || closing_; }
  [[nodiscard]] bool is_asked() const { return closing_ ? !closing_is_sent_ : requested_; }
  [[nodiscard]] bool alarm_rings() const { return !closing_ && alarm_ && Clock::now() >= *alarm_; }
  void watch_steps();

  RoundChannel& channel_;
  const RoundOptions options_;
  const std::function<bool()> has_news_;
  const std::shared_ptr<std::atomic<bool>> notice_waits_ = std::make_shared<std::atomic<bool>>(false);
  StopFlag gate_;

  std::mutex channel_mutex_;  ///< guards the channel and the round under way; locked before the other one
  bool listening_ = false;
  bool in_round_ = false;
  RoundView mine_{};
  core::RunningTime in_round_since_;

  std::int64_t boundaries_until_glance_ = 1;  ///< these three are the main thread's alone
  std::int64_t glance_stride_ = 1;
  Clock::time_point glanced_at_{};

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  Phase phase_ = Phase::idle;
  bool resting_ = true;
  bool abandoned_ = false;
  bool requested_ = false;
  bool has_notice_ = false;  ///< what is requested is to report a notice
  bool failed_ = false;
  bool closing_ = false;
  bool closing_is_sent_ = false;  ///< in a round that is complete
  bool pause_ended_ = false;      ///< the watch of the steps must start from the beginning
  std::int64_t number_ = 0;       ///< of the last round that was begun
  BoundaryIndex check_at_ = kNever;
  std::optional<Clock::time_point> alarm_;
  std::exception_ptr failure_;
  StepWatch watch_;
  std::chrono::nanoseconds longest_of_all_{0};

  std::thread thread_;
};

// Rounds of the threads over MPI: wake-up messages along a tree, and MPI_Iallreduce.

/// Uses @p comm, which must outlive it and which nobody else uses while a thread does. Needs MPI_THREAD_MULTIPLE.
class MpiRoundChannel final : public RoundChannel {
 public:
  explicit MpiRoundChannel(Communicator& comm);
  ~MpiRoundChannel() override;
  MpiRoundChannel(const MpiRoundChannel&) = delete;
  MpiRoundChannel& operator=(const MpiRoundChannel&) = delete;

  void listen() override;
  bool woken() override;
  void begin(const RoundVector& mine) override;
  bool test(RoundVector& result) override;
  [[noreturn]] void give_up() override;
  void leave() noexcept override;

 private:
  /// What MPI may touch at any time while something is under way.
  struct Exchange;

  [[nodiscard]] bool others_gave_up();

  Communicator& comm_;
  std::unique_ptr<Exchange> exchange_;
  std::chrono::steady_clock::time_point began_{};  ///< the last round
};

/// Whether MPI lets any thread of this process call it.
[[nodiscard]] bool any_thread_may_use_mpi();

}  // namespace reprieve::cluster
