// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a platform tells a job that it is about to end: which processes get which signal. Pure.

#include <sys/types.h>

#include <string>
#include <vector>

#include "supervisor/launcher.hpp"
#include "supervisor/run_processes.hpp"

namespace reprieve::supervisor {

enum class NoticeWay {
  command,      ///< one signal to the command itself: `#SBATCH --signal=B:USR1@N`, `kill -USR1 %1`, docker stop
  time_limit,   ///< SIGCONT and the signal to every process: Slurm at a time limit, scancel, systemd
  slurm_grace,  ///< SIGCONT and the signal to the tasks of srun alone: the start of Slurm's GraceTime; mpirun gets none
  launcher,     ///< the signal to mpirun or srun itself
  rank,         ///< the signal to one rank alone: its node is taken away
};

/// The signals of one moment, and whom they reach, in words.
struct Delivery {
  std::vector<NoticeTarget> targets;
  std::string to;  ///< "mpirun 4711", "all 7 processes"; empty if there is nobody
};

/// The signal that the platform sends if the user names none.
int usual_signal(NoticeWay way);

/// @param command  the process that was started
/// @param processes  of the run on this host, parents before children, with @p command
Delivery plan_delivery(NoticeWay way, int signal, pid_t command, const std::vector<RunProcess>& processes);

}  // namespace reprieve::supervisor
