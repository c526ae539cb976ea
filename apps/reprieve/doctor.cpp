// SPDX-License-Identifier: BSD-3-Clause
#include "doctor.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <sstream>

#include "command.hpp"
#include "core/directory.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "settings/settings.hpp"
#include "storage/bytes/posix_file.hpp"
#include "supervisor/launcher.hpp"
#include "termination/http.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::tool {

namespace {

using supervisor::Finding;
using Findings = std::vector<Finding>;
using Grade = Finding::Grade;

/// Less than this and Open MPI has no room for what ranks of one node send each other.
constexpr std::uint64_t kLittleSharedMemory = std::uint64_t{64} << 20U;
/// Less than this and a launcher cannot keep its session.
constexpr std::uint64_t kLittleTemporary = std::uint64_t{16} << 20U;
/// A save makes some tens of them; so each of them would be felt.
constexpr double kSlowSync_s = 0.5;
constexpr std::uint64_t kFewOpenFiles = 256;

void add(Findings& findings, Grade grade, const char* id, std::string text, std::string advice = "") {
  findings.push_back({grade, id, std::move(text), std::move(advice)});
}

void examine_directory(Findings& findings, const DirectoryFacts& directory) {
  if (!directory.failure.empty()) {
    add(findings, Grade::problem, "directory", directory.failure,
        "name a directory in which you may write, on a file system that all nodes share");
    return;
  }
  const std::string where = fmt::format("{} ({})", directory.path, directory.file_system);
  if (directory.in_memory) {
    add(findings, Grade::problem, "memory", where + " lies in memory: a checkpoint there is lost with its node",
        "keep checkpoints on a disk, or on a file system that all nodes share");
  }
  if (directory.locks) {
    add(findings, Grade::good, "locks", where + ": a second run in one directory is kept out");
  } else {
    add(findings, Grade::warning, "locks", where + " has no file locks: a second run in one directory is noticed late",
        "mount it with locks (Lustre: -o flock), and start one run in a directory at a time");
  }
  if (directory.direct) {
    add(findings, Grade::good, "direct", "writes can go past the page cache");
  } else {
    add(findings, Grade::warning, "direct", "writes cannot go past the page cache (O_DIRECT): saves are slower",
        "nothing has to be done: the library takes the page cache");
  }
  if (directory.sync_s && *directory.sync_s > kSlowSync_s) {
    add(findings, Grade::warning, "sync",
        fmt::format("to make a small file durable (fsync) takes {:.3g} s: each save waits for some of them",
                    *directory.sync_s),
        "allow for it in the grace: `reprieve advise` measures your saves");
  }
  if (directory.bytes_per_second) {
    add(findings, Grade::good, "speed",
        fmt::format("one process writes {}/s durably here; {} are free",
                    core::size_text(static_cast<std::uint64_t>(*directory.bytes_per_second)),
                    core::size_text(directory.free_bytes)));
  }
}

void examine_launcher(Findings& findings, const MachineFacts& facts) {
  if (facts.mpirun.empty()) {
    add(findings, Grade::warning, "mpirun", "there is no mpirun in PATH",
        "load the MPI of your program (`module load openmpi`), or start it by srun");
    return;
  }
  const supervisor::LauncherTraits* traits = supervisor::open_mpi_of(facts.mpirun);
  add(findings, Grade::good, "mpirun",
      traits == nullptr ? facts.mpirun + "; reprieve is not tested with it"
                        : fmt::format("{}; {:g} s after a SIGTERM it kills the ranks, unless `reprieve run` starts it",
                                      facts.mpirun, traits->kill_s));
  if (facts.mpi_survives_deaths) {
    add(findings, Grade::good, "recovery",
        "with `mpirun --with-ft ulfm` programs that use run_resilient survive dead ranks");
  }
}

void examine_slurm(Findings& findings, const MachineFacts& facts) {
  if (!facts.slurm) {
    if (facts.in_slurm_job) {
      add(findings, Grade::warning, "slurm", "this is a Slurm job, but scontrol does not answer",
          "`reprieve run --slurm` needs scontrol to put the job back into the queue; else use --requeue-exit");
    }
    return;
  }
  const SlurmFacts& slurm = *facts.slurm;
  if (slurm.preempt_mode.find("CANCEL") != std::string::npos) {
    add(findings, Grade::warning, "preempt_mode",
        "Slurm cancels preempted jobs (PreemptMode=" + slurm.preempt_mode + "): they do not come back by themselves",
        "`reprieve run --slurm` puts them back, if the site lets users do that");
  }
  if (slurm.signals_before_preemption) {
    add(findings, Grade::good, "preempt_send_user_signal",
        "Slurm sends the signal of --signal before a preemption too");
  } else {
    add(findings, Grade::warning, "preempt_send_user_signal",
        "before a preemption Slurm sends SIGTERM alone, not the signal of --signal "
        "(SlurmctldParameters has no preempt_send_user_signal)",
        "start the program under `reprieve run --slurm`, which asks Slurm and notifies the ranks in time");
  }
  if (slurm.kill_wait_s) {
    add(findings, *slurm.kill_wait_s < 10 ? Grade::warning : Grade::good, "kill_wait",
        fmt::format("from SIGTERM to SIGKILL Slurm waits {:g} s (KillWait)", *slurm.kill_wait_s),
        *slurm.kill_wait_s < 10 ? "take --signal=B:URG@N with enough time, so that a save need not fit into that" : "");
  }
  if (!slurm.requeue_exit.empty()) {
    add(findings, Grade::good, "requeue_exit",
        "Slurm starts jobs again that end with " + slurm.requeue_exit + " (RequeueExit)");
  }
}

void examine_pbs(Findings& findings, const MachineFacts& facts) {
  if (!facts.in_pbs_job) {
    return;
  }
  if (facts.pbs && facts.pbs->rerunnable) {
    const bool can = *facts.pbs->rerunnable;
    add(findings, can ? Grade::good : Grade::warning, "pbs_rerunnable",
        can ? "PBS may start this job again (Rerunable)" : "PBS does not start this job again (Rerunable = False)",
        can ? "" : "submit it with `qsub -r y`, or submit the next one from the script when the code is 42");
  }
  if (!facts.knows_wall_time) {
    const std::string limit = facts.pbs ? facts.pbs->wall_time : "";
    add(findings, Grade::warning, "pbs_wall_time", "PBS does not tell this job when it ends (PBS_WALLTIME is not set)",
        fmt::format("export PBS_WALLTIME={} in the script, so that the run saves itself in time",
                    limit.empty() ? "HH:MM:SS" : limit));
  }
}

void examine_environment(Findings& findings, const MachineFacts& facts) {
  if (!facts.settings_error.empty()) {
    add(findings, Grade::problem, "settings", "the environment sets what no program accepts: " + facts.settings_error,
        "configs/README.md lists the settings and their values");
  }
  if (!facts.unknown_variables.empty()) {
    add(findings, Grade::warning, "variables", fmt::format("nobody reads {}", fmt::join(facts.unknown_variables, ", ")),
        "is it spelled as you mean it?");
  }
}

void examine_limits(Findings& findings, const MachineFacts& facts) {
  if (facts.shared_memory_bytes < kLittleSharedMemory) {
    add(findings, Grade::warning, "shared_memory",
        fmt::format("/dev/shm has {} free: MPI may fail to start", core::size_text(facts.shared_memory_bytes)),
        "in a container: give it more (--shm-size=1g); else remove what lies there");
  }
  if (facts.temporary_bytes < kLittleTemporary) {
    add(findings, Grade::problem, "temporary",
        fmt::format("the directory for temporary files has {} free: launchers and `reprieve run` need it",
                    core::size_text(facts.temporary_bytes)),
        "make room there, or set TMPDIR to a directory of the node with room");
  }
  if (facts.file_size_limit) {
    add(findings, Grade::warning, "file_size",
        fmt::format("no file may be larger than {} (ulimit -f)", core::size_text(*facts.file_size_limit)),
        "ulimit -f unlimited, if a checkpoint is larger");
  }
  if (facts.open_files_limit < kFewOpenFiles) {
    add(findings, Grade::warning, "open_files",
        fmt::format("a process may have {} files open (ulimit -n)", facts.open_files_limit), "ulimit -n 4096");
  }
}

/// The values by their names, of lines "name = value".
std::map<std::string, std::string> values_in(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const auto equals = line.find('='); equals != std::string::npos) {
      values[termination::trimmed(line.substr(0, equals))] = termination::trimmed(line.substr(equals + 1));
    }
  }
  return values;
}

/// "30 sec"
std::optional<double> seconds_of(const std::string& value) {
  double seconds = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  return error == std::errc{} && stop != value.data() ? std::optional(seconds) : std::nullopt;
}

}  // namespace

SlurmFacts parse_slurm_config(const std::string& text) {
  auto values = values_in(text);
  const std::string codes = values["RequeueExit"];
  return {values["SlurmctldParameters"].find("preempt_send_user_signal") != std::string::npos,
          seconds_of(values["KillWait"]), codes == "(null)" ? "" : codes, values["PreemptMode"]};
}

PbsFacts parse_pbs_job(const std::string& text) {
  auto values = values_in(text);
  const std::string can = values["Rerunable"];
  return {can.empty() ? std::nullopt : std::optional(can == "True" || can == "y" || can == "1"),
          values["Resource_List.walltime"]};
}

Findings examine(const MachineFacts& facts) {
  Findings findings;
  examine_directory(findings, facts.directory);
  examine_launcher(findings, facts);
  examine_slurm(findings, facts);
  examine_pbs(findings, facts);
  examine_environment(findings, facts);
  examine_limits(findings, facts);
  return findings;
}

}  // namespace reprieve::tool

// reprieve doctor [DIR]

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

Exit codes: 0 nothing is wrong, 1 a problem was found,)";

constexpr std::size_t kProbeBytes = std::size_t{64} << 20U;
constexpr std::size_t kSmallBytes = 4096;
constexpr int kSyncs = 5;

struct Options {
  fs::path directory;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directory, "Where checkpoints are to lie");
  add_color(command);
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

DirectoryFacts try_directory(const fs::path& path) {
  DirectoryFacts facts;
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

MachineFacts local_state(const Options& options) {
  MachineFacts facts;
  facts.directory = try_directory(options.directory);
  facts.mpirun = first_line(termination::output_of({"mpirun", "--version"}, {}, kAnswerLimit).value_or(""));
  facts.mpi_survives_deaths =
      termination::output_of({"ompi_info"}, {}, kAnswerLimit).value_or("").find("FT MPI support: yes") !=
      std::string::npos;
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
  const std::vector<supervisor::Finding> findings = examine(local_state(options));
  print_answer(options.json, {{"findings", to_json(findings)}}, [&] { print_findings(std::cout, findings); });
  const auto problem = std::ranges::find(findings, supervisor::Finding::Grade::problem, &supervisor::Finding::grade);
  return problem == findings.end() ? kGood : kBad;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "doctor", "Whether this machine is fit for runs that save themselves", kFooter, define, run);
}

}  // namespace reprieve::tool::doctor_command
