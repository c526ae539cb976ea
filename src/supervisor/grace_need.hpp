// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How much time a job needs from the notice to its end. Pure.

namespace reprieve::supervisor {

/// What the time is made of, in seconds.
struct GraceCosts {
  double wait_s = 0;   ///< until all ranks agree: the longest step, since the notice may come at the beginning of one
  double save_s = 0;   ///< longest save
  double leave_s = 0;  ///< from the commit to the end of the launcher
};

/// The longest that it takes, as measured, in seconds: the wait, a save, and the way out.
double grace_needed_s(const GraceCosts& costs);

/// With a margin of half as much again, since a file system is busiest when many jobs are preempted at once, and a
/// second on top, for what is short.
double grace_with_margin_s(const GraceCosts& costs);

/// N in `#SBATCH --signal=B:USR1@N`: `grace_with_margin_s`, and 30 s since Slurm gives its signals up to so much late;
/// up to the next ten.
int signal_lead_s(const GraceCosts& costs);

}  // namespace reprieve::supervisor
