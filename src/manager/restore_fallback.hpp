// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The walk from the newest checkpoint backwards to one that is valid. Collective in all its parts.
///
/// No variable is touched before the tables of a file are verified, what they say fits the registered state, and all
/// ranks together have verified every block. That reads the file once more than restoring it, so it is left out where a
/// corrupt block can do no harm: where what is registered makes every older checkpoint overwrite the same variables
/// (`Restorer::is_plain`), or where there is no older one. Any other failure after variables were touched is final: no
/// older checkpoint is taken, nothing is initialised, and nothing can be saved.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "manager/checkpoint_directory.hpp"
#include "manager/manager_impl.hpp"
#include "reprieve/error.hpp"
#include "storage/read/restorer.hpp"

namespace reprieve::manager {

// Which checkpoints a restore may take, and in which order. Rank 0's.

/// Numbers of the committed checkpoints, newest first; those of other directories only if there are no others. The log
/// lists those passed over, since the file names may suggest something else.
/// @throws UsageError if all are of other directories, and of several
[[nodiscard]] std::vector<std::uint64_t> find_candidates(CheckpointDirectory& directory,
                                                         const std::string& directory_id);

class RestoreFallback {
 public:
  explicit RestoreFallback(CheckpointManager::Impl& manager) : manager_(manager) {}

  /// Restores the first of @p numbers that is valid, and quarantines those before it. Nothing if there are none.
  /// @throws see CheckpointManager::restore_or_initialize
  std::optional<CheckpointInfo> newest(const std::vector<std::uint64_t>& numbers);

  /// Restores this file and no other. @throws see CheckpointManager::restore
  CheckpointInfo one(const std::filesystem::path& file);

  /// How often the data are read.
  enum class Pass {
    single,      ///< into the variables, with checks on the way
    verified,    ///< by all ranks together, to verify them; then into the variables, with checks
    unverified,  ///< into the variables, without checks (`verify_on_restore` is off)
  };

  /// Restores a node-local copy. Nothing if it is not to be restored.
  /// @param name  for messages
  /// @param choose  called when the restorer has looked, and nothing is touched: nothing if it is not to be restored
  std::optional<CheckpointInfo> local_copy(storage::Restorer& restorer, const std::filesystem::path& name,
                                           const std::function<std::optional<Pass>()>& choose);

  /// In a catch block: throws the error again with the word that variables were overwritten, if they were, and if it
  /// does not say so yet.
  void report_half_restored(const Error& error) const;

 private:
  using Clock = std::chrono::steady_clock;

  /// A checkpoint that was passed over.
  struct Rejected {
    std::uint64_t number = 0;
    std::string reason;
    std::optional<std::uint64_t> run_calls;  ///< if it could still be read
  };

  void keep_layout(storage::Restorer& restorer, const core::FileAddress& file);
  void read_structure(storage::Restorer& restorer, const std::filesystem::path& file);
  [[nodiscard]] Pass choose(const storage::Restorer& restorer, bool is_oldest);
  /// @param size_bytes  nothing: that of the file
  CheckpointInfo read(storage::Restorer& restorer, const std::filesystem::path& file,
                      std::optional<std::uint64_t> number, Pass pass, std::optional<std::uint64_t> size_bytes = {});
  CheckpointInfo read_file_of_others(storage::Restorer& restorer, const std::filesystem::path& file,
                                     std::optional<std::uint64_t> number, Pass pass);
  /// Returns what @p restore returns. Its failure is noted, and whether variables were overwritten.
  template <class Restore>
  auto noted(const storage::Restorer& restorer, const std::filesystem::path& file, Restore&& restore);
  void note_half_restored(const storage::Restorer& restorer);
  void reject(std::uint64_t number, const storage::Restorer& restorer, const CorruptError& error);
  void note_failure(const std::filesystem::path& file, const Error& error);
  [[noreturn]] static void end_half_restored(const Error& error);
  [[noreturn]] void end_without_a_valid_one();
  void check_covered(const storage::Restorer& restorer, const std::filesystem::path& file) const;
  void report_fallback(const CheckpointInfo& info);
  void quarantine();

  CheckpointManager::Impl& manager_;
  Clock::time_point start_;
  std::vector<Rejected> rejected_;  ///< newest first
};

/// Restores the newest complete node-local copy, if it is newer than all checkpoints of the directory and each rank has
/// its own part on its host. Otherwise makes a checkpoint file of it, which is then the newest one, and returns
/// nothing. local_restore.cpp states the steps. @throws as CheckpointManager::restore_or_initialize
std::optional<CheckpointInfo> restore_local_copy(CheckpointManager::Impl& manager, RestoreFallback& walk);

}  // namespace reprieve::manager
