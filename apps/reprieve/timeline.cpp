// SPDX-License-Identifier: BSD-3-Clause
#include "timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <sstream>
#include <utility>

namespace reprieve::tool {

namespace {

Json time_sums_json(const TimeSums& times) {
  Json json = Json::object();
  for (std::size_t kind = 0; kind < times.size(); ++kind) {
    json[std::string(kTimeKinds[kind]) + "_s"] = times[kind];
  }
  return json;
}

/// Thirty years: a time beyond it is none, but a broken log.
constexpr double kLongestTime = 1e9;

/// Nothing unless @p seconds is a time that somebody can have waited.
std::optional<double> plausible(std::optional<double> seconds) {
  return seconds && *seconds >= 0 && *seconds < kLongestTime ? seconds : std::nullopt;
}

/// Seconds since 1970, with the fraction. @param text  the time of an event
std::optional<double> wall_clock_of(const std::string& text) {
  const auto whole = core::time_of_event(text);
  if (!whole) {
    return std::nullopt;
  }
  double fraction = 0;
  if (const auto dot = text.find('.'); dot != std::string::npos) {
    std::from_chars(text.data() + dot, text.data() + text.size(), fraction);
  }
  return std::chrono::duration<double>(whole->time_since_epoch()).count() + fraction;
}

Json start_json(const ReportedStart& start) {
  return {{"time", or_null(start.time)},
          {"host", start.event.host},
          {"pid", start.event.pid},
          {"ranks", start.event.world_size},
          {"begin_s", start.begin_s},
          {"ready_s", start.ready_s},
          {"restore_begin_s", or_null(start.restore_begin_s)},
          {"restore_end_s", or_null(start.restore_end_s)},
          {"end_s", start.end_s},
          {"restored", name_of(start.source, {"nothing", "checkpoint", "local_copy", "local_copy_of_other_nodes",
                                              "local_copy_flushed"})},
          {"saved_by_local_copy", start.saved_by_local},
          {"step_from", or_null(start.step_from)},
          {"step_to", or_null(start.step_to)},
          {"ending",
           name_of(start.ending, {"working", "working", "working", "saved", "finished", "failed", "killed", "untold"})},
          {"why", start.why},
          {"lost_steps", start.lost_steps},
          {"perhaps_lost_steps", or_null(start.perhaps_lost_steps)},
          {"times", time_sums_json(start.times)}};
}

Json save_json(const ReportedSave& save) {
  return {{"at_s", save.at_s},   {"number", save.number},   {"step", or_null(save.step)},
          {"bytes", save.bytes}, {"seconds", save.seconds}, {"blocked_s", save.blocked_s}};
}

Json local_json(const ReportedLocalCopies& local) {
  return {{"start", local.start + 1},
          {"count", local.count},
          {"seconds", local.seconds},
          {"bytes", local.bytes},
          {"partners", local.has_partners}};
}

Json reported_notice_json(const ReportedNotice& notice) {
  return {{"at_s", notice.at_s},
          {"start", notice.start + 1},
          {"source", notice.event.source},
          {"message", notice.event.message},
          {"host", notice.event.host},
          {"rank", notice.event.rank},
          {"grace_s", or_null(notice.grace_s)},
          {"agreed_s", or_null(notice.agreed_s)},
          {"committed_s", or_null(notice.committed_s)},
          {"left_s", or_null(notice.left_s)}};
}

/// Neighbours with the same fate are one.
Json spans_json(const std::vector<WorkSpan>& spans) {
  Json list = Json::array();
  for (auto span = spans.begin(); span != spans.end();) {
    const auto end = std::find_if(
        span, spans.end(), [&](const WorkSpan& one) { return one.start != span->start || one.fate != span->fate; });
    list.push_back({{"start", span->start + 1},
                    {"begin_s", span->begin_s},
                    {"end_s", std::prev(end)->end_s},
                    {"fate", kTimeKinds[span->fate]}});
    span = end;
  }
  return list;
}

/// The steps over time, as many as a picture can show, and the last of each start.
Json points_json(const RunReport& report) {
  Json list = Json::array();
  const StepPoint* last = nullptr;
  for (auto point = report.points.begin(); point != report.points.end(); ++point) {
    const bool ends_start = std::next(point) == report.points.end() || std::next(point)->start != point->start;
    if (last == nullptr || last->start != point->start || ends_start ||
        point->at_s >= last->at_s + report.length_s() / 2000) {
      list.push_back({{"start", point->start + 1}, {"at_s", point->at_s}, {"step", point->step}});
      last = &*point;
    }
  }
  return list;
}

/// Takes the events of --after-commit, which the supervisor writes, with its clock: they say nothing of where the time
/// of the run went. False for all others.
struct CopyEvents {
  RunStatus& status;
  std::optional<TimePoint> time;

  bool operator()(const auto&) const { return false; }
  bool operator()(const events::AfterCommitStarted& e) const {
    return note(e, {.state = CopyState::copying, .host = e.host, .pid = e.pid});
  }
  bool operator()(const events::AfterCommit& e) const { return note(e, {.state = CopyState::copied, .code = e.code}); }
  bool operator()(const events::AfterCommitFailed& e) const {
    return note(e, {.state = CopyState::failed, .code = e.code, .message = e.message});
  }
  bool operator()(const events::AfterCommitRetired& e) const {
    status.copies.erase(e.file);
    return true;
  }
  bool note(const auto& event, RemoteCopy copy) const {
    copy.time = time;
    copy.attempt = event.attempt;
    copy.attempts = event.attempts;
    status.last_copy = event.file;
    status.copies[event.file] = std::move(copy);
    return true;
  }
};

/// What becomes of the work after the last save.
TimeKind fate_of_rest(RunState ending) {
  const bool is_kept = ending == RunState::saved || ending == RunState::finished;
  return is_kept ? kKept : ending == RunState::ended ? kUnknown : kLost;
}

/// The work of the starts, by what became of it.
void sum_up(RunReport& report) {
  for (const WorkSpan& span : report.spans) {
    ReportedStart& start = report.starts[span.start];
    start.times[span.fate] += span.work_s;
    if (span.fate == kKept) {
      report.kept_steps += span.steps();
    } else if (span.fate == kLost) {
      start.lost_steps += span.steps();
    }
  }
  for (const ReportedStart& start : report.starts) {
    std::ranges::transform(report.times, start.times, report.times.begin(), std::plus());
    report.lost_steps += start.lost_steps;
  }
}

}  // namespace

/// Which pieces of work are kept, while the events of a run are gone through.
class WorkAccounting {
 public:
  /// Of all starts so far.
  [[nodiscard]] const std::vector<WorkSpan>& spans() const noexcept { return spans_; }
  /// How many pieces of this start nothing has kept.
  [[nodiscard]] std::size_t open() const noexcept { return open_.size(); }
  [[nodiscard]] const WorkSpan& open_span(std::size_t index) const { return spans_[open_[index]]; }

  /// A piece of work of this start is over; nothing has kept it yet.
  void add(const WorkSpan& span) {
    open_.push_back(spans_.size());
    spans_.push_back(span);
  }

  /// The first @p count of these are kept.
  void keep(std::size_t count) {
    count = std::min(count, open_.size());  // a restore may have taken some back
    for (std::size_t i = 0; i < count; ++i) {
      spans_[open_[i]].fate = kKept;
      kept_.push_back(open_[i]);
    }
    open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  /// No later start goes back behind what is kept.
  void forget_kept() { kept_.clear(); }

  /// A start resumes from @p step: all work beyond it is lost, whatever had kept it.
  void go_back_to(std::uint64_t step) {
    take_back(open_, step);
    take_back(kept_, step);
  }

  /// Work of the start before that nothing had kept, up to @p step, is there again: a node-local copy held it. Returns
  /// how many steps.
  std::uint64_t bring_back(std::uint64_t step) {
    std::uint64_t steps = 0;
    const std::vector<std::size_t> indexes = std::exchange(perhaps_lost_, {});
    for (const std::size_t index : indexes) {
      WorkSpan& span = spans_[index];
      if (index == indexes.back() && span.to && *span.to < step) {
        span.to = step;  // it had come further than it had reported
      }
      if (span.from && *span.from >= step) {
        continue;
      }
      span.fate = kKept;
      kept_.push_back(index);
      if (span.from && span.to && *span.to > step) {
        lose_beyond(index, step);
      }
      steps += spans_[index].steps();
    }
    return steps;
  }

  /// The start has ended: this becomes of what nothing has kept.
  void end_start(TimeKind fate) {
    for (const std::size_t index : open_) {
      spans_[index].fate = fate;
    }
    if (fate != kLost) {
      perhaps_lost_.clear();
    } else if (!open_.empty()) {
      perhaps_lost_ = open_;
    }
    open_.clear();
  }

 private:
  /// Loses the work beyond @p step. The newest spans come last.
  void take_back(std::vector<std::size_t>& indexes, std::uint64_t step) {
    for (; !indexes.empty(); indexes.pop_back()) {
      WorkSpan& span = spans_[indexes.back()];
      if (!span.to || *span.to <= step) {
        break;
      }
      if (span.from && *span.from < step) {
        lose_beyond(indexes.back(), step);
        break;
      }
      span.fate = kLost;
    }
  }

  /// Splits a span, whose steps are known: the part beyond @p step, which lies in it, is lost.
  void lose_beyond(std::size_t index, std::uint64_t step) {
    WorkSpan& span = spans_[index];
    WorkSpan lost = span;
    const double part = static_cast<double>(step - *span.from) / static_cast<double>(*span.to - *span.from);
    span.to = lost.from = step;
    span.work_s *= part;
    span.end_s = lost.begin_s = span.begin_s + (span.end_s - span.begin_s) * part;
    lost.work_s -= span.work_s;
    lost.fate = kLost;
    spans_.push_back(lost);
  }

  std::vector<WorkSpan> spans_;
  std::vector<std::size_t> open_;          ///< indices of spans of this start
  std::vector<std::size_t> perhaps_lost_;  ///< of the last start that had some
  std::vector<std::size_t> kept_;          ///< those that a later start can still go back behind, oldest first
};

/// Each event is taken once, as it comes. Within a start the monotonic clock counts, between two of them the wall
/// clock.
class Timeline::Fold {
 public:
  void take(const core::LoggedEvent& logged) {
    if (std::visit(CopyEvents{status_, core::time_of_event(logged.time)}, logged.event)) {
      return;
    }
    if (std::holds_alternative<events::Start>(logged.event)) {
      end_before(logged);
    } else if (report_.starts.empty()) {
      return;  // the beginning of the log is missing
    } else {
      pass_time(logged);
    }
    clock_s_ = logged.monotonic_s.value_or(0);
    event_time_ = core::time_of_event(logged.time);
    manager_.take(logged);
    const auto step = core::step_of(logged.event);
    if (step) {
      status_.reported_step = *step;
      status_.reported_at = event_time_;
      pace_to_ = {clock_s_, *step};
    }
    std::visit([&](const auto& event) { on(event); }, logged.event);
    if (!std::holds_alternative<events::Ready>(logged.event) &&
        !std::holds_alternative<events::Restored>(logged.event)) {
      report_step(step);
    }
  }

  std::optional<RunStatus> status(const std::filesystem::path& directory, bool lives) const {
    if (report_.starts.empty()) {
      return std::nullopt;
    }
    RunStatus status = status_;
    status.directory = directory;
    status.starts = static_cast<int>(report_.starts.size());
    status.started = report_.starts.back().time;
    status.state = state(lives);
    if (status.state == RunState::failed || (save_error_ && status.state == RunState::leaving)) {
      status.message = error_text();
    } else if (status.failed_saves > 0 && status.state == RunState::running) {
      status.message = put_off_;
    }
    status.start = manager_.start;
    status.local_directory = manager_.start.local_directory.value_or("");
    if (pace_from_) {
      const double seconds = pace_to_.time_s - pace_from_->time_s;
      const double steps = static_cast<double>(pace_to_.step) - static_cast<double>(pace_from_->step);
      status.steps_per_second = seconds > 0 && steps > 0 ? std::optional(steps / seconds) : std::nullopt;
    }
    return status;
  }

  supervisor::RunHistory history() const {
    supervisor::RunHistory history = history_;
    history.observed_s += observed_s();
    return history;
  }

  RunReport report(const RunStatus& status, const AdviceQuestion& question, TimePoint now) const {
    Fold whole = *this;
    if (!report_.starts.empty()) {
      whole.end_last_start(status, now);
    }
    RunReport report = std::move(whole.report_);
    report.status = status;
    report.spans = whole.accounting_.spans();
    sum_up(report);
    report.advice = advise(history(), question);
    return report;
  }

 private:
  /// What the time that passes is counted as.
  enum class Phase { startup, restore, work };
  struct Saving {
    std::optional<std::uint64_t> number;
    std::size_t spans = 0;  ///< open ones, which the save keeps
  };
  /// A moment of the monotonic clock, and the step then.
  struct Mark {
    double time_s = 0;
    std::uint64_t step = 0;
  };

  void pass_time(const core::LoggedEvent& logged) {
    if (logged.monotonic_s) {
      spend(plausible(*logged.monotonic_s - monotonic_s_.value_or(*logged.monotonic_s)).value_or(0));
      monotonic_s_ = logged.monotonic_s;
    }
    if (const auto wall = wall_clock_of(logged.time)) {
      wall_s_ = wall;
    }
  }

  void spend(double seconds) {
    now_s_ += seconds;
    current().end_s = now_s_;
    if (phase_ == Phase::work) {
      span_->work_s += seconds;
      span_->end_s = now_s_;
    } else {
      const bool restores = phase_ == Phase::restore;
      current().times[restores ? kRestore : kStartup] += seconds;
      startup_s_ += restores ? 0 : seconds;
    }
  }

  /// The start before this one, if there was one, is over.
  void end_before(const core::LoggedEvent& start) {
    const auto wall = wall_clock_of(start.time);
    if (!report_.starts.empty()) {
      double gap_s = 0;
      if (wall && wall_s_) {
        report_.clock_set_back |= *wall < *wall_s_;
        gap_s = plausible(*wall - *wall_s_).value_or(0);
      }
      end_start(gap_s);
      history_.observed_s += observed_s();
      history_.failed += status_.has_handler && !has_ended_ ? 1 : 0;
    }
    monotonic_s_ = start.monotonic_s;
    start_clock_s_ = start.monotonic_s.value_or(0);
    wall_s_ = wall ? wall : wall_s_;
  }

  void on(const auto&) {}  // other events say nothing of the time
  void on(const events::RestoreFailed&) { end_restore(); }
  void on(const events::PassedOver&) { end_restore(); }
  void on(const events::SaveSkipped&) { ++report_.skipped_saves; }

  void on(const events::Start& event) {
    saves_ = has_ended_ = status_.has_handler = false;
    save_error_.reset();
    status_.failed_saves = 0;
    status_.local.reset();
    status_.message.clear();
    pace_from_.reset();
    mark_.reset();
    last_periodic_s_.reset();
    phase_ = Phase::startup;
    startup_s_ = 0;
    ReportedStart start;
    start.time = event_time_;
    start.event = event;
    start.begin_s = start.end_s = start.ready_s = now_s_;
    report_.starts.push_back(std::move(start));
  }

  void on(const events::RestoreStarted& event) {
    close_span();
    startup_s_ = 0;
    phase_ = Phase::restore;
    restoring_ = event.file;
    if (!current().restore_begin_s) {
      current().restore_begin_s = now_s_;
    }
  }

  void end_restore() {
    if (phase_ == Phase::restore) {
      phase_ = Phase::startup;
      startup_s_ = 0;
      current().restore_end_s = now_s_;
    }
  }

  void on(const events::Restored& event) {
    end_restore();
    history_.restores_s.push_back(event.seconds);
    if (event.file.ends_with(".part")) {
      current().source = Source::local_copy;
    } else if (current().source == Source::nothing) {
      current().source = Source::checkpoint;
    }
    if (event.run_calls) {
      current().saved_by_local += accounting_.bring_back(*event.run_calls);
      note_that_the_last_one_reached(*event.run_calls);
    }
    begin_at(event.run_calls);
  }

  /// A node-local copy of the start before was of this step, which may be later than its report: so much less is lost
  /// perhaps.
  void note_that_the_last_one_reached(std::uint64_t step) {
    ReportedStart* const last = report_.starts.size() > 1 ? &report_.starts[report_.starts.size() - 2] : nullptr;
    if (last != nullptr && last->perhaps_lost_steps && last->step_to && step > *last->step_to) {
      const std::uint64_t reported_later = step - *last->step_to;
      const bool is_more = *last->perhaps_lost_steps > reported_later;
      last->perhaps_lost_steps = is_more ? std::optional(*last->perhaps_lost_steps - reported_later) : std::nullopt;
    }
  }

  void on(const events::DrainStarted& event) { current().source = event.flushed ? Source::flushed : Source::nodes; }

  void on(const events::LocalCopies& event) {
    history_.local_copies_s.push_back(event.seconds);
    if (event.step) {
      const auto taken = core::time_of_event(event.taken);
      const bool is_older = event.partner_step && !event.partner;
      status_.take(LocalState{*event.step, event.bytes, taken, event.partner,
                              is_older ? event.partner_step : std::nullopt,
                              is_older ? core::time_of_event(event.partner_taken) : std::nullopt});
    }
    const std::size_t start = report_.starts.size() - 1;
    if (report_.local_copies.empty() || report_.local_copies.back().start != start) {
      report_.local_copies.push_back({.start = start});
    }
    report_.local_copies.back() = {start, event.count, plausible(event.seconds).value_or(0), event.bytes,
                                   event.partner};
  }

  void on(const events::Ready& event) {
    status_.has_handler = true;
    status_.total_steps = event.total_steps.value_or(0);
    status_.job_end = core::time_of_event(event.job_end.value_or(""));
    status_.slurm_job = event.slurm_job.value_or("");
    ++history_.runs;
    mark_ = pace_to_ = {clock_s_, event.run_calls.value_or(0)};
    pace_from_ = pace_to_;
    begin_at(event.run_calls);
    begin_work();
  }

  /// The start resumes from this step: what was done beyond it is lost, checkpoint or not.
  void begin_at(std::optional<std::uint64_t> step) {
    if (!step) {
      return;
    }
    current().step_from = current().step_to = step;
    report_.points.push_back({report_.starts.size() - 1, now_s_, *step});
    accounting_.go_back_to(*step);
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
    current().times[kStartup] -= work_s;
    current().ready_s = span_->begin_s = now_s_ - work_s;
    span_->work_s = work_s;
  }

  void open_span() {
    span_ = WorkSpan{.start = report_.starts.size() - 1, .begin_s = now_s_, .end_s = now_s_};
    span_->from = span_->to = current().step_to;
  }

  void close_span() {
    if (span_) {
      accounting_.add(*span_);
      span_.reset();
    }
  }

  void report_step(std::optional<std::uint64_t> step) {
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

  void on(const events::SaveStarted& event) {
    save_error_.reset();
    count_steps(event.run_calls);
    save_began_s_ = clock_s_;
    begin_save(event.number, event.run_calls);
  }

  void begin_save(std::uint64_t number, std::optional<std::uint64_t> step) {
    report_step(step);
    if (phase_ != Phase::work) {
      begin_work_in_retrospect();
    }
    close_span();
    open_span();
    saving_ = Saving{number, accounting_.open()};
  }

  void on(const events::SaveFinished& event) {
    if (!saving_ || saving_->number != event.number || !span_) {  // the line of its beginning was cut
      begin_save(event.number, event.run_calls);
    }
    const double seconds = plausible(event.seconds).value_or(0);
    const double blocked_s = plausible(event.blocked_seconds).value_or(seconds);
    stood_still(blocked_s);
    saves_by_itself_ |= event.reason && event.reason->kind != SaveReason::Kind::preemption;
    if (const std::size_t count = std::min(saving_->spans, accounting_.open()); count > 0) {
      interval_s_ = std::max(interval_s_, accounting_.open_span(count - 1).work_s);
    }
    accounting_.keep(saving_->spans);
    saving_.reset();
    note_costs(event, blocked_s);
    saves_ = true;
    status_.failed_saves = 0;
    report_.saves.push_back({now_s_, event.number, event.run_calls, event.bytes, seconds, blocked_s});
    status_.copies.erase(event.file);  // it was of another checkpoint of that name
    status_.saved = SavedState{event.number, event.run_calls, event.bytes, event_time_};
    if (const auto local = std::exchange(status_.local, std::nullopt)) {
      status_.take(*local);  // a save in the background may be of an older step
    }
    if (ReportedNotice* notice = open_notice(); notice != nullptr && !notice->committed_s) {
      notice->committed_s = since(*notice);
    }
  }

  void note_costs(const events::SaveFinished& event, double blocked_s) {
    history_.saves_s.push_back(event.seconds);
    if (!saves_) {
      history_.first_saves_s.push_back(event.seconds);
    }
    history_.blocked_s.push_back(blocked_s);
    history_.state_bytes = event.bytes;
    if (event.reason && event.reason->kind == SaveReason::Kind::periodic) {
      if (const double work_s = clock_s_ - blocked_s - last_periodic_s_.value_or(clock_s_); work_s > 0) {
        history_.intervals_s.push_back(work_s);
      }
      last_periodic_s_ = clock_s_;
    }
    // Steps continue while a save is written in the background, and after any other.
    mark_ = Mark{blocked_s < event.seconds ? save_began_s_ + blocked_s : clock_s_, event.run_calls.value_or(0)};
  }

  /// The steps since the last mark, which no save interrupted.
  void count_steps(std::optional<std::uint64_t> step) {
    if (mark_ && step.value_or(0) > mark_->step) {
      history_.steps += *step - mark_->step;
      history_.stepping_s += clock_s_ - mark_->time_s;
    }
    mark_.reset();
  }

  /// How much of a failed save in the background the program stood still is not known: all of it is taken.
  void on(const events::SaveFailed& event) {
    ++report_.failed_saves;
    const auto number = event.number || !saving_ ? event.number : saving_->number;
    save_error_ = fmt::format("{} was not saved: {}", number ? fmt::format("checkpoint {}", *number) : "a checkpoint",
                              event.message);
    if (saving_ && span_) {
      stood_still(span_->work_s);
    }
    saving_.reset();
  }

  void on(const events::SavePutOff& event) {
    status_.failed_saves = event.failures;
    put_off_ = fmt::format("{}; {} in a row failed, and the run continues", save_error_.value_or("a save failed"),
                           count_text(event.failures, "periodic save"));
    save_error_.reset();
  }

  void stood_still(double seconds) {
    const double part = std::min(seconds, span_->work_s);
    span_->work_s -= part;
    current().times[kSave] += part;
  }

  void keep_all() {
    const bool works = span_.has_value();
    close_span();
    accounting_.keep(accounting_.open());
    saving_.reset();
    if (works) {
      open_span();  // it may continue
    }
  }

  void on(const events::StepReached& event) {
    save_error_.reset();
    reports_steps_ = true;
    longest_step_s_ = std::max(longest_step_s_, plausible(event.step_s).value_or(0));
  }

  void on(const events::LongestStep& event) {
    longest_step_s_ = std::max(longest_step_s_, plausible(event.longest_step_s).value_or(0));
    history_.longest_step_s = std::max(history_.longest_step_s, event.longest_step_s);
  }

  void on(const events::Notice& event) {
    status_.message = event.source;
    const double age_s = plausible(event.age_s).value_or(0);
    ReportedNotice notice{.at_s = now_s_ - age_s, .start = report_.starts.size() - 1, .event = event};
    if (event.time_left_s) {
      notice.grace_s = plausible(*event.time_left_s + age_s);
    }
    report_.notices.push_back(std::move(notice));
  }

  void on(const events::Agreement& event) {
    history_.waits_s.push_back(event.seconds_from_notice);
    if (ReportedNotice* notice = open_notice()) {
      notice->agreed_s = plausible(event.seconds_from_notice);
    }
  }

  void on(const events::Exit& event) {
    has_ended_ = true;
    ++history_.preempted;
    history_.notices_s.push_back(event.seconds_from_notice);
    status_.local.reset();  // an orderly end gives the memory back
    report_step(event.run_calls);
    if (ReportedNotice* notice = open_notice()) {
      notice->left_s = since(*notice);
    }
    keep_all();
  }

  void on(const events::WentOn& event) {
    has_ended_ = false;
    --history_.preempted;
    status_.message.clear();
    mark_ = Mark{clock_s_, event.run_calls.value_or(0)};
  }

  void on(const events::Finished& event) {
    count_steps(event.run_calls);
    has_ended_ = true;
    ++history_.finished;
    status_.local.reset();
    report_step(event.run_calls);
    keep_all();
    accounting_.forget_kept();  // a run that starts from the beginning takes nothing away from one that came to its end
  }

  ReportedNotice* open_notice() {
    const bool is_open = !report_.notices.empty() && report_.notices.back().start + 1 == report_.starts.size();
    return is_open ? &report_.notices.back() : nullptr;
  }

  [[nodiscard]] RunState reported_state(bool lives) const {
    using Stage = supervisor::ManagerProgress::Stage;
    switch (manager_.stage) {
      case Stage::saved:
        return RunState::saved;
      case Stage::failed:
        return RunState::failed;
      case Stage::finished:
        return RunState::finished;
      case Stage::running:
        return !lives ? RunState::gone : manager_.leaving ? RunState::leaving : RunState::running;
      default:
        break;
    }
    if (saves_ && !status_.has_handler) {
      return lives ? RunState::running : RunState::ended;
    }
    return lives ? RunState::starting : RunState::gone;
  }

  /// That of the last start. @param lives  as for `status`
  [[nodiscard]] RunState state(bool lives) const {
    const RunState reported = reported_state(lives);
    return save_error_ && reported == RunState::gone ? RunState::failed : reported;
  }

  /// The same, now that it is over.
  [[nodiscard]] RunState ending() const {
    const RunState last = state(false);
    return save_error_ && last == RunState::ended ? RunState::failed : last;
  }

  void end_last_start(const RunStatus& status, TimePoint now) {
    if (!works(status.state)) {
      end_start(0);
      return;
    }
    const double now_s = std::chrono::duration<double>(now.time_since_epoch()).count();
    spend(plausible(now_s - wall_s_.value_or(now_s)).value_or(0));
    current().ending = status.state;
    finish_spans(kUnsaved);
  }

  void end_start(double gap_s) {
    ReportedStart& start = current();
    start.ending = ending();
    start.why = why();
    const bool is_reported = start.ending != RunState::gone && start.ending != RunState::ended;
    const double reported_s = span_ ? span_->work_s : 0;
    finish_spans(fate_of_rest(start.ending));
    const double perhaps_s = is_reported || phase_ != Phase::work ? 0 : std::min(gap_s, longest_silence_s(reported_s));
    start.times[kUnknown] += perhaps_s;
    start.times[kDown] += gap_s - perhaps_s;
    if (start.ending == RunState::gone && start.times[kUnknown] > 0) {
      start.perhaps_lost_steps = steps_in(start.times[kUnknown]);
    }
    now_s_ += gap_s;
  }

  /// For so long a start can work after its last word: it reports its step now and then, and when it saves.
  /// @param reported_s  its work since the last save, up to its last word
  double longest_silence_s(double reported_s) {
    double longest_s = kLongestTime;
    if (saves_by_itself_) {
      longest_s = std::max(0.0, interval_s_ - reported_s);
    }
    if (reports_steps_) {
      const std::chrono::duration<double> worked(std::clamp(current().end_s - current().ready_s, 0.0, kLongestTime));
      const auto news = handler::news_interval(std::chrono::duration_cast<std::chrono::nanoseconds>(worked));
      longest_s = std::min(longest_s, std::chrono::duration<double>(news).count() + longest_step_s_);
    }
    return longest_s;
  }

  void finish_spans(TimeKind fate) {
    close_span();
    accounting_.end_start(fate);
    saving_.reset();
    if (current().ready_s == current().begin_s && phase_ != Phase::work) {
      current().ready_s = current().end_s;
    }
  }

  /// By the pace of this start.
  std::optional<std::uint64_t> steps_in(double seconds) const {
    double steps = 0, work_s = 0;
    const auto& spans = accounting_.spans();
    for (auto span = spans.rbegin(); span != spans.rend() && span->start + 1 == report_.starts.size(); ++span) {
      steps += static_cast<double>(span->steps());
      work_s += span->steps() > 0 ? span->work_s : 0;
    }
    const double count = work_s > 0 ? seconds * steps / work_s : 0;
    return count >= 1 && count < 1e15 ? std::optional(static_cast<std::uint64_t>(count)) : std::nullopt;
  }

  std::string why() {
    const RunState end = ending();
    if (end == RunState::saved) {
      return open_notice() != nullptr ? open_notice()->event.source : "";
    }
    return end == RunState::failed ? error_text() : end == RunState::gone ? why_killed() : "";
  }

  /// That of a save is the cause of the one that follows it.
  std::string error_text() const {
    const std::string last = manager_.error ? manager_.error->message : "";
    return !save_error_ ? last : last.empty() ? *save_error_ : *save_error_ + "; then " + last;
  }

  std::string why_killed() {
    if (phase_ == Phase::restore) {
      return "while it read " + restoring_;
    }
    if (manager_.leaving && open_notice() != nullptr) {
      return "after a notice (" + open_notice()->event.source + "), before its state was saved";
    }
    if (saving_) {
      return "during a save";
    }
    return phase_ == Phase::work ? "while it worked" : "before its first step";
  }

  /// How long the last start was at work, as far as it reported.
  [[nodiscard]] double observed_s() const { return status_.has_handler ? std::max(0.0, clock_s_ - start_clock_s_) : 0; }
  [[nodiscard]] double since(const ReportedNotice& notice) const { return now_s_ - notice.at_s; }
  ReportedStart& current() { return report_.starts.back(); }

  RunReport report_;                     ///< without sums, spans and advice
  RunStatus status_;                     ///< without what rank 0 reports
  supervisor::RunHistory history_;       ///< without the time of the last start
  supervisor::ManagerProgress manager_;  ///< of the last start
  std::optional<TimePoint> event_time_;
  double now_s_ = 0;  ///< since the first start
  std::optional<double> wall_s_;
  std::optional<double> monotonic_s_;
  double start_clock_s_ = 0;  ///< the monotonic clock at the start, and now
  double clock_s_ = 0;
  Phase phase_ = Phase::startup;
  double startup_s_ = 0;  ///< since the start, or since the restore
  bool saves_ = false;
  bool has_ended_ = false;        ///< with a word, after a handler was ready
  bool saves_by_itself_ = false;  ///< also without a notice
  double interval_s_ = 0;         ///< the longest work between two saves
  bool reports_steps_ = false;    ///< programs with an older library do not
  double longest_step_s_ = 0;
  std::string restoring_;
  std::optional<std::string> save_error_;  ///< of the last save, if nothing has been done since
  std::string put_off_;                    ///< the same of a periodic save after which the run works on
  std::optional<Saving> saving_;
  std::optional<WorkSpan> span_;  ///< the work of now
  WorkAccounting accounting_;
  std::optional<Mark> pace_from_;  ///< when the steps of this start began
  Mark pace_to_;                   ///< its last word
  std::optional<Mark> mark_;       ///< since when no save interrupted the steps
  double save_began_s_ = 0;
  std::optional<double> last_periodic_s_;
};

Timeline::Timeline(const std::vector<core::LoggedEvent>& events) {
  const auto fold = std::make_shared<Fold>();
  for (const core::LoggedEvent& event : events) {
    fold->take(event);
  }
  fold_ = fold;
}

std::optional<RunStatus> Timeline::status(const std::filesystem::path& directory, bool lives) const {
  return fold_->status(directory, lives);
}

supervisor::RunHistory Timeline::history() const { return fold_->history(); }

RunReport Timeline::report(const RunStatus& status, const AdviceQuestion& question, TimePoint now) const {
  return fold_->report(status, question, now);
}

Json to_json(const RunReport& report, TimePoint now) {
  std::ostringstream advice_text;
  print_text(advice_text, report.advice);
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
          {"local_copies", list_json(report.local_copies, local_json)},
          {"notices", list_json(report.notices, reported_notice_json)},
          {"spans", spans_json(report.spans)},
          {"points", points_json(report)},
          {"asked_grace_s", or_null(report.advice.question.grace_s)},
          {"advice", to_json(report.advice)},
          {"advice_text", advice_text.str()}};
}

}  // namespace reprieve::tool
