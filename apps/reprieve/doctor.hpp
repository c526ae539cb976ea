// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What `reprieve doctor` makes of what it has seen of a machine. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text.hpp"

namespace reprieve::tool {

/// The checkpoint directory, as it was tried.
struct DirectoryFacts {
  std::string path;
  std::string file_system;                 ///< "ext4", or a number where the name is not known
  bool in_memory = false;                  ///< what lies there is gone when the machine is
  std::string failure;                     ///< what could not be done at all; nothing else is known then
  bool locks = false;                      ///< a second lock on one file was refused
  bool direct = false;                     ///< writes past the page cache are possible
  std::optional<double> sync_s;            ///< fsync of a small file, the longest of some
  std::optional<double> bytes_per_second;  ///< of a durable write
  std::uint64_t free_bytes = 0;
};

/// The settings of a site, as `scontrol show config` prints them.
struct SlurmFacts {
  bool signals_before_preemption = false;  ///< SlurmctldParameters=preempt_send_user_signal
  std::optional<double> kill_wait_s;
  std::string requeue_exit;  ///< codes
  std::string preempt_mode;  ///< "REQUEUE", "CANCEL", "OFF", ...
};

/// A PBS job, as `qstat -f` prints it.
struct PbsFacts {
  std::optional<bool> rerunnable;  ///< PBS may start it again
  std::string wall_time;           ///< "01:00:00"; empty: it has no limit, or does not say
};

struct MachineFacts {
  DirectoryFacts directory;
  std::string mpirun;                ///< first line of `mpirun --version`; empty: not found
  bool mpi_survives_deaths = false;  ///< of other ranks, as `ompi_info` says
  bool in_slurm_job = false;
  std::optional<SlurmFacts> slurm;  ///< if Slurm answers
  bool in_pbs_job = false;
  std::optional<PbsFacts> pbs;                 ///< if PBS answers
  bool knows_wall_time = false;                ///< PBS_WALLTIME is set
  std::string settings_error;                  ///< what is wrong with REPRIEVE_ variables
  std::vector<std::string> unknown_variables;  ///< REPRIEVE_ variables that nobody reads
  std::uint64_t shared_memory_bytes = 0;       ///< free in /dev/shm
  std::uint64_t temporary_bytes = 0;           ///< free in the directory for temporary files
  std::optional<std::uint64_t> file_size_limit;
  std::uint64_t open_files_limit = 0;
};

SlurmFacts parse_slurm_config(const std::string& text);

PbsFacts parse_pbs_job(const std::string& text);

/// In the order in which a job meets them.
std::vector<supervisor::Finding> examine(const MachineFacts& facts);

}  // namespace reprieve::tool
