// SPDX-License-Identifier: BSD-3-Clause
#include "handler/saver.hpp"

#include "core/log.hpp"

namespace reprieve::handler {

namespace {

bool is_another(const CheckpointInfo& made, const std::optional<CheckpointInfo>& before) {
  return !before || made.path != before->path || made.time != before->time;
}

}  // namespace

manager::HandlerLink::NextNumber Saver::next_number(std::uint64_t step) const noexcept {
  return {step, number_ == step && step_ == step && step > 0};
}

void Saver::take_up(std::uint64_t number, std::uint64_t step) noexcept {
  number_ = number;
  step_ = step;
}

void Saver::save(const Request& request, SaveMoment moment) {
  const SaveReport report = replaces_save_ ? save_by_function(request) : manager_.save(request);
  boundary_ = moment.boundary;
  start_clock();
  on_commit_(report);
  take_up(report.number, moment.step);
}

void Saver::save_in_background(const Request& request, SaveMoment moment) {
  manager_.save_in_background(request);
  number_ = manager_.impl().last_number;
  step_ = moment.step;
  boundary_ = moment.boundary;
}

bool Saver::is_busy() const {
  return manager_.background_save_pending() && manager_.options().background_busy == BackgroundBusy::skip;
}

/// What the function made is known only if this handler's manager did it.
SaveReport Saver::save_by_function(const Request& request) {
  const auto start = Clock::now();
  const std::optional<CheckpointInfo> before = manager_.latest();
  const std::uint64_t number = manager_.impl().run_save_fn_instead(request);
  const std::int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
  const double seconds = 1e-6 * static_cast<double>(comm_.max(us, "the save function"));
  const std::optional<CheckpointInfo> made = manager_.latest();
  if (made && is_another(*made, before)) {
    return {made->path, made->number, made->size_bytes, seconds, seconds};
  }
  if (comm_.is_chief()) {
    core::log::warning(
        "the save function left no new checkpoint in {}: the next start restores {}, unless the program restores "
        "something by itself",
        manager_.directory().string(), made ? made->path.filename().string() : "nothing");
  }
  return {{}, number, 0, seconds, seconds};
}

void Saver::commit() {
  try {
    if (const auto report = manager_.finish_background_save()) {
      on_commit_(*report);
    }
  } catch (...) {
    boundary_ = -1;
    throw;
  }
}

void Saver::settle() {
  try {
    commit();
  } catch (const Error& error) {
    core::log::debug("{}", error.what());  // the manager has told it
  }
}

}  // namespace reprieve::handler
