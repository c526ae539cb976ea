// SPDX-License-Identifier: BSD-3-Clause
#include "stride.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cluster/communicator.hpp"
#include "cluster/mpi_channel.hpp"

namespace reprieve::bench {

namespace {

using Clock = std::chrono::steady_clock;

/// A check as it ended.
struct Check {
  Clock::time_point time;
  std::int64_t stride = 0;
  std::int64_t steps = 0;  ///< made before, since the length changed
};

/// Runs boundaries and steps, and notes what each check planned.
class CheckedLoop {
 public:
  explicit CheckedLoop(const Work& work)
      : work_(work),
        comm_(MPI_COMM_WORLD, std::chrono::minutes(10)),
        channel_(comm_),
        agreement_(
            channel_, comm_.rank(), comm_.size(), {}, [] { return cluster::LocalView{}; },
            [this](const cluster::Verdict&) {
              checks_.push_back({Clock::now(), 0, 0});
            }) {}

  /// The checks that ended during `checks` of them.
  std::vector<Check> run(double step_s, std::size_t checks) {
    checks_.clear();
    const std::uint64_t iterations = work_.iterations(step_s);
    std::vector<Check> seen;
    std::int64_t steps = 0;
    while (seen.size() < checks) {
      agreement_.at_boundary();
      if (checks_.size() > seen.size()) {
        checks_.back().stride = agreement_.stride();  // planned from the verdict
        checks_.back().steps = steps;
        seen.push_back(checks_.back());
      }
      Work::run(iterations);
      ++steps;
    }
    return seen;
  }

  /// Ranks may have ended `run` some boundaries apart.
  void close() { static_cast<void>(agreement_.close()); }

 private:
  const Work& work_;
  cluster::Communicator comm_;
  cluster::MpiReductionChannel channel_;
  std::vector<Check> checks_;
  cluster::StepAgreement agreement_;
};

double seconds_from_to(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::vector<StrideChange> follow_changes(const Work& work, const std::vector<double>& steps_s) {
  constexpr std::size_t kChecks = 30;
  CheckedLoop loop(work);
  std::int64_t before = loop.run(steps_s.front(), kChecks).back().stride;
  std::vector<StrideChange> changes;
  for (std::size_t i = 1; i < steps_s.size(); ++i) {
    const auto start = Clock::now();
    const std::vector<Check> checks = loop.run(steps_s[i], kChecks);
    // The middle one of the second half: single checks vary with the noise of the machine.
    std::vector<std::int64_t> late;
    std::transform(checks.begin() + kChecks / 2, checks.end(), std::back_inserter(late),
                   [](const Check& check) { return check.stride; });
    std::nth_element(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(late.size() / 2), late.end());
    const std::int64_t after = late[late.size() / 2];
    const auto settled = std::find_if(checks.begin(), checks.end(), [after](const Check& check) {
      return std::abs(check.stride - after) <= std::max<std::int64_t>(1, after / 4);
    });
    changes.push_back({steps_s[i - 1], steps_s[i], before, after, static_cast<int>(settled - checks.begin()) + 1,
                       checks.front().steps, seconds_from_to(start, checks.front().time),
                       seconds_from_to(start, settled->time)});
    before = after;
  }
  loop.close();
  return changes;
}

}  // namespace reprieve::bench
