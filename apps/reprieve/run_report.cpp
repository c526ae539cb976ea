// SPDX-License-Identifier: BSD-3-Clause
#include "run_report.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "core/event_log.hpp"
#include "handler/step_news.hpp"
#include "status.hpp"
#include "supervisor/costs.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::tool {

void TimeSums::add(const TimeSums& other) {
  for (const TimeKind& kind : time_kinds()) {
    this->*kind.seconds += other.*kind.seconds;
  }
}

double TimeSums::total_s() const {
  double total = 0;
  for (const TimeKind& kind : time_kinds()) {
    total += this->*kind.seconds;
  }
  return total;
}

std::span<const TimeKind> time_kinds() {
  static constexpr std::array kKinds{
      TimeKind{"kept", "Kept steps", "work that a checkpoint, a near copy or the end of the run has kept",
               &TimeSums::kept_s},
      TimeKind{"lost", "Lost steps", "work that had to be done again, or has to be", &TimeSums::lost_s},
      TimeKind{"unsaved", "Not saved yet", "work since the last checkpoint of a run that goes on",
               &TimeSums::unsaved_s},
      TimeKind{"save", "Saves", "the program stood still", &TimeSums::save_s},
      TimeKind{"restore", "Restore", "a checkpoint was read", &TimeSums::restore_s},
      TimeKind{"startup", "Start-up", "from the start to the first step, without the restore", &TimeSums::startup_s},
      TimeKind{"queue", "Between starts", "nothing ran: in the queue, or nobody had started it", &TimeSums::down_s},
      TimeKind{"unknown", "Unknown", "after the last word of a killed start: it worked on, or was gone already",
               &TimeSums::unknown_s},
  };
  return kKinds;
}

WorkSpan WorkSpan::cut_at(std::uint64_t step) {
  WorkSpan rest = *this;
  const double part = static_cast<double>(step - *from) / static_cast<double>(*to - *from);
  to = rest.from = step;
  work_s *= part;
  end_s = rest.begin_s = begin_s + (end_s - begin_s) * part;
  rest.work_s -= work_s;
  return rest;
}

void ReportedStart::note_that_it_reached(std::uint64_t step) {
  if (perhaps_lost_steps && step_to && step > *step_to) {
    const std::uint64_t told_later = step - *step_to;
    const bool is_more = *perhaps_lost_steps > told_later;
    perhaps_lost_steps = is_more ? std::optional(*perhaps_lost_steps - told_later) : std::nullopt;
  }
}

const char* to_string(Source source) {
  constexpr std::array kNames{"the beginning", "a checkpoint", "a near copy", "a near copy on other nodes",
                              "a near copy that was brought"};
  return kNames.at(static_cast<std::size_t>(source));
}

const char* to_string(Ending ending) {
  constexpr std::array kNames{"working", "saved", "finished", "failed", "killed", "untold"};
  return kNames.at(static_cast<std::size_t>(ending));
}

Quantiles quantiles(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  // The smallest value that so large a part of all does not exceed.
  const auto at = [&](double part) {
    const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(rank, 1) - 1];
  };
  return {at(0.5), at(0.9), values.back()};
}

RunReport report_run(const RunStatus& status, const std::vector<nlohmann::json>& events, const AdviceQuestion& question,
                     TimePoint now) {
  RunReport report = walk_events(status, events, now);
  for (const WorkSpan& span : report.spans) {
    ReportedStart& start = report.starts[span.start];
    TimeSums work;
    switch (span.fate) {
      case Fate::kept:
        work.kept_s = span.work_s;
        report.kept_steps += span.steps();
        break;
      case Fate::lost:
        work.lost_s = span.work_s;
        start.lost_steps += span.steps();
        break;
      case Fate::unsaved:
        work.unsaved_s = span.work_s;
        break;
      case Fate::untold:
        work.unknown_s = span.work_s;
        break;
    }
    start.times.add(work);
  }
  for (const ReportedStart& start : report.starts) {
    report.times.add(start.times);
    report.lost_steps += start.lost_steps;
  }
  report.advice = advise(supervisor::read_history(events), question);
  return report;
}

namespace {

Json time_sums_json(const TimeSums& times) {
  Json json = Json::object();
  for (const TimeKind& kind : time_kinds()) {
    json[std::string(kind.id) + "_s"] = times.*kind.seconds;
  }
  return json;
}

const char* to_id(Source source) {
  constexpr std::array kIds{"nothing", "checkpoint", "near_copy", "near_copy_of_other_nodes", "near_copy_brought"};
  return kIds.at(static_cast<std::size_t>(source));
}

Json start_json(const ReportedStart& start) {
  return {{"time", start.time ? Json(utc_time(*start.time)) : Json()},
          {"host", start.host},
          {"pid", start.pid},
          {"ranks", start.ranks},
          {"begin_s", start.begin_s},
          {"ready_s", start.ready_s},
          {"end_s", start.end_s},
          {"restored", to_id(start.source)},
          {"saved_by_near_copy", start.saved_by_near},
          {"step_from", or_null(start.step_from)},
          {"step_to", or_null(start.step_to)},
          {"ending", to_string(start.ending)},
          {"why", start.why},
          {"lost_steps", start.lost_steps},
          {"perhaps_lost_steps", or_null(start.perhaps_lost_steps)},
          {"times", time_sums_json(start.times)}};
}

Json save_json(const ReportedSave& save) {
  return {{"at_s", save.at_s},   {"number", save.number},   {"step", or_null(save.step)},
          {"bytes", save.bytes}, {"seconds", save.seconds}, {"blocked_s", save.blocked_s}};
}

Json near_json(const ReportedNear& near) {
  return {{"start", near.start + 1},
          {"count", near.count},
          {"seconds", near.seconds},
          {"bytes", near.bytes},
          {"partners", near.has_partners}};
}

Json reported_notice_json(const ReportedNotice& notice) {
  return {{"at_s", notice.at_s},
          {"start", notice.start + 1},
          {"source", notice.source},
          {"message", notice.message},
          {"host", notice.host},
          {"rank", notice.rank},
          {"grace_s", or_null(notice.grace_s)},
          {"agreed_s", or_null(notice.agreed_s)},
          {"committed_s", or_null(notice.committed_s)},
          {"left_s", or_null(notice.left_s)}};
}

template <class Item>
Json list_json(const std::vector<Item>& items, Json (*convert)(const Item&)) {
  Json list = Json::array();
  for (const Item& item : items) {
    list.push_back(convert(item));
  }
  return list;
}

}  // namespace

Json to_json(const RunReport& report, TimePoint now) {
  return {{"status", to_json(report.status, now)},
          {"length_s", report.length_s()},
          {"times", time_sums_json(report.times)},
          {"kept_steps", report.kept_steps},
          {"lost_steps", report.lost_steps},
          {"failed_saves", report.failed_saves},
          {"skipped_saves", report.skipped_saves},
          {"clock_set_back", report.clock_set_back},
          {"starts", list_json(report.starts, start_json)},
          {"saves", list_json(report.saves, save_json)},
          {"near_copies", list_json(report.near_copies, near_json)},
          {"notices", list_json(report.notices, reported_notice_json)},
          {"advice", to_json(report.advice)}};
}

void WorkLedger::add(const WorkSpan& span) {
  open_.push_back(spans_.size());
  spans_.push_back(span);
}

void WorkLedger::keep(std::size_t count) {
  count = std::min(count, open_.size());  // a restore may have taken some back
  for (std::size_t i = 0; i < count; ++i) {
    spans_[open_[i]].fate = Fate::kept;
    kept_.push_back(open_[i]);
  }
  open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(count));
}

void WorkLedger::go_back_to(std::uint64_t step) {
  take_back(open_, step);
  take_back(kept_, step);
}

/// The work in these spans, the last ones of which come last, beyond @p step.
void WorkLedger::take_back(std::vector<std::size_t>& places, std::uint64_t step) {
  for (; !places.empty(); places.pop_back()) {
    WorkSpan& span = spans_[places.back()];
    if (!span.to || *span.to <= step) {
      break;
    }
    if (span.from && *span.from < step) {
      split(places.back(), step);
      break;
    }
    span.fate = Fate::lost;
  }
}

/// The part of a span of work beyond @p step is lost.
void WorkLedger::split(std::size_t place, std::uint64_t step) {
  WorkSpan lost = spans_[place].cut_at(step);
  lost.fate = Fate::lost;
  spans_.push_back(lost);
}

std::uint64_t WorkLedger::bring_back(std::uint64_t step) {
  std::uint64_t steps = 0;
  const std::vector<std::size_t> places = std::exchange(perhaps_lost_, {});
  for (const std::size_t place : places) {
    WorkSpan& span = spans_[place];
    if (place == places.back() && span.to && *span.to < step) {
      span.to = step;  // it had come further than it had told
    }
    if (span.from && *span.from >= step) {
      continue;
    }
    span.fate = Fate::kept;
    kept_.push_back(place);
    if (span.from && span.to && *span.to > step) {
      split(place, step);
    }
    steps += spans_[place].steps();
  }
  return steps;
}

void WorkLedger::end_start(Fate fate) {
  for (const std::size_t place : open_) {
    spans_[place].fate = fate;
  }
  if (fate != Fate::lost) {
    perhaps_lost_.clear();
  } else if (!open_.empty()) {
    perhaps_lost_ = open_;
  }
  open_.clear();
}

namespace {

using ChiefStage = supervisor::ChiefProgress::Stage;

/// Goes through the events. Within a start the monotonic clock counts, between two of them the wall clock.
class EventWalk {
 public:
  EventWalk() = default;
  EventWalk(const EventWalk&) = delete;
  EventWalk& operator=(const EventWalk&) = delete;

  RunReport walk(const RunStatus& status, const std::vector<LogEvent>& events, TimePoint now) {
    report_.status = status;
    for (const LogEvent& event : events) {
      take(event);
    }
    if (!report_.starts.empty()) {
      end_last_start(status, now);
    }
    return std::move(report_);
  }

 private:
  using Reaction = void (EventWalk::*)(const LogEvent&);
  static const std::map<std::string, Reaction>& reactions() {
    static const std::map<std::string, Reaction> table{
        {"restore_started", &EventWalk::on_restore_started},
        {"restore", &EventWalk::on_restore},
        {"restore_failed", &EventWalk::on_restore_ended},
        {"passed_over", &EventWalk::on_restore_ended},
        {"drain_started", &EventWalk::on_drain_started},
        {"near_copies", &EventWalk::on_near_copies},
        {"ready", &EventWalk::on_ready},
        {"step", &EventWalk::on_step},
        {"steps", &EventWalk::on_steps},
        {"notice", &EventWalk::on_notice},
        {"agreement", &EventWalk::on_agreement},
        {"save_started", &EventWalk::on_save_started},
        {"save_finished", &EventWalk::on_save_finished},
        {"save_failed", &EventWalk::on_save_failed},
        {"save_skipped", &EventWalk::on_save_skipped},
        {"exit", &EventWalk::on_exit},
        {"finished", &EventWalk::on_finished},
    };
    return table;
  }

  /// What the time that passes is counted as.
  enum class Phase { startup, restore, work };

  void take(const LogEvent& event) {
    const std::string name = text_in(event, "event");
    if (name == "start") {
      on_start(event);
      return;
    }
    if (report_.starts.empty()) {
      return;  // the beginning of the log is missing
    }
    pass_time(event);
    chief_.take(event);
    if (const auto reaction = reactions().find(name); reaction != reactions().end()) {
      (this->*reaction->second)(event);
    }
    if (name != "ready" && name != "restore") {
      tell_step(event);
    }
  }

  void pass_time(const LogEvent& event) {
    if (const auto monotonic = number_in(event, "monotonic_s")) {
      spend(plausible(*monotonic - monotonic_s_.value_or(*monotonic)).value_or(0));
      monotonic_s_ = monotonic;
    }
    if (const auto wall = wall_clock_in(event)) {
      wall_s_ = wall;
    }
  }

  void spend(double seconds) {
    now_s_ += seconds;
    current().end_s = now_s_;
    switch (phase_) {
      case Phase::startup:
        current().times.startup_s += seconds;
        startup_s_ += seconds;
        break;
      case Phase::restore:
        current().times.restore_s += seconds;
        break;
      case Phase::work:
        span_->work_s += seconds;
        span_->end_s = now_s_;
        break;
    }
  }

  void on_start(const LogEvent& event) {
    const auto wall = wall_clock_in(event);
    double gap_s = 0;
    if (!report_.starts.empty()) {
      if (wall && wall_s_) {
        report_.clock_set_back |= *wall < *wall_s_;
        gap_s = plausible(*wall - *wall_s_).value_or(0);
      }
      end_start(gap_s);
    }
    chief_.take(event);
    saves_ = has_handler_ = false;
    phase_ = Phase::startup;
    startup_s_ = 0;
    monotonic_s_ = number_in(event, "monotonic_s");
    wall_s_ = wall ? wall : wall_s_;
    ReportedStart start;
    start.time = core::time_of_event(text_in(event, "time"));
    start.host = chief_.host;
    start.pid = chief_.pid;
    start.ranks = chief_.world_size;
    start.begin_s = start.end_s = start.ready_s = now_s_;
    report_.starts.push_back(std::move(start));
  }

  void on_restore_started(const LogEvent& event) {
    close_span();
    startup_s_ = 0;
    phase_ = Phase::restore;
    restoring_ = text_in(event, "file");
    if (!current().restore_begin_s) {
      current().restore_begin_s = now_s_;
    }
  }
  void on_restore_ended(const LogEvent&) {
    if (phase_ == Phase::restore) {
      phase_ = Phase::startup;
      startup_s_ = 0;
      current().restore_end_s = now_s_;
    }
  }
  void on_restore(const LogEvent& event) {
    on_restore_ended(event);
    const auto step = count_in(event, "run_calls");
    if (text_in(event, "file").ends_with(".part")) {
      current().source = Source::near_copy;
    } else if (current().source == Source::nothing) {
      current().source = Source::checkpoint;
    }
    if (step) {
      current().saved_by_near += ledger_.bring_back(*step);
      if (report_.starts.size() > 1) {
        report_.starts[report_.starts.size() - 2].note_that_it_reached(*step);
      }
    }
    begin_at(step);
  }
  void on_drain_started(const LogEvent& event) {
    current().source = flag_in(event, "brought") ? Source::rescued : Source::nodes;
  }
  void on_near_copies(const LogEvent& event) {
    const std::size_t start = report_.starts.size() - 1;
    if (report_.near_copies.empty() || report_.near_copies.back().start != start) {
      report_.near_copies.push_back({.start = start});
    }
    ReportedNear& near = report_.near_copies.back();
    near.count = count_in(event, "count").value_or(0);
    near.seconds = plausible(number_in(event, "seconds")).value_or(0);
    near.bytes = count_in(event, "bytes").value_or(0);
    near.has_partners = flag_in(event, "partner");
  }

  void on_ready(const LogEvent& event) {
    has_handler_ = true;
    begin_at(count_in(event, "run_calls"));
    begin_work();
  }

  /// The start goes on from this step: what was done beyond it is lost, checkpoint or not.
  void begin_at(std::optional<std::uint64_t> step) {
    if (!step) {
      return;
    }
    current().step_from = current().step_to = step;
    report_.points.push_back({report_.starts.size() - 1, now_s_, *step});
    ledger_.go_back_to(*step);
  }

  void begin_work() {
    if (phase_ != Phase::work) {
      current().ready_s = now_s_;
      open_span();
      startup_s_ = 0;
      phase_ = Phase::work;
    }
  }

  /// Without a handler nobody says when the work begins: all since the start or the restore is counted as such.
  void begin_work_in_retrospect() {
    const double work_s = startup_s_;
    begin_work();
    current().times.startup_s -= work_s;
    current().ready_s = span_->begin_s = now_s_ - work_s;
    span_->work_s = work_s;
  }

  void open_span() {
    span_ = WorkSpan{.start = report_.starts.size() - 1, .begin_s = now_s_, .end_s = now_s_};
    span_->from = span_->to = current().step_to;
  }

  void close_span() {
    if (span_) {
      ledger_.add(*span_);
      span_.reset();
    }
  }

  void tell_step(const LogEvent& event) {
    const auto step = count_in(event, "run_calls");
    if (!step || *step < current().step_to.value_or(0)) {
      return;  // of a save in the background: an older step
    }
    current().step_to = step;
    if (span_) {
      span_->to = step;
      span_->from = span_->from ? span_->from : step;
    }
    report_.points.push_back({report_.starts.size() - 1, now_s_, *step});
  }

  void on_save_started(const LogEvent& event) {
    tell_step(event);
    if (phase_ != Phase::work) {
      begin_work_in_retrospect();
    }
    close_span();
    open_span();
    saving_ = Saving{count_in(event, "number"), ledger_.open()};
  }

  void on_save_finished(const LogEvent& event) {
    const auto number = count_in(event, "number");
    if (!saving_ || saving_->number != number || !span_) {  // the line of its beginning was cut
      on_save_started(event);
    }
    const double seconds = plausible(number_in(event, "seconds")).value_or(0);
    const double blocked_s = plausible(number_in(event, "blocked_seconds")).value_or(seconds);
    stood_still(blocked_s);
    if (const auto reason = event.find("reason"); reason != event.end() && reason->is_object()) {
      saves_by_itself_ |= text_in(*reason, "kind") != "preemption";
    }
    if (const std::size_t count = std::min(saving_->spans, ledger_.open()); count > 0) {
      interval_s_ = std::max(interval_s_, ledger_.open_span(count - 1).work_s);
    }
    ledger_.keep(saving_->spans);
    saving_.reset();
    saves_ = true;
    report_.saves.push_back({now_s_, number.value_or(0), count_in(event, "run_calls"),
                             count_in(event, "bytes").value_or(0), seconds, blocked_s});
    if (ReportedNotice* notice = open_notice(); notice != nullptr && !notice->committed_s) {
      notice->committed_s = since(*notice);
    }
  }

  /// How much of a failed save in the background the program stood still is not known: all of it is taken.
  void on_save_failed(const LogEvent&) {
    ++report_.failed_saves;
    if (saving_ && span_) {
      stood_still(span_->work_s);
    }
    saving_.reset();
  }
  void on_save_skipped(const LogEvent&) { ++report_.skipped_saves; }

  void stood_still(double seconds) {
    const double part = std::min(seconds, span_->work_s);
    span_->work_s -= part;
    current().times.save_s += part;
  }

  void keep_all() {
    const bool works = span_.has_value();
    close_span();
    ledger_.keep(ledger_.open());
    saving_.reset();
    if (works) {
      open_span();  // it may go on
    }
  }

  void on_step(const LogEvent& event) {
    tells_steps_ = true;
    note_step_length(event, "step_s");
  }
  void on_steps(const LogEvent& event) { note_step_length(event, "longest_step_s"); }
  void note_step_length(const LogEvent& event, const char* key) {
    longest_step_s_ = std::max(longest_step_s_, plausible(number_in(event, key)).value_or(0));
  }

  void on_notice(const LogEvent& event) {
    ReportedNotice notice;
    const double age_s = plausible(number_in(event, "age_s")).value_or(0);
    notice.at_s = now_s_ - age_s;
    notice.start = report_.starts.size() - 1;
    notice.source = text_in(event, "source");
    notice.message = text_in(event, "message");
    notice.host = text_in(event, "host");
    notice.rank = small_number_in(event, "rank", -1);
    if (const auto left_s = number_in(event, "time_left_s")) {
      notice.grace_s = plausible(*left_s + age_s);
    }
    report_.notices.push_back(std::move(notice));
  }
  void on_agreement(const LogEvent& event) {
    if (ReportedNotice* notice = open_notice()) {
      notice->agreed_s = plausible(number_in(event, "seconds_from_notice").value_or(since(*notice)));
    }
  }
  void on_exit(const LogEvent& event) {
    tell_step(event);
    if (ReportedNotice* notice = open_notice()) {
      notice->left_s = since(*notice);
    }
    keep_all();
  }
  void on_finished(const LogEvent& event) {
    tell_step(event);
    keep_all();
    ledger_.forget_kept();  // a run that begins anew takes nothing away from one that came to its end
  }

  ReportedNotice* open_notice() {
    const bool is_open = !report_.notices.empty() && report_.notices.back().start + 1 == report_.starts.size();
    return is_open ? &report_.notices.back() : nullptr;
  }
  [[nodiscard]] double since(const ReportedNotice& notice) const { return now_s_ - notice.at_s; }

  [[nodiscard]] Ending ending() const {
    switch (chief_.stage) {
      case ChiefStage::saved:
        return Ending::saved;
      case ChiefStage::failed:
        return Ending::failed;
      case ChiefStage::finished:
        return Ending::finished;
      default:
        return saves_ && !has_handler_ ? Ending::untold : Ending::killed;
    }
  }

  void end_last_start(const RunStatus& status, TimePoint now) {
    const bool works =
        status.state == RunState::starting || status.state == RunState::running || status.state == RunState::leaving;
    if (!works) {
      end_start(0);
      return;
    }
    const double now_s = std::chrono::duration<double>(now.time_since_epoch()).count();
    spend(plausible(now_s - wall_s_.value_or(now_s)).value_or(0));
    current().ending = Ending::working;
    finish_spans(Fate::unsaved);
  }

  void end_start(double gap_s) {
    ReportedStart& start = current();
    start.ending = ending();
    start.why = why();
    const bool is_told = start.ending != Ending::killed && start.ending != Ending::untold;
    const double told_s = span_ ? span_->work_s : 0;
    finish_spans(fate_of_rest(start.ending));
    const double perhaps_s = is_told || phase_ != Phase::work ? 0 : std::min(gap_s, longest_silence_s(told_s));
    start.times.unknown_s += perhaps_s;
    start.times.down_s += gap_s - perhaps_s;
    if (start.ending == Ending::killed && start.times.unknown_s > 0) {
      start.perhaps_lost_steps = steps_in(start.times.unknown_s);
    }
    now_s_ += gap_s;
  }

  /// For so long a start can work after its last word: it tells its step now and then, and when it saves.
  /// @param told_s  its work since the last save, up to its last word
  [[nodiscard]] double longest_silence_s(double told_s) {
    double longest_s = kLongestTime;
    if (saves_by_itself_) {
      longest_s = std::max(0.0, interval_s_ - told_s);
    }
    if (tells_steps_) {
      const std::chrono::duration<double> worked(std::clamp(current().end_s - current().ready_s, 0.0, kLongestTime));
      const auto news = handler::news_interval(std::chrono::duration_cast<std::chrono::nanoseconds>(worked));
      longest_s = std::min(longest_s, std::chrono::duration<double>(news).count() + longest_step_s_);
    }
    return longest_s;
  }

  /// What becomes of the work after the last save.
  static Fate fate_of_rest(Ending ending) {
    if (ending == Ending::untold) {
      return Fate::untold;
    }
    return ending == Ending::saved || ending == Ending::finished ? Fate::kept : Fate::lost;
  }

  void finish_spans(Fate fate) {
    close_span();
    ledger_.end_start(fate);
    saving_.reset();
    if (current().ready_s == current().begin_s && phase_ != Phase::work) {
      current().ready_s = current().end_s;
    }
  }

  /// By the pace of this start.
  [[nodiscard]] std::optional<std::uint64_t> steps_in(double seconds) const {
    double steps = 0, work_s = 0;
    for (auto span = report_.spans.rbegin(); span != report_.spans.rend() && is_of_this_start(*span); ++span) {
      steps += static_cast<double>(span->steps());
      work_s += span->steps() > 0 ? span->work_s : 0;
    }
    const double count = work_s > 0 ? seconds * steps / work_s : 0;
    return count >= 1 && count < 1e15 ? std::optional(static_cast<std::uint64_t>(count)) : std::nullopt;
  }
  [[nodiscard]] bool is_of_this_start(const WorkSpan& span) const { return span.start + 1 == report_.starts.size(); }

  [[nodiscard]] std::string why() {
    switch (ending()) {
      case Ending::failed:
        return chief_.error ? chief_.error->message : "";
      case Ending::saved:
        return open_notice() != nullptr ? open_notice()->source : "";
      case Ending::killed:
        return why_killed();
      default:
        return "";
    }
  }

  [[nodiscard]] std::string why_killed() {
    if (phase_ == Phase::restore) {
      return "while it read " + restoring_;
    }
    if (chief_.leaving && open_notice() != nullptr) {
      return "after a notice (" + open_notice()->source + "), before its state was saved";
    }
    if (saving_) {
      return "during a save";
    }
    return phase_ == Phase::work ? "while it worked" : "before its first step";
  }

  ReportedStart& current() { return report_.starts.back(); }

  struct Saving {
    std::optional<std::uint64_t> number;
    std::size_t spans = 0;  ///< open ones, which the save keeps
  };

  RunReport report_;
  supervisor::ChiefProgress chief_;
  double now_s_ = 0;  ///< since the first start
  std::optional<double> wall_s_;
  std::optional<double> monotonic_s_;
  Phase phase_ = Phase::startup;
  double startup_s_ = 0;  ///< since the start, or since the restore
  bool saves_ = false;
  bool has_handler_ = false;
  bool saves_by_itself_ = false;  ///< also without a notice
  double interval_s_ = 0;         ///< the longest work between two saves
  bool tells_steps_ = false;      ///< programs with an older library do not
  double longest_step_s_ = 0;
  std::string restoring_;
  std::optional<Saving> saving_;
  std::optional<WorkSpan> span_;  ///< the work of now
  WorkLedger ledger_{report_.spans};
};

}  // namespace

RunReport walk_events(const RunStatus& status, const std::vector<nlohmann::json>& events, TimePoint now) {
  return EventWalk().walk(status, events, now);
}

}  // namespace reprieve::tool
