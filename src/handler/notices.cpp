// SPDX-License-Identifier: BSD-3-Clause
#include "handler/notices.hpp"

#include <optional>
#include <tuple>
#include <utility>

#include "core/log.hpp"
#include "core/threads.hpp"
#include "core/values.hpp"
#include "handler/run_log.hpp"

namespace reprieve::handler {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr const char* kSharing = "sharing a termination notice";

/// A notice that waits for a shorter time is not reported, however many steps that are.
constexpr std::chrono::milliseconds kShortWait{10};
/// Steps after which a notice is acted on where the steps are as long as the checks were planned for.
constexpr std::int64_t kUsualWait = 2;
/// Seldom enough to be lost among what else an idle system does, and soon beside any grace period.
constexpr std::chrono::milliseconds kNoticePoll{100};

}  // namespace

std::optional<termination::LocalNotice> Notices::own() const { return given_ ? given_ : sources_.current(); }

void Notices::give(std::string source, std::string message) {
  given_ = termination::LocalNotice{std::move(source), std::move(message), Clock::now(), std::nullopt};
}

Clock::time_point Notices::deadline_of(const termination::LocalNotice& notice) {
  return notice.deadline.value_or(notice.time);
}

void Notices::note_sent(Clock::time_point deadline) noexcept { sent_deadline_ = deadline.time_since_epoch().count(); }

void Notices::heed_hints() {
  if (const auto hint = sources_.take_hint()) {
    core::log::info("{}: saving, and continuing", *hint);
    hinted_ = true;
  }
}

bool Notices::take_hint() {
  heed_hints();
  return hinted_.exchange(false);
}

bool Notices::has_news() {
  heed_hints();
  if (hinted_) {
    return true;
  }
  if (!sources_.any()) {
    return false;
  }
  const auto local = sources_.current();
  return local && deadline_of(*local).time_since_epoch().count() < sent_deadline_;
}

/// By the clocks of the day, which only name the rank here: nothing is decided by them. Among equals the lowest.
int Notices::earliest_rank(int otherwise) {
  constexpr const char* what = "looking for the first notice";
  constexpr auto kNone = std::numeric_limits<std::int64_t>::min();
  std::int64_t mine = kNone;
  if (const auto local = own()) {
    const auto time = std::chrono::system_clock::now().time_since_epoch() - (Clock::now() - local->time);
    mine = -std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  }
  const std::int64_t first = comm_.max(mine, what);
  const std::int64_t mark = comm_.max(mine == first ? comm_.size() - comm_.rank() : 0, what);
  return first == kNone ? otherwise : comm_.size() - static_cast<int>(mark);
}

TerminationNotice Notices::gather_from(int rank) {
  const auto now = Clock::now();
  // Ages and not times, as the clocks of the ranks differ.
  std::tuple<std::string, std::string, Seconds, std::optional<Seconds>> notice;
  if (comm_.rank() == rank) {
    const auto mine = own().value_or(termination::LocalNotice{"unknown", "", now, std::nullopt});
    const auto left = mine.deadline ? std::optional<Seconds>(*mine.deadline - now) : std::nullopt;
    notice = {mine.source, mine.message, now - mine.time, left};
  }
  const auto [source, message, age, time_left] = comm_.from_root(notice, rank, kSharing);
  TerminationNotice shared{
      rank, comm_.host_of(rank), source, message, now - std::chrono::duration_cast<Clock::duration>(age), {}};
  if (time_left) {
    shared.deadline = core::later(now, *time_left);
  }
  return shared;
}

void Notices::share(int one_of_them) {
  const int rank = earliest_rank(one_of_them);
  waits_since_.reset();
  reported_wait_ = false;
  agreed_ = gather_from(rank);
  is_agreed_ = true;
  const auto age = std::chrono::duration_cast<std::chrono::system_clock::duration>(Clock::now() - agreed_->time);
  board_->post({rank, agreed_->host, agreed_->source, agreed_->message, std::chrono::system_clock::now() - age});
}

bool Notices::waits_for_long(std::int64_t boundary) {
  if (!waits_since_) {
    waits_since_ = boundary;
    return false;
  }
  const auto local = own();
  return local && boundary - *waits_since_ >= kUsualWait && Clock::now() - local->time >= kShortWait;
}

void Notices::report_wait(std::int64_t boundaries_left) {
  reported_wait_ = true;
  const auto local = own();
  core::log::warning(
      "a notice ({}) has waited for more than two steps, {} so far: the steps have got longer than they were "
      "when the last check was planned; all ranks act on it in {} step boundaries. begin_phase() before longer steps "
      "makes that one",
      local ? local->source : "gone", core::seconds_text(local ? seconds_since(local->time) : 0.0), boundaries_left);
}

void Notices::saved() {
  given_.reset();
  sources_.saved();
}

NoticeWatch::NoticeWatch(std::function<bool()> has_notice, std::chrono::milliseconds after, std::function<void()> act)
    : has_notice_(std::move(has_notice)), after_(after), act_(std::move(act)) {
  const core::SignalsBlocked blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void NoticeWatch::watch(const std::stop_token& stop) {
  std::chrono::steady_clock::time_point since;  // the first check that found a notice
  bool stands = false;
  bool has_acted = false;
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, stop, kNoticePoll, [&] { return stop.stop_requested(); })) {
    try {
      if (!has_notice_()) {
        stands = has_acted = false;
        continue;
      }
      const auto now = std::chrono::steady_clock::now();
      if (!std::exchange(stands, true)) {
        since = now;
      }
      if (!has_acted && now - since >= after_) {
        has_acted = true;
        act_();
      }
    } catch (const std::exception& error) {
      core::log::warning("a notice has stood for long, and nothing could be done about it: {}", error.what());
    }
  }
}

}  // namespace reprieve::handler
