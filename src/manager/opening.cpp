// SPDX-License-Identifier: BSD-3-Clause
#include "manager/opening.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <vector>

#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "settings/settings.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/bytes/compression.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/format/description.hpp"

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
  if (options.compress != Compression::none && !storage::can_compress()) {
    throw ConfigError(
        "compress: this library was built without Blosc; set compress to none, or install it (Debian: "
        "libblosc-dev) and build the library again");
  }
  if (directory.empty()) {
    throw ConfigError("the checkpoint directory must be given");
  }
  if (core::without_dots(directory) == directory.root_path()) {
    throw ConfigError("the root directory cannot be the checkpoint directory");
  }
}

/// Not changed by a later chdir.
fs::path absolute_directory(const fs::path& directory) { return core::without_dots(fs::absolute(directory)); }

}  // namespace

fs::path agree_on_arguments(cluster::Communicator& comm, const fs::path& directory, const ManagerOptions& options,
                            const std::optional<core::DrillOrders>& drill) {
  constexpr const char* what = "opening the checkpoint directory";
  comm.agree(core::capture([&] { check_options(directory, options); }), what);
  SharedValues mine = shared_values(manager_settings(), options, "checkpoints.");
  mine["directory"] = text_of(core::without_dots(directory).string());
  mine["read_environment"] = text_of(options.read_environment);
  check_same_on_all_ranks(comm, mine, what);
  const fs::path agreed = comm.from_rank_0([&] { return absolute_directory(directory); }, what);
  return drill ? agreed / drill->subdirectory : agreed;
}

std::optional<core::DrillOrders> agree_on_drill(cluster::Communicator& comm) {
  constexpr const char* what = "looking for the orders of a drill";
  return core::parse_drill_orders(comm.from_rank_0(core::read_drill_orders, what));
}

milliseconds opening_timeout(const ManagerOptions& options) {
  return std::clamp(options.io_timeout, milliseconds(1), kLongestTimeout) +
         std::clamp(options.lock_timeout, milliseconds(0), kLongestTimeout);
}

namespace {

std::string not_seen_text(cluster::Communicator& comm, const fs::path& directory) {
  if (comm.is_rank_0()) {
    return fmt::format(
        "rank 0 does not see the lock file in {} that it has opened: it must lie on a file system that shows at once "
        "what is written; to keep checkpoints in a cloud, copy them there (`reprieve run --after-commit`)",
        directory.string());
  }
  return fmt::format(
      "rank {} on host {} does not see the checkpoint directory {} that rank 0 on host {} has opened: it must lie on a "
      "file system that all nodes share",
      comm.rank(), comm.host(), directory.string(), comm.host_of(0));
}

}  // namespace

void check_directory_is_shared(cluster::Communicator& comm, CheckpointDirectory& directory,
                               const std::optional<DirectoryLock>& lock) {
  constexpr const char* what = "looking at the checkpoint directory from all ranks";
  const std::string mark = comm.from_rank_0([&] { return lock->mark(); }, what);
  std::string problem;
  const auto seen = [&] {
    try {
      if (read_lock_mark(directory.lock_file()) == mark) {
        return true;
      }
    } catch (const Error& error) {  // may pass; if it does not, it is reported
      problem = fmt::format(" ({})", error.what());
    }
    if (!comm.is_rank_0()) {
      directory.close();  // this node may have remembered another directory of that name
    }
    return false;
  };
  bool shared = seen();
  if (comm.max(shared ? 0 : 1, what) != 0) {
    comm.on_rank_0([&] { lock->flush_mark(); }, what);
  }
  const auto deadline = std::chrono::steady_clock::now() + kVisibilityTimeout;
  while (!shared && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(50));
    shared = seen();
  }
  comm.agree(core::capture([&] {
               if (!shared) {
                 throw StorageError(ErrorCode::io, not_seen_text(comm, directory.path()) + problem);
               }
             }),
             what);
}

namespace {

using core::Json;

/// Whether @p directory is the first one that this process asks for.
bool is_the_first(const fs::path& directory) {
  static std::mutex mutex;
  static std::optional<fs::path> first;  // NOLINT: what came first cannot be found out again
  const std::lock_guard lock(mutex);
  if (!first) {
    first = core::without_dots(directory);
  }
  return *first == core::without_dots(directory);
}

/// What a power cut or a bad disk can do now is no longer what the program was written for.
void warn_of_less_safety(const Json& values, const ManagerOptions& options) {
  const auto switched_off = [&](const char* key, bool in_code) {
    return in_code && values.contains(key) && !values[key].get<bool>();
  };
  if (switched_off("checkpoints.durable", options.durable)) {
    core::log::warning("{}=false: a power cut can lose checkpoints that were reported as saved",
                       settings::variable_of("checkpoints.durable"));
  }
  if (switched_off("checkpoints.verify_on_restore", options.verify_on_restore)) {
    core::log::warning("{}=false: corrupt checkpoints are restored without a word",
                       settings::variable_of("checkpoints.verify_on_restore"));
  }
}

/// Rank 0's.
Json read_environment(const fs::path& directory, const ManagerOptions& options) {
  settings::FromEnvironment found = settings::read(settings::own_variables());
  if (!found.unknown.empty()) {
    core::log::warning("{}", settings::unknown_variables_text(found.unknown));
  }
  if (const auto named = found.values.find("directory"); named != found.values.end() && !is_the_first(directory)) {
    core::log::warning("REPRIEVE_DIRECTORY={} is for the first checkpoint directory of the program: {} stays as it is",
                       named->get<std::string>(), directory.string());
    found.values.erase("directory");
  }
  if (!found.values.empty()) {
    core::log::info("settings of the environment: {}", found.values.dump());
  }
  warn_of_less_safety(found.values, options);
  return found.values;
}

}  // namespace

Json agree_on_environment(cluster::Communicator& comm, const fs::path& directory, const ManagerOptions& options) {
  constexpr const char* what = "reading the environment";
  const auto read = [&] {
    return text_of(options.read_environment ? read_environment(directory, options) : Json::object());
  };
  Json values = Json::parse(comm.from_rank_0(read, what));
  if (values.contains("log.level") || values.contains("log.other_ranks")) {
    Settings settings;
    settings::apply(values, settings);
    const bool is_set = values.contains(comm.is_rank_0() ? "log.level" : "log.other_ranks");
    if (is_set) {
      configure_logging(settings.log, comm.is_rank_0());
    }
  }
  return values;
}

ManagerOptions in_environment(ManagerOptions options, const Json& environment) {
  Settings settings;
  settings.manager = std::move(options);
  settings::apply(environment, settings);
  return std::move(settings.manager);
}

fs::path in_environment(const fs::path& directory, const Json& environment) {
  const auto named = environment.find("directory");
  return named == environment.end() ? directory : fs::path(named->get<std::string>());
}

namespace {

/// "rank 2", "ranks 1, 3-5"
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1) {
    for (last = first; last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1;) {
      ++last;
    }
    text += (first > 0 ? ", " : "") +
            (last > first ? fmt::format("{}-{}", ranks[first], ranks[last]) : fmt::format("{}", ranks[first]));
  }
  return text;
}

/// A line for each setting that is not the same everywhere: "io: "auto" on rank 0, "direct" on ranks 1-3".
std::string differences_text(const SharedValues& of_rank_0, const std::vector<SharedValues>& differences) {
  std::map<std::string, std::map<std::string, std::vector<std::size_t>>> ranks;  // by key and value
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    for (const auto& [key, value] : differences[rank]) {
      ranks[key][value].push_back(rank);
    }
  }
  std::string lines;
  for (const auto& [key, values] : ranks) {
    lines += fmt::format("\n  {}: {} on rank 0", key, of_rank_0.at(key));
    for (const auto& [value, where] : values) {
      lines += fmt::format(", {} on {}", value, ranks_text(where));
    }
  }
  return lines;
}

}  // namespace

void check_same_on_all_ranks(cluster::Communicator& comm, const SharedValues& mine, std::string_view what) {
  const SharedValues of_rank_0 = comm.from_root(mine, 0, what);
  SharedValues different;
  for (const auto& [key, value] : mine) {
    if (value != of_rank_0.at(key)) {
      different[key] = value;
    }
  }
  if (comm.max(different.empty() ? 0 : 1, what) == 0) {
    return;
  }
  const std::vector<SharedValues> differences = comm.gather_values(different, what);
  comm.on_rank_0(
      [&] {
        throw UsageError("the ranks were given different settings; they must be the same on all ranks:" +
                         differences_text(of_rank_0, differences));
      },
      what);
}

namespace {

/// The name under which the task of a Slurm array is a constant.
constexpr const char* kArrayTaskName = "slurm array task";
/// Longer texts are stored and shown as their digest.
constexpr std::size_t kLongestText = 200;

std::string digest_text(std::uint64_t digest, std::uint64_t bytes) {
  return fmt::format("xxh3:{:016x} of {} bytes", digest, bytes);
}

std::string as_stored(const std::string& text) {
  const bool is_short = text.size() <= kLongestText && storage::is_utf8(text);
  return is_short ? text : digest_text(storage::xxh3(std::as_bytes(std::span(text))), text.size());
}

std::string digest_of_file(const std::filesystem::path& path) {
  const storage::PosixFile file = storage::PosixFile::open_to_read(path);
  const std::uint64_t size = file.size();
  storage::Xxh3Stream digest;
  storage::read_in_pieces(file, 0, size, storage::adding_to(digest));
  return digest_text(digest.digest(), size);
}

}  // namespace

Constants find_constants(const Checkpoint::Registry& registry, bool with_array_task,
                         const std::function<std::optional<std::string>(const char*)>& environment) {
  Constants constants;
  for (const auto& [name, constant] : registry.constants) {
    constants[name] = constant.is_file ? digest_of_file(constant.text) : as_stored(constant.text);
  }
  // The job has another id at every submission; the task has not.
  const auto task = environment("SLURM_ARRAY_TASK_ID");
  if (with_array_task && task && environment("SLURM_ARRAY_JOB_ID")) {
    constants[kArrayTaskName] = as_stored(*task);
  }
  return constants;
}

void compare_constants(const std::filesystem::path& file, const Constants& stored, const Constants& present) {
  std::string differences;
  for (const auto& [name, value] : present) {
    const auto found = stored.find(name);
    if (found == stored.end()) {
      core::log::info("{} does not say what '{}' was; it is '{}' now", file.string(), name, value);
    } else if (found->second != value) {
      differences += fmt::format("\n  '{}': '{}' when it was saved, '{}' now", name, found->second, value);
    }
  }
  for (const auto& [name, value] : stored) {
    if (!present.contains(name)) {
      core::log::info("{} was saved with '{}' = '{}', which this program does not have", file.string(), name, value);
    }
  }
  if (!differences.empty()) {
    throw MismatchError(fmt::format(
        "{} belongs to another problem; nothing is restored from it. Use another directory, or move it away:{}",
        file.string(), differences));
  }
}

}  // namespace reprieve::manager
