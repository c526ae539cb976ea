// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Points to die, for tests: REPRIEVE_FAILPOINT names one of them, REPRIEVE_KILL_RANK who dies when it comes there (a
/// rank, "all", or "mpirun": then rank 0 kills its parent), REPRIEVE_KILL_MARK a file that is made just before.
/// Compiled in with the CMake option REPRIEVE_FAILPOINTS; otherwise there is no code for them at all.

#include <array>
#include <string_view>

namespace reprieve::core {

inline constexpr std::array<std::string_view, 37> kFailpointNames{
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

/// One of them: another name does not compile.
class Failpoint {
 public:
  consteval Failpoint(const char* name) : name_(name) {
    bool is_known = false;
    for (const std::string_view known : kFailpointNames) {
      is_known = is_known || known == name_;
    }
    name_ = is_known ? name_ : throw "there is no failpoint of that name";
  }
  [[nodiscard]] std::string_view name() const noexcept { return name_; }

 private:
  std::string_view name_;
};

#ifdef REPRIEVE_FAILPOINTS
/// Kills this process, or with REPRIEVE_KILL_RANK=mpirun its parent, by SIGKILL, if the test wants that here.
void failpoint(Failpoint point);
#else
inline void failpoint(Failpoint /*point*/) noexcept {}
#endif

}  // namespace reprieve::core
