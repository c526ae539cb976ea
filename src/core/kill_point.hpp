// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Places to die, for tests: REPRIEVE_KILL_POINT names one of them, REPRIEVE_KILL_RANK who dies when it comes there (a
/// rank, "all", or "mpirun": then rank 0 kills its parent), REPRIEVE_KILL_MARK a file that is made just before.
/// Compiled in with the CMake option REPRIEVE_KILL_POINTS; otherwise there is no code for them at all.

#include <array>
#include <cstddef>
#include <string_view>

namespace reprieve::core {

enum class KillPoint : std::size_t {
  open_locked,
  open_recovered,
  open_tidied,
  restore_index_read,
  restore_values_read,
  restore_done,
  save_staged,
  save_files_written,
  save_spare_taken,
  save_laid_out,
  save_block_written,
  save_pieces_exchanged,
  save_copied,
  save_part_written,
  save_part_durable,
  save_checksums_written,
  save_sealed,
  save_durable,
  commit_renamed,
  commit_durable,
  commit_done,
  retire_begun,
  retire_spare_renamed,
  retire_spare_void,
  retire_file_removed,
  retire_done,
  near_copied,
  near_checksums_known,
  near_sealed,
  near_received,
  near_partner_sealed,
  drain_begun,
  drain_part_written,
  drain_sealed,
  drain_committed,
  exit_saved,
  exit_met,
  count,
};

/// By KillPoint.
inline constexpr std::array<std::string_view, static_cast<std::size_t>(KillPoint::count)> kKillPointNames{
    "open.locked",
    "open.recovered",
    "open.tidied",
    "restore.index_read",
    "restore.values_read",
    "restore.done",
    "save.staged",
    "save.files_written",
    "save.spare_taken",
    "save.laid_out",
    "save.block_written",
    "save.pieces_exchanged",
    "save.copied",
    "save.part_written",
    "save.part_durable",
    "save.checksums_written",
    "save.sealed",
    "save.durable",
    "commit.renamed",
    "commit.durable",
    "commit.done",
    "retire.begun",
    "retire.spare_renamed",
    "retire.spare_void",
    "retire.file_removed",
    "retire.done",
    "near.copied",
    "near.checksums_known",
    "near.sealed",
    "near.received",
    "near.partner_sealed",
    "drain.begun",
    "drain.part_written",
    "drain.sealed",
    "drain.committed",
    "exit.saved",
    "exit.met",
};

#ifdef REPRIEVE_KILL_POINTS
/// Kills this process, or with REPRIEVE_KILL_RANK=mpirun its parent, by SIGKILL, if the test wants that here.
void kill_point(KillPoint point);
#else
inline void kill_point(KillPoint /*point*/) noexcept {}
#endif

}  // namespace reprieve::core
