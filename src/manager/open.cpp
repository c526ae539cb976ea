// Opening a checkpoint directory: the ranks compare what they were given, the chief makes and locks the directory, and
// every rank makes sure that it sees the same one.

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "core/drill_orders.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "core/run_record.hpp"
#include "manager/directory_place.hpp"
#include "manager/manager_impl.hpp"
#include "manager/outside.hpp"
#include "manager/same_settings.hpp"
#include "manager/save.hpp"
#include "reprieve/version.hpp"
#include "settings/manager_settings.hpp"

namespace reprieve {

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

/// The arguments are checked on every rank and compared with the chief's; the path of all is the chief's, since ranks
/// may have been started in different working directories. Collective.
fs::path agree_on_arguments(cluster::Communicator& comm, const fs::path& directory, const ManagerOptions& options) {
  constexpr const char* what = "opening the checkpoint directory";
  comm.agree(core::capture([&] { check_options(directory, options); }), what);
  core::Json mine = core::Json::object();
  const core::Json shared = manager::shared_values(manager_settings(), options);
  for (const auto& [key, value] : shared.items()) {
    mine["checkpoints." + key] = value;
  }
  mine["directory"] = directory.lexically_normal().string();
  mine["read_environment"] = options.read_environment;
  manager::check_same_on_all_ranks(comm, mine, what);
  cluster::Bytes path = cluster::to_bytes(comm.is_chief() ? absolute_directory(directory).string() : "");
  comm.broadcast(path, 0, what);
  return cluster::to_text(path);
}

/// The chief's orders, if this is a drill. Collective.
std::optional<core::DrillOrders> agree_on_drill(cluster::Communicator& comm) {
  constexpr const char* what = "looking for the orders of a drill";
  cluster::Bytes orders = cluster::to_bytes(comm.is_chief() ? core::read_drill_orders() : "");
  comm.broadcast(orders, 0, what);
  return core::parse_drill_orders(cluster::to_text(orders));
}

fs::path in_drill(const fs::path& directory, const std::optional<core::DrillOrders>& drill) {
  return drill ? directory / drill->subdirectory : directory;
}

/// While the directory is opened, the other ranks wait for the chief to get the lock.
milliseconds opening_timeout(const ManagerOptions& options) {
  return std::clamp(options.io_timeout, milliseconds(1), kLongestTimeout) +
         std::clamp(options.lock_timeout, milliseconds(0), kLongestTimeout);
}

}  // namespace

/// The communicator is there before, and after, all that one rank could fail in.
std::unique_ptr<CheckpointManager::Impl> CheckpointManager::Impl::open(MPI_Comm parent, Checkpoint& state,
                                                                       const fs::path& path,
                                                                       ManagerOptions&& manager_options) {
  const auto ranks = cluster::Communicator::make(parent, opening_timeout(manager_options));
  const auto make = [&] { return std::make_unique<Impl>(ranks, state, path, std::move(manager_options)); };
  return ranks->together(make, "opening the checkpoint directory");
}

CheckpointManager::Impl::Impl(const std::shared_ptr<cluster::Communicator>& ranks, Checkpoint& state,
                              const fs::path& path, ManagerOptions&& manager_options)
    : own_comm(ranks),
      comm(*ranks),
      checkpoint(state),
      environment(manager::agree_on_environment(comm, path, manager_options)),
      options(manager::in_environment(std::move(manager_options), environment)),
      drill(agree_on_drill(comm)),
      directory(in_drill(agree_on_arguments(comm, manager::in_environment(path, environment), options), drill),
                options.prefix, options.durable),
      finalize_hook_([this] { at_finalize(); }) {
  core::log::set_rank(comm.rank());
  comm.set_timeout(opening_timeout(options));
  comm.on_chief([this] { open_directory(); }, "opening the checkpoint directory");
  check_directory_is_shared();
  comm.set_timeout(options.io_timeout);
}

void CheckpointManager::Impl::open_directory() {
  run_record = core::open_run_record(comm.host());
  try {
    lock_directory();
  } catch (const Error& error) {
    run_record.record(
        "open_failed",
        {{"directory", directory.path().string()}, {"error", to_string(error.code())}, {"message", error.what()}});
    throw;
  }
}

void CheckpointManager::Impl::lock_directory() {
  std::error_code ignored;
  const bool in_new_directory = drill && !fs::exists(directory.path().parent_path(), ignored);
  directory.make_place();
  manager::check_who_may_write(directory.place(), directory.path());
  if (manager::is_open_in_this_process(directory.path() / manager::kLockName)) {
    throw UsageError(fmt::format(
        "this program has a checkpoint manager (or a handler) on the directory {} already: close that one "
        "first, or give each of them a directory of its own{}",
        directory.path().string(), environment.contains("directory") ? " (REPRIEVE_DIRECTORY is set)" : ""));
  }
  const auto self = manager::LockHolder::self(comm.host(), comm.size());
  lock.emplace(directory.path() / manager::kLockName, self, options.lock_timeout);
  if (!lock->is_in(directory.place())) {
    throw StorageError(ErrorCode::io, fmt::format("the checkpoint directory {} was replaced while it was opened",
                                                  directory.path().string()));
  }
  core::kill_point(core::KillPoint::open_locked);
  directory.remove_left_overs();
  core::kill_point(core::KillPoint::open_tidied);
  identity.emplace(directory.place(), options.prefix, options.durable);
  if (!options.recycle && !options.reserve) {
    directory.remove_spare();
  }
  if (options.event_log) {
    events = core::EventLog(directory.path() / manager::kEventLogName);
  }
  nlohmann::json fields{{"host", self.host},
                        {"pid", self.pid},
                        {"world_size", self.world_size},
                        {"directory", directory.path().string()},
                        {"run", identity->run()},
                        {"library_version", REPRIEVE_VERSION}};
  if (!environment.empty()) {
    fields["environment"] = environment;
  }
  if (in_new_directory) {
    fields["in_new_directory"] = true;  // the drill removes it again
  }
  record("start", fields);
}

void CheckpointManager::Impl::check_directory_is_shared() {
  constexpr const char* what = "looking at the checkpoint directory from all ranks";
  const std::string expected = cluster::to_text(from_chief([this] { return cluster::to_bytes(lock->mark()); }, what));
  std::string problem;
  const auto seen = [&] {
    try {
      if (manager::read_lock_mark(directory.lock_file()) == expected) {
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

void CheckpointManager::Impl::record(const std::string& event, const nlohmann::json& fields) {
  if (comm.is_chief()) {
    events.record(event, fields);
    run_record.record(event, fields);
  }
}

cluster::Bytes CheckpointManager::Impl::from_chief(const std::function<cluster::Bytes()>& make, std::string_view what) {
  cluster::Bytes bytes;
  comm.on_chief([&] { bytes = make(); }, what);
  comm.broadcast(bytes, 0, what);
  return bytes;
}

}  // namespace reprieve
