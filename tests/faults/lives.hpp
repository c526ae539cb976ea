// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A simulation that is killed again and again, and must end as if it never had been.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace reprieve::test {

/// In each life in a checkpoint directory the newest checkpoint that was reported as committed came back, or one whose
/// save had begun after it; all that are there are valid, and none was ever found corrupt.
void expect_nothing_lost(const std::filesystem::path& directory);

/// One of its lives: an mpirun, or the one rank itself.
struct Life {
  std::unique_ptr<Mpirun> mpirun;
  std::unique_ptr<Process> alone;
  [[nodiscard]] Process& job() const { return mpirun ? *mpirun : *alone; }
};

/// All lives of a field (e2e/programs/field.cpp) in one directory, each in a mode:
///   recycle     keeps one checkpoint, past the page cache, over the file of the one before
///   files       keeps one checkpoint, with files of a save function, in a new file each time
///   pieces      like recycle, with the field split the other way, so that the ranks exchange small pieces
///   background  saves in the background
///   preempt     has a notice in its first step
///   local       takes a node-local copy after each step, and saves after each 16th
///   far         takes node-local copies alone, with partners; each rank is on a host of its own
///   long        takes a node-local copy after each step, and its ranks flush their copies at a notice soon
///   none        saves nothing
class Lives {
 public:
  explicit Lives(int ranks, const std::filesystem::path& parent = std::filesystem::temp_directory_path())
      : ranks_(ranks), temporary_(parent) {}

  /// Starts it, far from its end.
  [[nodiscard]] Life start(const std::string& mode, const Environment& environment = {},
                           const std::vector<std::string>& options = {});

  /// Waits until a job and all it started are gone. The exit code, or -1 if the launcher hung after the death of its
  /// ranks, a known defect of it. A failure if anything else hangs.
  static int wait_for_death(const Life& life);

  /// Starts it in a mode with node-local copies, and kills it when some of them are complete.
  void live_for_copies(const std::string& mode);

  /// Of each rank and run at most one complete part is newer than that: no copy is begun before the one before is
  /// complete on all ranks, so a death costs what came since the last one, and nothing more.
  void expect_one_copy_under_way() const;

  /// The hosts go away with what lay in their memory.
  void lose_memory() const;
  [[nodiscard]] const std::filesystem::path& local() const noexcept { return local_.path(); }

  /// The step of the newest checkpoint or complete node-local copy, while no life is there.
  /// Whether a checkpoint was committed.
  [[nodiscard]] bool have_saved() const;
  [[nodiscard]] std::uint64_t newest_whole() const;

  /// The life that ended last began at this step or a later one, if it came so far as to restore anything.
  void expect_restored_at_least(std::uint64_t number) const;
  /// What the newest life has restored; nothing if it had not come so far.
  [[nodiscard]] std::optional<std::uint64_t> restored_last() const;

  /// Lets it continue to its end, twenty steps after the newest checkpoint: it must end in the same state as a run that
  /// nothing disturbed, and leave nothing behind. @param reached  a step that it may resume from besides, since a copy
  /// of it has been flushed
  void expect_same_end(std::uint64_t reached = 0);

  void expect_nothing_lost() const { test::expect_nothing_lost(run_); }

  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return run_; }

 private:
  [[nodiscard]] std::string digest_of(const std::filesystem::path& directory, std::uint64_t steps,
                                      const std::string& mode) const;
  [[nodiscard]] MpiCommand command(const std::filesystem::path& directory, std::uint64_t steps,
                                   const std::string& mode) const;

  int ranks_;
  TemporaryDirectory temporary_;
  std::filesystem::path run_ = temporary_ / "run";
  TemporaryDirectory local_{"/dev/shm"};  ///< for node-local copies
  mutable int restarts_ = 0;
};

}  // namespace reprieve::test
