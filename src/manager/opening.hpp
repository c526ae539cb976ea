// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Opening a checkpoint directory: what the ranks have to agree on before and after rank 0 has opened it. Collective
/// but where it says otherwise.

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cluster/communicator.hpp"
#include "core/run_record.hpp"
#include "core/setting.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/directory_lock.hpp"
#include "reprieve/checkpoint_manager.hpp"
#include "reprieve/manager_options.hpp"
#include "state/registry.hpp"

namespace reprieve::manager {

/// The arguments are checked on every rank and compared with rank 0's; the path of all is rank 0's, since ranks
/// may have been started in different working directories. In a drill it is that of the drill.
/// @throws ConfigError, UsageError on all ranks
[[nodiscard]] std::filesystem::path agree_on_arguments(cluster::Communicator& comm,
                                                       const std::filesystem::path& directory,
                                                       const ManagerOptions& options,
                                                       const std::optional<core::DrillOrders>& drill);

/// Rank 0's orders, if this is a drill.
[[nodiscard]] std::optional<core::DrillOrders> agree_on_drill(cluster::Communicator& comm);

/// While the directory is opened, the other ranks wait for rank 0 to get the lock. Not collective.
[[nodiscard]] std::chrono::milliseconds opening_timeout(const ManagerOptions& options);

/// Makes sure that every rank sees the directory that rank 0 has opened, by the mark in its lock file.
/// @param lock  rank 0's @throws StorageError, on all ranks
void check_directory_is_shared(cluster::Communicator& comm, CheckpointDirectory& directory,
                               const std::optional<DirectoryLock>& lock);

// What the environment of rank 0 says to a manager.

/// The settings of the environment, by key, the same on every rank; none if @p options say that it does not count.
/// Reports on rank 0 what it changes. Collective.
/// @param directory  that the program asks for. REPRIEVE_DIRECTORY is for the first one that this process asks for, and
/// for that one alone: two parts of a program would otherwise take each other's checkpoints for their own.
/// @throws ConfigError on every rank
core::Json agree_on_environment(cluster::Communicator& comm, const std::filesystem::path& directory,
                                const ManagerOptions& options);

/// The options, and the directory. The environment's settings replace the program's.
ManagerOptions in_environment(ManagerOptions options, const core::Json& environment);
std::filesystem::path in_environment(const std::filesystem::path& directory, const core::Json& environment);

// Whether all ranks were given the same settings.

/// Settings that must be the same on all ranks: their values as text, by key.
using SharedValues = std::map<std::string, std::string>;

/// A value as text. Bytes that are not UTF-8 are replaced.
[[nodiscard]] inline std::string text_of(const core::Json& value) {
  return value.dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

/// Those of @p table, whose keys begin with @p section.
template <class Options>
SharedValues shared_values(const core::Table<Options>& table, const Options& options, const std::string& section = "") {
  SharedValues values;
  for (const auto& row : table) {
    if (row.same_on_all_ranks) {
      values[section + row.key] = text_of(row.get(options));
    }
  }
  return values;
}

/// Collective. @p mine has the same keys on every rank.
/// @throws UsageError on every rank that names each setting that differs from rank 0's, the ranks and their values
void check_same_on_all_ranks(cluster::Communicator& comm, const SharedValues& mine, std::string_view what);

// What must be the same in every run that uses a directory (`Checkpoint::add_constant`). No MPI; rank 0's.

/// By name, as they stand in a file.
using Constants = std::map<std::string, std::string>;

/// Those that the program registered, with long texts and files as their digests; and the task, inside of an array.
/// @param environment  a variable's value, or nothing
/// @throws StorageError, CorruptError if a file cannot be read
Constants find_constants(const Checkpoint::Registry& registry, bool with_array_task,
                         const std::function<std::optional<std::string>(const char*)>& environment);

/// Compares those of a file with those of this run. One that only one of them has is logged, and is no error.
/// @throws MismatchError with all that differ
void compare_constants(const std::filesystem::path& file, const Constants& stored, const Constants& present);

}  // namespace reprieve::manager
