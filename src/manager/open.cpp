// Opening a checkpoint directory: the ranks compare what they were given, the chief makes and locks the directory, and
// every rank makes sure that it sees the same one.

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "core/drill_orders.hpp"
#include "core/file_rights.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "core/run_record.hpp"
#include "manager/file_operations.hpp"
#include "manager/manager_impl.hpp"
#include "manager/manager_settings.hpp"
#include "manager/save.hpp"
#include "reprieve/version.hpp"
#include "storage/posix_file.hpp"

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

/// Everything that must be the same on all ranks, for comparison and for the message if it is not.
std::string describe_arguments(const fs::path& directory, const ManagerOptions& options) {
  return fmt::format(
      "directory {}, prefix {}, max_to_keep {}, keep_every {} s, writer {}, io {}, durable {}, recycle {}, reserve {}, "
      "verify_on_restore {}, event_log {}, lock_timeout {} ms, io_timeout {} ms, background {}, background_busy {}, "
      "background_memory_bytes {}",
      directory.lexically_normal().string(), options.prefix, options.max_to_keep, options.keep_every.count(),
      options.writer == WriterKind::direct ? "direct" : "mpio", static_cast<int>(options.io), options.durable,
      options.recycle, options.reserve, options.verify_on_restore, options.event_log, options.lock_timeout.count(),
      options.io_timeout.count(), options.background, options.background_busy == BackgroundBusy::wait ? "wait" : "skip",
      options.background_memory_bytes);
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
  const std::string mine = describe_arguments(directory, options);
  cluster::Bytes chiefs = cluster::to_bytes(mine);
  comm.broadcast(chiefs, 0, what);
  comm.agree(core::capture([&] {
               if (const std::string expected = cluster::to_text(chiefs); mine != expected) {
                 throw UsageError(
                     fmt::format("rank {} opens a checkpoint manager with other arguments than the "
                                 "chief.\n  chief: {}\n  rank {}: {}",
                                 comm.rank(), expected, comm.rank(), mine));
               }
             }),
             what);
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

/// Makes the directory and those above it, for this user alone, all of them durable.
void make_directories(const fs::path& directory, bool durable) {
  std::vector<fs::path> made;
  std::error_code ignored;
  for (fs::path path = directory; !fs::exists(path, ignored) && path.has_relative_path(); path = path.parent_path()) {
    made.push_back(path);
  }
  std::for_each(made.rbegin(), made.rend(), [](const fs::path& path) {
    static_cast<void>(::mkdir(path.c_str(), core::kOwnDirectory));  // what could not be made is told next
  });
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    const StorageError cause = storage::storage_error("make the checkpoint directory", directory, error.value());
    throw StorageError(
        cause.code(),
        std::string(cause.what()) + "; choose one that this user can write, on a file system that all nodes share");
  }
  struct stat status = {};
  if (::stat(directory.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0) {
    core::log::warning("everybody may write in {}: who does can make this program read and remove files of its user",
                       directory.string());
  }
  for (auto path = made.rbegin(); durable && path != made.rend(); ++path) {
    manager::sync_directory(path->parent_path());
  }
}

/// While the directory is opened, the other ranks wait for the chief to get the lock.
milliseconds opening_timeout(const ManagerOptions& options) {
  return std::clamp(options.io_timeout, milliseconds(1), kLongestTimeout) +
         std::clamp(options.lock_timeout, milliseconds(0), kLongestTimeout);
}

}  // namespace

CheckpointManager::Impl::Impl(MPI_Comm parent, Checkpoint& state, const fs::path& path, ManagerOptions manager_options)
    : comm(parent, opening_timeout(manager_options)),
      checkpoint(state),
      options(std::move(manager_options)),
      drill(agree_on_drill(comm)),
      directory(in_drill(agree_on_arguments(comm, path, options), drill), options.prefix, options.durable) {
  core::log::set_rank(comm.rank());
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
  make_directories(directory.path(), options.durable);
  const auto self = manager::LockHolder::self(comm.host(), comm.size());
  lock.emplace(directory.path() / manager::kLockName, self, options.lock_timeout);
  core::kill_point(core::KillPoint::open_locked);
  directory.remove_left_overs();
  core::kill_point(core::KillPoint::open_tidied);
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
                        {"library_version", REPRIEVE_VERSION}};
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
      return manager::read_lock_mark(directory.path() / manager::kLockName) == expected;
    } catch (const Error& error) {  // may pass; if it does not, it is told
      problem = fmt::format(" ({})", error.what());
      return false;
    }
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
