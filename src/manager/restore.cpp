// Restoring: from the newest checkpoint backwards, the first that is sound is taken.

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/file_names.hpp"
#include "manager/info_codec.hpp"
#include "manager/manager_impl.hpp"
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
  std::optional<CheckpointInfo> restored = restore_newest(initialize);
  reserve();
  return restored;
}

std::optional<CheckpointInfo> CheckpointManager::Impl::restore_newest(const std::function<void()>& initialize) {
  std::vector<std::uint64_t> damaged;
  std::string reasons;
  // The chief's view counts: on a network file system the other ranks may see an older one.
  for (const std::uint64_t number : candidates()) {
    const fs::path file = directory.file(number);
    try {
      CheckpointInfo info = restore(file, number);
      set_aside(damaged);
      return info;
    } catch (const CorruptError& error) {
      damaged.push_back(number);
      reasons += fmt::format("\n  {}: {}", file.filename().string(), error.what());
      record("passed_over", {{"number", number}, {"file", file.filename().string()}, {"reason", error.what()}});
      if (comm.is_chief()) {
        core::log::error("{} is damaged and passed over: {}", file.string(), error.what());
      }
    }
  }
  if (!damaged.empty()) {
    throw CorruptError(fmt::format("none of the checkpoints in {} is valid; to start anew, move them away:{}",
                                   directory.path().string(), reasons));
  }
  if (initialize) {
    run_initialize(comm, initialize);
  }
  return std::nullopt;
}

std::vector<std::uint64_t> CheckpointManager::Impl::candidates() {
  std::vector<std::uint64_t> numbers;
  const auto as_bytes = [&] {
    numbers = directory.numbers();
    const auto view = std::as_bytes(std::span(numbers));
    return cluster::Bytes(view.begin(), view.end());
  };
  const cluster::Bytes bytes = from_chief(as_bytes, "listing the checkpoints");
  numbers.resize(bytes.size() / sizeof(std::uint64_t));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(numbers)).begin());
  std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

storage::FileMetadata CheckpointManager::Impl::restore_state(const fs::path& file) {
  record("restore_started", {{"file", file.filename().string()}});
  try {
    return storage::restore_checkpoint(comm, checkpoint.registry(), file, options.verify_on_restore);
  } catch (const Error& error) {
    record("restore_failed", {{"file", file.filename().string()},
                              {"error", to_string(error.code())},
                              {"message", error.what()},
                              {"origin_rank", error.origin_rank()}});
    throw;
  }
}

CheckpointInfo CheckpointManager::Impl::restore(const fs::path& file, std::optional<std::uint64_t> number) {
  const auto start = std::chrono::steady_clock::now();
  const storage::FileMetadata metadata = restore_state(file);
  if (!number) {
    number = manager::parse_name(options.prefix, file.filename().string(), manager::kCheckpointSuffix);
  }
  const auto as_bytes = [&] {
    return manager::encode({manager::make_info(file, number.value_or(metadata.number), metadata)});
  };
  CheckpointInfo info = manager::decode(from_chief(as_bytes, "restoring")).front();
  core::kill_point(core::KillPoint::restore_done);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  record("restore", {{"file", file.filename().string()},
                     {"number", info.number},
                     {"run_calls", info.run_calls},
                     {"world_size", info.world_size},
                     {"bytes", info.size_bytes},
                     {"seconds", elapsed.count()}});
  if (comm.is_chief()) {
    core::log::info("restored {}, saved by {} ranks, in {:.3f} s", file.string(), info.world_size, elapsed.count());
  }
  return info;
}

/// Only once an older one is restored: with no valid checkpoint at all, the next start must find them and say so again,
/// not begin from nothing.
void CheckpointManager::Impl::set_aside(const std::vector<std::uint64_t>& damaged) {
  comm.on_chief(
      [&] {
        for (const std::uint64_t number : damaged) {
          core::log::warning("damaged checkpoint set aside as {}", directory.set_aside(number).string());
        }
      },
      "setting damaged checkpoints aside");
}

std::optional<CheckpointInfo> CheckpointManager::Impl::latest() {
  const auto find = [&] {
    std::vector<std::uint64_t> numbers = directory.numbers();
    std::reverse(numbers.begin(), numbers.end());
    for (const std::uint64_t number : numbers) {
      if (const auto info = directory.info(number)) {
        return manager::encode({*info});
      }
    }
    return manager::encode({});
  };
  const auto found = manager::decode(from_chief(find, "looking for the latest checkpoint"));
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::vector<CheckpointInfo> CheckpointManager::Impl::checkpoints() {
  const auto list = [&] {
    std::vector<CheckpointInfo> found;
    for (const std::uint64_t number : directory.numbers()) {
      if (const auto info = directory.info(number)) {
        found.push_back(*info);
      }
    }
    return manager::encode(found);
  };
  return manager::decode(from_chief(list, "listing the checkpoints"));
}

}  // namespace reprieve
