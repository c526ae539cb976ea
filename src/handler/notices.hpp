// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The notices of a handler: those that this rank got, those that it sent, and those that all ranks agreed on. Who acts
/// when one waits for too long.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "cluster/communicator.hpp"
#include "reprieve/notice.hpp"
#include "termination/notice_sources.hpp"

namespace reprieve::handler {

/// Not thread-safe but for `has_news` and `stands`.
class Notices {
 public:
  Notices(cluster::Communicator& comm, const termination::SourceSettings& settings) : comm_(comm), sources_(settings) {}

  // What this rank knows.
  /// From now on it has a notice that comes from no source: until `saved`, or for the life of a rank that leaves.
  void give(std::string source, std::string message);
  /// Its notice, if it has one.
  [[nodiscard]] std::optional<termination::LocalNotice> own() const;
  /// Whether it may have one. Cost: a few loads.
  [[nodiscard]] bool any() const noexcept { return sources_.any(); }
  /// The deadline that the others get. A notice without a deadline leaves no time, even if another rank was granted
  /// some.
  static std::chrono::steady_clock::time_point deadline_of(const termination::LocalNotice& notice);
  void note_sent(std::chrono::steady_clock::time_point deadline) noexcept;
  /// It may have one that it has not sent. Cost: a few loads.
  [[nodiscard]] bool any_unsent() const noexcept { return sources_.any() && sent_deadline_ == kNothingReported; }
  /// What was sent no longer counts: it is agreed on again.
  void forget_sent() noexcept { sent_deadline_ = kNothingReported; }
  /// A source has hinted at an end that is likely but not announced, since this was last asked: a reason for a
  /// checkpoint, and for nothing else.
  [[nodiscard]] bool take_hint();
  /// Whether this rank knows something that the others do not. In any thread.
  [[nodiscard]] bool has_news();

  /// Whether this rank knows of a notice, its own or another's, that is not dealt with. In any thread. Cost: some
  /// loads.
  [[nodiscard]] bool stands() const noexcept { return is_agreed_ || sources_.any(); }

  // What all ranks know.
  [[nodiscard]] const std::optional<TerminationNotice>& agreed() const noexcept { return agreed_; }
  /// All ranks learn of the notice that came first of all. @p one_of_them is a rank that has one. Collective; a rank
  /// that throws has agreed on none.
  void share(int one_of_them);
  void drop_agreed() noexcept {
    agreed_.reset();
    is_agreed_ = false;
  }
  /// The same for other threads.
  [[nodiscard]] const std::shared_ptr<termination::NoticeBoard>& board() const noexcept { return board_; }

  /// At a boundary while a source has a notice that nothing is done about. Steps that were short when the checks were
  /// planned may have got longer: that is logged once. @p boundaries_left are those until it is acted on.
  template <class BoundariesLeft>
  void report_if_one_waits(std::int64_t boundary, const BoundariesLeft& boundaries_left) {
    if (!agreed_ && !reported_wait_ && waits_for_long(boundary)) {
      report_wait(boundaries_left());
    }
  }

  /// The state is saved, and this rank leaves.
  void saved();
  /// The notices were acted on.
  void acknowledge() { sources_.acknowledge(); }

 private:
  void heed_hints();
  [[nodiscard]] int earliest_rank(int otherwise);
  [[nodiscard]] TerminationNotice gather_from(int rank);
  [[nodiscard]] bool waits_for_long(std::int64_t boundary);
  void report_wait(std::int64_t boundaries_left);

  using Ticks = std::chrono::steady_clock::rep;
  static constexpr Ticks kNothingReported = std::numeric_limits<Ticks>::max();

  cluster::Communicator& comm_;
  termination::NoticeSources sources_;
  std::optional<termination::LocalNotice> given_;
  std::atomic<bool> hinted_{false};                     ///< and nothing is saved for it yet
  std::atomic<Ticks> sent_deadline_{kNothingReported};  ///< of this rank's notice, as the others know it
  std::optional<TerminationNotice> agreed_;
  std::atomic<bool> is_agreed_{false};
  std::shared_ptr<termination::NoticeBoard> board_ = std::make_shared<termination::NoticeBoard>();
  std::optional<std::int64_t> waits_since_;  ///< the first boundary at which this rank saw one that is not agreed on
  bool reported_wait_ = false;
};

// A thread that acts when a notice has stood for too long: the program may be in a step that does not end in time.

/// Its end waits for a call that is under way.
class NoticeWatch {
 public:
  /// @param has_notice  asked in the thread, some times in each second
  /// @param act  called in the thread, once for each time that a notice has stood for @p after without an end
  /// @throws std::system_error if the system has no more threads
  NoticeWatch(std::function<bool()> has_notice, std::chrono::milliseconds after, std::function<void()> act);
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

 private:
  void watch(const std::stop_token& stop);

  const std::function<bool()> has_notice_;
  const std::chrono::milliseconds after_;
  const std::function<void()> act_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace reprieve::handler
