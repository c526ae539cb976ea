// SPDX-License-Identifier: BSD-3-Clause
#include "work_ledger.hpp"

#include <algorithm>
#include <utility>

namespace reprieve::tool {

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

}  // namespace reprieve::tool
