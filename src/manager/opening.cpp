// SPDX-License-Identifier: BSD-3-Clause
#include "manager/opening.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "manager/directory_lock.hpp"
#include "manager/same_settings.hpp"
#include "settings/manager_settings.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// More than any job lasts; keeps sums of time limits far from overflow.
constexpr milliseconds kLongestTimeout = std::chrono::hours(24 * 366);
/// How long a new directory may take to be seen on all nodes (NFS remembers for some seconds that a name is not there).
constexpr std::chrono::seconds kVisibilityTimeout{10};

void check_options(const fs::path& directory, const ManagerOptions& options) {
  validate(options);
  if (directory.empty()) {
    throw ConfigError("the checkpoint directory must be given");
  }
  if (directory.lexically_normal() == directory.root_path()) {
    throw ConfigError("the root directory cannot be the checkpoint directory");
  }
}

/// Absolute, without `.`, `..` and a slash at the end, and not changed by a later chdir.
fs::path absolute_directory(const fs::path& directory) {
  const fs::path path = fs::absolute(directory).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

fs::path agree_on_arguments(cluster::Communicator& comm, const fs::path& directory, const ManagerOptions& options,
                            const std::optional<core::DrillOrders>& drill) {
  constexpr const char* what = "opening the checkpoint directory";
  comm.agree(core::capture([&] { check_options(directory, options); }), what);
  core::Json mine = core::Json::object();
  const core::Json shared = shared_values(manager_settings(), options);
  for (const auto& [key, value] : shared.items()) {
    mine["checkpoints." + key] = value;
  }
  mine["directory"] = directory.lexically_normal().string();
  mine["read_environment"] = options.read_environment;
  check_same_on_all_ranks(comm, mine, what);
  cluster::Bytes path = cluster::to_bytes(comm.is_chief() ? absolute_directory(directory).string() : "");
  comm.broadcast(path, 0, what);
  const fs::path agreed = cluster::to_text(path);
  return drill ? agreed / drill->subdirectory : agreed;
}

std::optional<core::DrillOrders> agree_on_drill(cluster::Communicator& comm) {
  constexpr const char* what = "looking for the orders of a drill";
  cluster::Bytes orders = cluster::to_bytes(comm.is_chief() ? core::read_drill_orders() : "");
  comm.broadcast(orders, 0, what);
  return core::parse_drill_orders(cluster::to_text(orders));
}

milliseconds opening_timeout(const ManagerOptions& options) {
  return std::clamp(options.io_timeout, milliseconds(1), kLongestTimeout) +
         std::clamp(options.lock_timeout, milliseconds(0), kLongestTimeout);
}

void check_directory_is_shared(cluster::Communicator& comm, CheckpointDirectory& directory, const std::string& mark) {
  constexpr const char* what = "looking at the checkpoint directory from all ranks";
  std::string problem;
  const auto seen = [&] {
    try {
      if (read_lock_mark(directory.lock_file()) == mark) {
        return true;
      }
    } catch (const Error& error) {  // may pass; if it does not, it is told
      problem = fmt::format(" ({})", error.what());
    }
    if (!comm.is_chief()) {
      directory.forget_place();  // this node may have remembered another directory of that name
    }
    return false;
  };
  const auto deadline = std::chrono::steady_clock::now() + kVisibilityTimeout;
  bool shared = seen();
  while (!shared && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(50));
    shared = seen();
  }
  comm.agree(core::capture([&] {
               if (!shared) {
                 throw StorageError(
                     ErrorCode::io,
                     fmt::format("rank {} on host {} does not see the checkpoint directory {} that the "
                                 "chief on host {} has opened: it must lie on a file system that all "
                                 "nodes share{}",
                                 comm.rank(), comm.host(), directory.path().string(), comm.host_of(0), problem));
               }
             }),
             what);
}

}  // namespace reprieve::manager
