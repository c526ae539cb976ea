// SPDX-License-Identifier: BSD-3-Clause
#include "manager/restore_fallback.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "manager/checkpoint_list.hpp"

namespace reprieve::manager {

namespace {

/// Says what the order passes over, since the file names may suggest something else.
void report_passed_over(CheckpointDirectory& directory, const std::vector<OrderEntry>& oldest_first) {
  const OrderEntry& newest = oldest_first.back();
  if (newest.origin != Origin::own) {
    return;
  }
  const auto newest_info = directory.info(newest.number);
  for (const OrderEntry& entry : oldest_first) {
    const std::string path = directory.file(entry.number).string();
    if (entry.origin == Origin::foreign) {
      core::log::warning(
          "{} was saved in another directory, so it is passed over; to resume from it, restore it by its name, or move "
          "the "
          "checkpoints of this directory away",
          path);
      continue;
    }
    const auto info = entry.origin == Origin::uncounted ? directory.info(entry.number) : std::nullopt;
    if (info && newest_info && info->time > newest_info->time) {
      core::log::warning(
          "{} was saved by an older version of this library after {}, so it is not known to be newer, and is passed "
          "over; to resume from it, restore it by its name, or move the others away",
          path, newest_info->path.filename().string());
    }
  }
}

/// The newest first.
std::vector<std::uint64_t> numbers_of(const std::vector<OrderEntry>& oldest_first) {
  std::vector<std::uint64_t> numbers;
  std::transform(oldest_first.rbegin(), oldest_first.rend(), std::back_inserter(numbers),
                 [](const OrderEntry& entry) { return entry.number; });
  return numbers;
}

}  // namespace

std::vector<std::uint64_t> find_candidates(CheckpointDirectory& directory, const std::string& directory_id) {
  std::vector<OrderEntry> entries = directory.in_order(directory_id);
  if (entries.empty()) {
    return {};
  }
  report_passed_over(directory, entries);
  drop_foreign(entries);
  std::set<std::string> directories;
  for (const OrderEntry& entry : entries) {
    if (entry.origin == Origin::foreign) {
      directories.insert(entry.directory_id);
    }
  }
  if (directories.size() > 1) {
    throw UsageError(
        fmt::format("{} holds checkpoints of {} other directories and none of its own: none of them is the newest; "
                    "leave those of one there, or restore one by its name",
                    directory.path().string(), directories.size()));
  }
  if (!directories.empty()) {
    core::log::warning("{} holds checkpoints that were saved in another directory, and none of its own: they are taken",
                       directory.path().string());
  }
  return numbers_of(entries);
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kHalfRestored =
    "; variables of the program were overwritten before this happened, so no older checkpoint is taken and nothing is "
    "initialised: start the program again, and do not continue with what it has in memory now";

const char* name_of(RestoreFallback::Pass pass) {
  using Pass = RestoreFallback::Pass;
  return pass == Pass::verified ? "verified" : pass == Pass::single ? "single" : "unverified";
}

}  // namespace

template <class Restore>
auto RestoreFallback::noted(const storage::Restorer& restorer, const fs::path& file, Restore&& restore) {
  try {
    return restore();
  } catch (const Error& error) {
    note_failure(file, error);
    note_half_restored(restorer);
    throw;
  } catch (...) {  // on its way to an agreement
    note_half_restored(restorer);
    throw;
  }
}

std::optional<CheckpointInfo> RestoreFallback::newest(const std::vector<std::uint64_t>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const core::FileAddress file = manager_.directory.file(numbers[i]);
    storage::Restorer restorer(manager_.comm, manager_.checkpoint.registry(), file, manager_.options.verify_on_restore);
    Pass pass = Pass::single;
    try {
      return noted(restorer, file, [&] {
        read_structure(restorer, file);
        pass = choose(restorer, i + 1 == numbers.size());
        CheckpointInfo info = read(restorer, file, numbers[i], pass);
        keep_layout(restorer, file);
        report_fallback(info);
        quarantine();
        return info;
      });
    } catch (const CorruptError& error) {
      if (restorer.touched() && pass == Pass::verified) {
        end_half_restored(error);
      }
      reject(numbers[i], restorer, error);
    }
  }
  if (!rejected_.empty()) {
    end_without_a_valid_one();
  }
  return std::nullopt;
}

CheckpointInfo RestoreFallback::one(const fs::path& file) {
  storage::Restorer restorer(manager_.comm, manager_.checkpoint.registry(), file, manager_.options.verify_on_restore);
  try {
    return noted(restorer, file, [&] {
      read_structure(restorer, file);
      const Pass pass = manager_.options.verify_on_restore ? Pass::verified : Pass::unverified;
      const auto number = parse_name(manager_.options.prefix, file.filename().string(), kCheckpointSuffix);
      CheckpointInfo info = read_file_of_others(restorer, file, number, pass);
      keep_layout(restorer, file);
      return info;
    });
  } catch (const Error& error) {
    report_half_restored(error);
    throw;
  }
}

std::optional<CheckpointInfo> RestoreFallback::local_copy(storage::Restorer& restorer, const fs::path& name,
                                                          const std::function<std::optional<Pass>()>& choose) {
  return noted(restorer, name, [&] {
    read_structure(restorer, name);
    const std::optional<Pass> pass = choose();
    return pass ? std::optional(read(restorer, name, {}, *pass, restorer.index()->file_size)) : std::nullopt;
  });
}

/// The next file will be like this one.
void RestoreFallback::keep_layout(storage::Restorer& restorer, const core::FileAddress& file) {
  if (manager_.comm.is_rank_0()) {
    manager_.layout.model = storage::LayoutCache::Model{file, restorer.take_index()};
  }
}

void RestoreFallback::read_structure(storage::Restorer& restorer, const fs::path& file) {
  start_ = Clock::now();
  manager_.record(events::RestoreStarted{file.filename().string()});
  try {
    restorer.read_structure();
  } catch (const StorageError& error) {
    throw StorageError(error.code(),
                       fmt::format("{}; what cannot be read cannot be judged, so nothing older is restored and nothing "
                                   "is initialised: make it readable, or move it away if it is not wanted",
                                   error.what()),
                       error.origin_rank());
  } catch (const MismatchError&) {
    if (restorer.index()) {  // another problem says more than other shapes
      manager_.check_constants(file, restorer.index()->metadata.constants);
    }
    throw;
  }
  manager_.check_constants(file, restorer.index()->metadata.constants);
  check_covered(restorer, file);
}

/// What a restore that failed has left in a variable must not stay there.
void RestoreFallback::check_covered(const storage::Restorer& restorer, const fs::path& file) const {
  const state::HalfRestored& half_restored = manager_.checkpoint.registry().half_restored;
  if (!half_restored.is_so) {
    return;
  }
  const auto check = [&] {
    const std::set<std::string> overwritten = restorer.overwritten();
    for (const std::string& name : half_restored.names) {
      if (!overwritten.contains(name)) {
        throw MismatchError(
            fmt::format("{} has no variable '{}', which a restore that failed has overwritten", file.string(), name));
      }
    }
  };
  manager_.comm.agree(core::capture(check), "comparing the checkpoints");
}

RestoreFallback::Pass RestoreFallback::choose(const storage::Restorer& restorer, bool is_oldest) {
  if (!manager_.options.verify_on_restore) {
    return Pass::unverified;
  }
  // A rank without a part may have registered less than the others.
  const auto all_are_plain = [&] {
    return manager_.comm.max(restorer.is_plain() ? 0 : 1, "comparing the checkpoints") == 0;
  };
  return is_oldest || all_are_plain() ? Pass::single : Pass::verified;
}

CheckpointInfo RestoreFallback::read(storage::Restorer& restorer, const fs::path& file,
                                     std::optional<std::uint64_t> number, Pass pass,
                                     std::optional<std::uint64_t> size_bytes) {
  if (pass == Pass::verified) {
    restorer.verify_first();
  }
  restorer.restore(manager_.check_arrays);
  const auto known = [&] {
    const storage::FileMetadata& metadata = restorer.index()->metadata;
    return make_info(file, number.value_or(metadata.number), metadata, size_bytes);
  };
  CheckpointInfo info = manager_.comm.from_rank_0(known, "restoring");
  core::failpoint("restore.done");
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  manager_.checkpoint.registry().half_restored = {};
  manager_.record(events::Restored{file.filename().string(), info.number, info.world_size, info.size_bytes,
                                   name_of(pass), elapsed.count(), info.run_calls});
  if (manager_.comm.is_rank_0()) {
    core::log::info("restored {}, saved by {}, in {}", file.string(), core::count_text(info.world_size, "rank"),
                    core::seconds_text(elapsed.count()));
  }
  return info;
}

/// A run that lives may own it, and retire it meanwhile.
CheckpointInfo RestoreFallback::read_file_of_others(storage::Restorer& restorer, const fs::path& file,
                                                    std::optional<std::uint64_t> number, Pass pass) {
  try {
    CheckpointInfo info = read(restorer, file, number, pass);
    if (pass == Pass::unverified) {
      restorer.check_not_retired();
    }
    return info;
  } catch (const CorruptError&) {
    restorer.check_not_retired();
    throw;
  }
}

void RestoreFallback::note_failure(const fs::path& file, const Error& error) {
  manager_.record(
      events::RestoreFailed{file.filename().string(), to_string(error.code()), error.what(), error.origin_rank()});
}

void RestoreFallback::note_half_restored(const storage::Restorer& restorer) {
  if (restorer.touched()) {
    state::HalfRestored& half_restored = manager_.checkpoint.registry().half_restored;
    half_restored.is_so = true;
    half_restored.names.merge(restorer.overwritten());
  }
}

void RestoreFallback::reject(std::uint64_t number, const storage::Restorer& restorer, const CorruptError& error) {
  const fs::path file = manager_.directory.file(number);
  Rejected& rejected = rejected_.emplace_back(Rejected{number, error.what(), std::nullopt});
  if (restorer.index()) {
    rejected.run_calls = restorer.index()->metadata.run_calls;
  }
  manager_.record(events::PassedOver{number, file.filename().string(), error.what()});
  if (manager_.comm.is_rank_0()) {
    core::log::error("{} is corrupt and passed over: {}", file.string(), error.what());
  }
}

void RestoreFallback::report_half_restored(const Error& error) const {
  if (manager_.checkpoint.registry().half_restored.is_so &&
      std::string_view(error.what()).find(kHalfRestored) == std::string_view::npos) {
    end_half_restored(error);
  }
}

void RestoreFallback::end_half_restored(const Error& error) {
  if (error.code() == ErrorCode::unresponsive) {
    throw;  // with the names of the ranks
  }
  throw_error(error.code(), error.what() + std::string(kHalfRestored), error.origin_rank());
}

void RestoreFallback::end_without_a_valid_one() {
  std::string reasons;
  for (const Rejected& rejected : rejected_) {
    reasons += fmt::format("\n  {}: {}", manager_.directory.file(rejected.number).filename().string(), rejected.reason);
  }
  const std::string message =
      fmt::format("none of the checkpoints in {} is valid; to start from the beginning, move them away:{}",
                  manager_.directory.path().string(), reasons);
  throw CorruptError(message);
}

/// Lost work is said out loud.
void RestoreFallback::report_fallback(const CheckpointInfo& info) {
  if (rejected_.empty()) {
    return;
  }
  const Rejected& newest = rejected_.front();
  const std::string file = manager_.directory.file(newest.number).filename().string();
  events::Fallback event{info.path.filename().string(), file, info.run_calls, std::nullopt};
  std::string cost = "all work since that was saved is lost and has to be done again";
  if (info.run_calls) {
    cost = fmt::format("all work since step {} is lost and has to be done again", *info.run_calls);
  }
  if (newest.run_calls && info.run_calls && *newest.run_calls >= *info.run_calls) {
    const std::uint64_t lost = *newest.run_calls - *info.run_calls;
    event.steps_lost = lost;
    cost = fmt::format("the work of {}, {} to {}, is lost and has to be done again", core::count_text(lost, "step"),
                       *info.run_calls, *newest.run_calls);
  }
  manager_.record(event);
  if (manager_.comm.is_rank_0()) {
    core::log::error("restored {} instead of {}, which is corrupt: {}", info.path.filename().string(), file, cost);
  }
}

/// Only once an older one is restored: with no valid checkpoint at all, the next start must find them and say so again,
/// not begin from nothing.
void RestoreFallback::quarantine() {
  manager_.comm.on_rank_0(
      [&] {
        for (const Rejected& rejected : rejected_) {
          core::log::warning("corrupt checkpoint quarantined as {}",
                             manager_.directory.quarantine(rejected.number).string());
        }
      },
      "quarantining corrupt checkpoints");
}

}  // namespace reprieve::manager
