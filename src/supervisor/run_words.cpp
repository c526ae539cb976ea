// SPDX-License-Identifier: BSD-3-Clause
// What the supervisor says of a run that works.

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "supervisor/job_supervisor.hpp"
#include "supervisor/supervised_run.hpp"

namespace reprieve::supervisor {

namespace {

constexpr std::chrono::seconds kStatusInterval{1};

}  // namespace

std::string JobSupervisor::loss_text() const {
  if (!run_ || run_->code()) {
    return "no run is left to be ended";
  }
  std::optional<std::uint64_t> number;
  for (const auto& [record, chief] : run_->progress().chiefs()) {
    if (chief.stage == ChiefProgress::Stage::saved) {
      return "the state is saved and the ranks are leaving; a third Ctrl-C ends them at once";
    }
    number = std::max(number, chief.newest ? chief.newest : chief.restored);
  }
  const std::string age = core::duration_text(Clock::now() - last_save_.value_or(run_->started()));
  const std::string lost = number ? fmt::format("the work since checkpoint {}, {} of it", *number, age)
                                  : fmt::format("all its work, {}: there is no checkpoint yet", age);
  return "the run has not saved for this notice yet. A third Ctrl-C ends it at once and loses " + lost;
}

void JobSupervisor::show_status() {
  if (!settings_.on_status || Clock::now() < next_status_) {
    return;
  }
  next_status_ = Clock::now() + kStatusInterval;
  std::string text = fmt::format("running for {}", core::duration_text(Clock::now() - run_->started()));
  for (const auto& [record, chief] : run_->progress().chiefs()) {
    const auto number = chief.newest ? chief.newest : chief.restored;
    text += number ? fmt::format(", checkpoint {}", *number) : ", no checkpoint yet";
  }
  if (last_save_) {
    text += fmt::format(", {} ago", core::duration_text(Clock::now() - *last_save_));
  }
  if (plan_.requested()) {
    text += run_->progress().notice_arrived() ? ", saving" : ", waiting for the ranks to save";
  }
  settings_.on_status(text);
}

}  // namespace reprieve::supervisor
