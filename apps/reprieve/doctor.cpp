// SPDX-License-Identifier: BSD-3-Clause
// reprieve doctor [DIR]

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/environment.hpp"
#include "core/file_address.hpp"
#include "examination.hpp"
#include "findings.hpp"
#include "reprieve/error.hpp"
#include "settings/environment.hpp"
#include "storage/bytes/posix_file.hpp"
#include "termination/short_command.hpp"
#include "text.hpp"

namespace reprieve::tool::doctor_command {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr const char* kFooter =
    R"(Looks whether this machine is fit for runs that save themselves: the file system of the checkpoints (locks, durable
writes, room), the launcher, what Slurm or PBS is set to, variables of the environment, limits. Each finding comes with what to
do. It makes a file of 64 MiB in DIR for a moment. What only a real run can show, `reprieve drill` shows.

Examples:
  reprieve doctor                              this directory, this machine
  reprieve doctor /scratch/me/checkpoints      where your program keeps its checkpoints
  srun -N 2 --ntasks-per-node=1 reprieve doctor /scratch/me/checkpoints

Exit codes: 0 nothing is wrong, 1 a problem was found, 2 wrong usage.)";

constexpr std::size_t kProbeBytes = std::size_t{64} << 20U;
constexpr std::size_t kSmallBytes = 4096;
constexpr int kSyncs = 5;

struct Options {
  fs::path directory{"."};
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  command.add_option("DIR", options.directory, "Where checkpoints are to lie; default: this directory");
  command.add_flag("--json", options.json, "Print JSON");
}

std::string name_of_file_system(long type) {
  static const std::map<long, std::string> kNames{{EXT4_SUPER_MAGIC, "ext4"},
                                                  {XFS_SUPER_MAGIC, "xfs"},
                                                  {BTRFS_SUPER_MAGIC, "btrfs"},
                                                  {TMPFS_MAGIC, "tmpfs"},
                                                  {RAMFS_MAGIC, "ramfs"},
                                                  {NFS_SUPER_MAGIC, "NFS"},
                                                  {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
                                                  {FUSE_SUPER_MAGIC, "FUSE"},
                                                  {0x0bd00bd0, "Lustre"},
                                                  {0x47504653, "GPFS"},
                                                  {0x19830326, "BeeGFS"}};
  const auto found = kNames.find(type);
  return found == kNames.end() ? fmt::format("file system 0x{:x}", type) : found->second;
}

/// Whether a second lock on a file is refused, as it must be.
bool locks_hold(const core::Directory& directory, const std::string& name) {
  const core::Descriptor first = directory.open_file(name, O_RDWR);  // NFS 4 gives such locks to writers alone
  const core::Descriptor second = directory.open_file(name, O_RDWR);
  return ::flock(first.get(), LOCK_EX | LOCK_NB) == 0 && ::flock(second.get(), LOCK_EX | LOCK_NB) != 0;
}

double slowest_sync_s(const storage::PosixFile& file) {
  const std::vector<std::byte> little(kSmallBytes, std::byte{1});
  double slowest = 0;
  for (int i = 0; i < kSyncs; ++i) {
    const auto start = Clock::now();
    file.write_all(little, static_cast<std::uint64_t>(i) * kSmallBytes);
    file.sync();
    slowest = std::max(slowest, Seconds(Clock::now() - start).count());
  }
  return slowest;
}

double durable_bytes_per_second(const storage::PosixFile& file) {
  const std::vector<std::byte> much(kProbeBytes, std::byte{2});
  const auto start = Clock::now();
  file.write_all(much, 0);
  file.sync();
  return static_cast<double>(kProbeBytes) / Seconds(Clock::now() - start).count();
}

std::uint64_t free_bytes(const fs::path& path) {
  std::error_code failure;
  const fs::space_info space = fs::space(path, failure);
  return failure ? 0 : space.available;
}

PlaceFacts try_place(const fs::path& path) {
  PlaceFacts facts;
  facts.path = path.string();
  // The host, as other nodes may try the same directory just now.
  const std::string name = fmt::format(".reprieve.doctor.{}.{}", core::host_name(), ::getpid());
  try {
    const auto opened = std::make_shared<const core::Directory>(core::Directory::open(path));
    const core::Directory& directory = *opened;
    struct statfs status {};
    if (::fstatfs(directory.descriptor(), &status) == 0) {
      facts.file_system = name_of_file_system(status.f_type);
    }
    facts.free_bytes = free_bytes(path);
    const core::FileAddress address(opened, name, path / name);
    try {
      storage::check_file_size_limit(path, kProbeBytes);
      const storage::PosixFile file = storage::PosixFile::create(address);
      facts.in_memory = file.is_in_memory();
      facts.locks = locks_hold(directory, name);
      facts.direct = storage::PosixFile::open_direct(address).has_value();
      facts.sync_s = slowest_sync_s(file);
      facts.bytes_per_second = durable_bytes_per_second(file);
    } catch (const Error& error) {
      facts.failure = error.what();
    }
    static_cast<void>(directory.remove_file(name));
  } catch (const Error& error) {
    facts.failure = error.what();
  }
  return facts;
}

std::optional<std::uint64_t> soft_limit(int resource) {
  rlimit limit{};
  const bool is_known = ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
  return is_known && limit.rlim_cur != RLIM_INFINITY ? std::optional<std::uint64_t>(limit.rlim_cur) : std::nullopt;
}

MachineFacts look_around(const Options& options) {
  MachineFacts facts;
  facts.place = try_place(options.directory);
  facts.mpirun = first_line(termination::output_of({"mpirun", "--version"}, {}, kAnswerLimit).value_or(""));
  facts.in_slurm_job = core::environment_variable("SLURM_JOB_ID").has_value();
  if (const auto config = termination::output_of({"scontrol", "show", "config"}, {}, kAnswerLimit)) {
    facts.slurm = parse_slurm_config(*config);
  }
  if (const auto job = core::environment_variable("PBS_JOBID")) {
    facts.in_pbs_job = true;
    facts.knows_wall_time = core::environment_variable("PBS_WALLTIME").has_value();
    if (const auto answer = termination::output_of({"qstat", "-f", *job}, {}, kAnswerLimit)) {
      facts.pbs = parse_pbs_job(*answer);
    }
  }
  try {
    facts.unknown_variables = settings::read(settings::own_variables()).unknown;
  } catch (const ConfigError& error) {
    facts.settings_error = error.what();
  }
  facts.shared_memory_bytes = free_bytes("/dev/shm");
  std::error_code failure;
  facts.temporary_bytes = free_bytes(fs::temp_directory_path(failure));
  facts.file_size_limit = soft_limit(RLIMIT_FSIZE);
  facts.open_files_limit = soft_limit(RLIMIT_NOFILE).value_or(UINT64_MAX);
  return facts;
}

int run(const Options& options) {
  const std::vector<supervisor::Finding> findings = examine(look_around(options));
  if (options.json) {
    print_json(std::cout, {{"findings", to_json(findings)}});
  } else {
    print_findings(std::cout, findings);
  }
  const bool is_wrong = std::any_of(findings.begin(), findings.end(), [](const supervisor::Finding& finding) {
    return finding.grade == supervisor::Finding::Grade::problem;
  });
  return is_wrong ? kBad : kGood;
}

}  // namespace

void add(CLI::App& app, int& exit_code) {
  add_command<Options>(app, exit_code, "doctor", "Whether this machine is fit for runs that save themselves", kFooter,
                       define, run);
}

}  // namespace reprieve::tool::doctor_command
