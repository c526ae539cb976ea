// Restoring: from the newest checkpoint backwards, the first that is sound is taken.

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manager/checkpoint_directory.hpp"
#include "manager/info_codec.hpp"
#include "manager/manager_impl.hpp"
#include "manager/restore_walk.hpp"
#include "reprieve/error.hpp"

namespace reprieve {

namespace {

namespace fs = std::filesystem;

/// The user's function, an error of which is one of all ranks.
void run_initialize(cluster::Communicator& comm, const std::function<void()>& initialize) {
  comm.agree(core::capture([&] {
               try {
                 initialize();
               } catch (const std::exception& error) {
                 throw ClusterError(fmt::format("the initialize function failed: {}", error.what()));
               } catch (...) {
                 throw ClusterError("the initialize function threw something that is not a std::exception");
               }
             }),
             "the initialize function");
}

}  // namespace

std::optional<CheckpointInfo> CheckpointManager::Impl::restore_or_initialize(const std::function<void()>& initialize) {
  const auto restore = [&] {
    std::optional<CheckpointInfo> restored = restore_newest(initialize);
    reserve();
    return restored;
  };
  return comm.together(restore, "restoring");
}

std::optional<CheckpointInfo> CheckpointManager::Impl::restore_newest(const std::function<void()>& initialize) {
  comm.on_chief([this] { directory.check_checkpoints_are_files(); }, "listing the checkpoints");
  // The chief's view counts: on a network file system the other ranks may see an older one.
  if (auto restored = manager::RestoreWalk(*this).newest(candidates())) {
    return restored;
  }
  comm.on_chief([this] { directory.check_nothing_is_set_aside(); }, "listing the checkpoints");
  check_state_is_whole();
  if (initialize) {
    run_initialize(comm, initialize);
  }
  return std::nullopt;
}

std::vector<std::uint64_t> CheckpointManager::Impl::candidates() {
  std::vector<std::uint64_t> numbers;
  const auto as_bytes = [&] {
    numbers = find_candidates();
    const auto view = std::as_bytes(std::span(numbers));
    return cluster::Bytes(view.begin(), view.end());
  };
  const cluster::Bytes bytes = from_chief(as_bytes, "listing the checkpoints");
  numbers.resize(bytes.size() / sizeof(std::uint64_t));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

CheckpointInfo CheckpointManager::Impl::restore(const fs::path& file) {
  const auto restore = [&] {
    CheckpointInfo info = manager::RestoreWalk(*this).one(file);
    if (handler) {
      handler->restored(info);
    }
    return info;
  };
  return comm.together(restore, "restoring");
}

/// The same on every rank.
void CheckpointManager::Impl::check_state_is_whole() const {
  if (half_restored) {
    throw UsageError(
        "a restore failed when it had overwritten a part of the variables: what the program has in memory is not one "
        "state, and is neither saved nor gone on with; start the program again");
  }
}

std::optional<CheckpointInfo> CheckpointManager::Impl::latest() {
  const auto find = [&] {
    std::vector<manager::OrderEntry> entries = directory.in_order(identity->directory_id());
    manager::drop_foreign(entries);
    std::reverse(entries.begin(), entries.end());  // newest first
    for (const manager::OrderEntry& entry : entries) {
      if (const auto info = directory.info(entry.number)) {
        return manager::encode({*info});
      }
    }
    return manager::encode({});
  };
  const auto latest = [&] {
    const auto found = manager::decode(from_chief(find, "looking for the latest checkpoint"));
    return found.empty() ? std::nullopt : std::optional(found.front());
  };
  return comm.together(latest, "looking for the latest checkpoint");
}

std::vector<CheckpointInfo> CheckpointManager::Impl::checkpoints() {
  const auto list = [&] {
    std::vector<CheckpointInfo> found;
    for (const manager::OrderEntry& entry : directory.in_order(identity->directory_id())) {
      if (const auto info = directory.info(entry.number)) {
        found.push_back(*info);
      }
    }
    return manager::encode(found);
  };
  return comm.together([&] { return manager::decode(from_chief(list, "listing the checkpoints")); },
                       "listing the checkpoints");
}

}  // namespace reprieve
