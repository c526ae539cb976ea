// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What travels in one agreement check: pure encoding and decoding, without MPI.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace reprieve::cluster {

/// Index of a step boundary: 1 for the first one after start.
using BoundaryIndex = std::int64_t;

/// A request for a checkpoint without a notice. The greatest of all ranks' requests counts.
enum class RequestedSave : std::int64_t { none = 0, near = 1, periodic = 2, user = 3 };

/// What one rank says in one check.
struct Contribution {
  BoundaryIndex index = 0;  ///< its boundary when it posted the reduction
  std::int64_t lag = 0;     ///< it does not pass boundary `index + lag` before the reduction completed
  bool notice = false;      ///< it has seen a notice
  bool failed = false;      ///< its step failed
  bool closing = false;     ///< it makes no further boundaries
  bool confirming = false;  ///< it waits at boundary `index` to enter a save together with all others
  RequestedSave requested = RequestedSave::none;
  std::optional<std::chrono::milliseconds> time_left{};  ///< until its deadline, if it knows of one
  std::chrono::nanoseconds step_time{0};                 ///< its recent step time
  std::chrono::nanoseconds check_cost{0};                ///< what the check before took of its time; 0: not known
  std::int64_t written = 0;  ///< how many saves in the background it has written, or failed to write
};

/// One reduction: element-wise maximum over all ranks.
using AgreementVector = std::array<std::int64_t, 14>;

AgreementVector encode(const Contribution& contribution, int rank, int size);

/// What all ranks know after one check: the same on every rank.
struct Verdict {
  /// The boundary at which all ranks act on this verdict: the greatest `index + lag`. No rank has passed it.
  BoundaryIndex act_at = 0;
  BoundaryIndex first_index = 0;  ///< lowest and highest boundary at which ranks posted
  BoundaryIndex last_index = 0;
  BoundaryIndex notice_index = -1;   ///< greatest boundary at which a rank had seen a notice, or -1
  int notice_rank = -1;              ///< lowest rank with a notice, or -1
  int failed_rank = -1;              ///< lowest rank whose step failed, or -1
  BoundaryIndex closing_index = -1;  ///< greatest boundary of a rank that closes, or -1
  bool all_closing = false;
  bool all_confirming = false;
  RequestedSave requested = RequestedSave::none;
  std::optional<std::chrono::milliseconds> time_left{};  ///< until the earliest deadline
  std::chrono::nanoseconds step_time{0};                 ///< the slowest rank's
  std::chrono::nanoseconds check_cost{0};                ///< the least of any rank: that of the one that waited least
  std::int64_t written = 0;                              ///< how many saves in the background all ranks have written
};

Verdict decode(const AgreementVector& vector, int size);

}  // namespace reprieve::cluster
