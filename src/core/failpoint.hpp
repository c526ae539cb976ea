// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Points to die, for tests: REPRIEVE_FAILPOINT names one of them, REPRIEVE_KILL_RANK who dies when it comes there (a
/// rank, "all", or "mpirun": then rank 0 kills its parent), REPRIEVE_KILL_MARK a file that is made just before.
/// Compiled in with the CMake option REPRIEVE_FAILPOINTS; otherwise there is no code for them at all.

#include <array>
#include <cstddef>
#include <string_view>

namespace reprieve::core {

enum class Failpoint : std::size_t {
  open_locked,
  open_recovered,
  open_tidied,
  restore_index_read,
  restore_values_read,
  restore_done,
  save_staged,
  save_files_written,
  save_recycled_taken,
  save_laid_out,
  save_block_written,
  save_pieces_exchanged,
  save_copied,
  save_part_written,
  save_part_durable,
  save_checksums_written,
  save_record_written,
  save_durable,
  commit_renamed,
  commit_durable,
  commit_done,
  retire_begun,
  retire_recycled_renamed,
  retire_recycled_void,
  retire_file_removed,
  retire_done,
  local_copied,
  local_checksums_known,
  local_record_written,
  local_received,
  local_partner_record_written,
  drain_begun,
  drain_part_written,
  drain_completed,
  drain_committed,
  exit_saved,
  exit_met,
  count,
};

/// By Failpoint.
inline constexpr std::array<std::string_view, static_cast<std::size_t>(Failpoint::count)> kFailpointNames{
    "open.locked",
    "open.recovered",
    "open.tidied",
    "restore.index_read",
    "restore.values_read",
    "restore.done",
    "save.staged",
    "save.files_written",
    "save.recycled_taken",
    "save.laid_out",
    "save.block_written",
    "save.pieces_exchanged",
    "save.copied",
    "save.part_written",
    "save.part_durable",
    "save.checksums_written",
    "save.record_written",
    "save.durable",
    "commit.renamed",
    "commit.durable",
    "commit.done",
    "retire.begun",
    "retire.recycled_renamed",
    "retire.recycled_void",
    "retire.file_removed",
    "retire.done",
    "local.copied",
    "local.checksums_known",
    "local.record_written",
    "local.received",
    "local.partner_record_written",
    "drain.begun",
    "drain.part_written",
    "drain.completed",
    "drain.committed",
    "exit.saved",
    "exit.met",
};

#ifdef REPRIEVE_FAILPOINTS
/// Kills this process, or with REPRIEVE_KILL_RANK=mpirun its parent, by SIGKILL, if the test wants that here.
void failpoint(Failpoint point);
#else
inline void failpoint(Failpoint /*point*/) noexcept {}
#endif

}  // namespace reprieve::core
