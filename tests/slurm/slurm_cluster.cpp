// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/slurm_cluster.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <climits>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace reprieve::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr const char* kFreezer = "/cgroup/freezer";

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    throw std::system_error(errno, std::generic_category(), "gethostname");
  }
  const std::string full = name.data();
  return full.substr(0, full.find('.'));
}

/// Name of the user of this process; empty if it has none.
std::string user_name() {
  const passwd* user = ::getpwuid(::getuid());
  return user == nullptr ? "" : user->pw_name;
}

bool in_path(const std::string& name) {
  std::istringstream folders(std::string(::getenv("PATH") == nullptr ? "" : ::getenv("PATH")) + ":/usr/sbin:/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

bool succeeds(const std::string& shell_command) { return Process({{"sh", "-c", shell_command}}).wait(30s) == 0; }

bool is_free(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    throw std::system_error(errno, std::generic_category(), "socket");
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool free = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return free;
}

/// Ports that were free a moment ago, all different. Below those that the kernel gives to whoever connects, such as the
/// ranks of other jobs: one of these could be taken before Slurm takes it.
std::vector<int> free_ports(std::size_t count) {
  constexpr int kFirst = 10'000, kEnd = 32'000;
  std::random_device random;
  std::vector<int> ports;
  for (int port = std::uniform_int_distribution(kFirst, kEnd - 1'000)(random); ports.size() < count; ++port) {
    if (port >= kEnd) {
      throw std::runtime_error("cannot find free ports");
    }
    if (is_free(port)) {
      ports.push_back(port);
    }
  }
  return ports;
}

std::vector<std::string> node_names(int count) {
  if (count == 1) {
    return {host_name()};
  }
  std::vector<std::string> names;
  for (int i = 1; i <= count; ++i) {
    names.push_back("n" + std::to_string(i));
  }
  return names;
}

/// Slurm's variables, and those that a launcher around the test has set, must not reach the jobs.
Environment clean_environment() {
  Environment changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
    for (const auto* prefix : {"SLURM_", "SBATCH_", "OMPI_", "PRTE_", "PMIX_", "PMI_", "REPRIEVE_"}) {
      if (name.starts_with(prefix)) {
        changes[name] = std::nullopt;
      }
    }
  }
  return changes;
}

JobFields parse_fields(const std::string& line) {
  JobFields fields;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return fields;
}

/// Tells the processes of one node from all others; empty if the process is gone.
std::string uts_namespace(const std::string& pid) {
  std::error_code gone;
  return fs::read_symlink("/proc/" + pid + "/ns/uts", gone).string();
}

/// The last characters of a file.
std::string tail(const fs::path& file) {
  constexpr std::size_t kLength = 4000;
  const std::string text = read_text(file);
  return text.size() <= kLength ? text : "..." + text.substr(text.size() - kLength);
}

}  // namespace

std::string SlurmCluster::obstacle(const SlurmOptions& options) {
  for (const auto* name : {"slurmctld", "slurmd", "sbatch"}) {
    if (!in_path(name)) {
      return std::string(name) + " is not installed (Debian: package slurm-wlm)";
    }
  }
  if (user_name().empty()) {
    return "Slurm needs a user with a name, and user " + std::to_string(::getuid()) + " has none";
  }
  if (options.nodes > 1 && !succeeds("unshare --mount --uts --propagation private true")) {
    return "several nodes need namespaces, thus root";
  }
  if (options.control_groups &&
      !succeeds("unshare --mount --propagation private mount -t cgroup -o freezer none /mnt")) {
    return "control groups need root and a freezer of version 1";
  }
  return "";
}

SlurmCluster::SlurmCluster(const SlurmOptions& options)
    : options_(options), nodes_(node_names(options.nodes)), files_("/tmp"), environment_(mpirun_environment()) {
  environment_.merge(clean_environment());
  const std::string directory = files_.path();
  environment_["SLURM_CONF"] = directory + "/etc/slurm.conf";
  environment_["PATH"] = std::string(REPRIEVE_BIN_DIR) + ":" + ::getenv("PATH") + ":/usr/sbin:/sbin";
  environment_["TMPDIR"] = directory + "/tmp";
  environment_["OMPI_MCA_btl_vader_backing_directory"] = options.nodes > 1 ? "/dev/shm" : directory + "/tmp";
  // There are more ranks than cores, and Slurm's idea of the cores is made up.
  environment_["OMPI_MCA_mpi_yield_when_idle"] = "1";
  if (options.control_groups) {
    lock_control_groups();
  }
  write_configuration();
  start_daemons();
}

SlurmCluster::~SlurmCluster() {
  try {
    cancel_all();
    for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
      (*daemon)->send(SIGTERM);
    }
    for (const auto& daemon : daemons_) {
      daemon->wait(20s);
    }
    daemons_.clear();
    if (options_.control_groups) {
      const std::string freezer = files_.path().string() + kFreezer;
      static_cast<void>(succeeds("unshare --mount --propagation private sh -c 'mount -t cgroup -o freezer none " +
                                 freezer + " && find " + freezer + "/slurm_* -depth -type d -exec rmdir {} +'"));
    }
  } catch (const std::exception& error) {
    std::cerr << "cannot stop Slurm: " << error.what() << '\n';
  }
  if (lock_ >= 0) {
    ::close(lock_);
  }
}

/// The kernel has one tree of them, in which clusters with nodes and jobs of the same names would kill each other's.
void SlurmCluster::lock_control_groups() {
  lock_ = ::open("/proc/cgroups", O_RDONLY | O_CLOEXEC);
  if (lock_ < 0) {
    throw std::system_error(errno, std::generic_category(), "/proc/cgroups");
  }
  if (!wait_until([this] { return ::flock(lock_, LOCK_EX | LOCK_NB) == 0; }, 600s)) {
    throw std::runtime_error("other tests with Slurm have used the control groups for 10 minutes");
  }
}

void SlurmCluster::write_configuration() const {
  const fs::path top = files_.path();
  for (const auto* folder : {"etc", "state", "log", "run", "spool", "tmp", "jobs", "cgroup/freezer"}) {
    fs::create_directories(top / folder);
  }
  std::ofstream(top / "etc/plugstack.conf");
  std::ofstream(top / "etc/cgroup.conf") << "CgroupPlugin=cgroup/v1\nCgroupMountpoint=" << (top / "cgroup").string()
                                         << '\n';
  std::ofstream hosts(top / "etc/hosts");
  hosts << read_text("/etc/hosts");
  const std::vector<int> ports = free_ports(nodes_.size() + 1);
  const std::string folder = top.string();
  const std::string tracking = options_.control_groups ? "cgroup" : "linuxproc";
  std::ofstream file(top / "etc/slurm.conf");
  file << "ClusterName=test\nSlurmctldHost=" << host_name() << "(127.0.0.1)\nSlurmctldPort=" << ports.back()
       << "\nSlurmUser=" << user_name() << "\nSlurmdUser=" << user_name()
       << "\nAuthType=auth/none\nCredType=cred/none\nAuthInfo=cred_expire=5"  // a requeued job waits so long
       << "\nStateSaveLocation=" << folder << "/state\nSlurmdSpoolDir=" << folder << "/spool/%n\nTmpFS=" << folder
       << "/tmp\nSlurmctldPidFile=" << folder << "/run/slurmctld.pid\nSlurmdPidFile=" << folder
       << "/run/slurmd.%n.pid\nSlurmctldLogFile=" << folder << "/log/slurmctld.log\nSlurmdLogFile=" << folder
       << "/log/slurmd.%n.log\nSlurmctldDebug=verbose\nSlurmdDebug=verbose\nPlugStackConfig=" << folder
       << "/etc/plugstack.conf\nMailProg=/bin/true\nProctrackType=proctrack/" << tracking
       << "\nTaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU"
          "\nJobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none"
          "\nJobCompType=jobcomp/none\nMpiDefault=pmix\nReturnToService=2\nSlurmdTimeout=300\nMinJobAge=3600\nKillWait="
       << options_.kill_wait.count() << "\nJobRequeue=1\nJobFileAppend=1"
       << (options_.preempt_send_user_signal ? "\nSlurmctldParameters=preempt_send_user_signal" : "")
       << (options_.requeue_exit ? "\nRequeueExit=" + std::to_string(*options_.requeue_exit) : "")
       << "\nSlurmdParameters=config_overrides\nSchedulerType=sched/backfill"
          "\nSchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0"
          "\nPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n";
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    file << "NodeName=" << nodes_[i] << " NodeHostname=" << nodes_[i] << " NodeAddr=127.0.0.1 Port=" << ports[i]
         << " CPUs=" << options_.cpus << " RealMemory=2000 State=UNKNOWN\n";
    if (nodes_.size() > 1) {
      hosts << "127.0.0.1 " << nodes_[i] << '\n';
    }
  }
  file << "PartitionName=low  Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE DefaultTime=10 GraceTime="
       << options_.grace.count()
       << "\nPartitionName=low0 Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE DefaultTime=10 GraceTime=0"
          "\nPartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF DefaultTime=10\n";
  if (!file.flush() || !hosts.flush()) {
    throw std::runtime_error("cannot write the configuration in " + folder + "/etc");
  }
}

/// What a daemon's shell does first: gives the node what is its own. The namespaces end with the daemon.
std::string SlurmCluster::node_setup(const std::string& node) const {
  const std::string directory = files_.path();
  std::string setup;
  if (options_.nodes > 1) {
    setup += "mount --bind " + directory + "/etc/hosts /etc/hosts && ";
    if (!node.empty()) {
      setup += "mount -t tmpfs none /dev/shm && mount -t tmpfs none " + directory + "/tmp && hostname " + node + " && ";
    }
  }
  if (options_.control_groups && !node.empty()) {
    setup += "mount -t cgroup -o freezer none " + directory + kFreezer + " && ";
  }
  return setup;
}

Command SlurmCluster::daemon(const std::string& setup, const std::string& command_line) const {
  Command command{{}, environment_, files_.path()};
  if (!setup.empty()) {
    command.arguments = {"unshare", "--mount", "--uts", "--propagation", "private"};
  }
  command.arguments.insert(command.arguments.end(), {"sh", "-c", setup + "exec " + command_line});
  return command;
}

void SlurmCluster::start_daemons() {
  daemons_.push_back(std::make_unique<Process>(daemon(node_setup(""), "slurmctld -D -c")));
  for (const std::string& node : nodes_) {
    const std::string name = options_.nodes > 1 ? " -N " + node : "";
    daemons_.push_back(std::make_unique<Process>(daemon(node_setup(node), "slurmd -D" + name)));
  }
  const auto ended = [this] {
    return std::any_of(daemons_.begin(), daemons_.end(), [](const auto& daemon) { return !daemon->running(); });
  };
  if (!wait_until([&] { return ended() || all_idle(); }, 60s) || ended()) {
    throw std::runtime_error("Slurm did not come up:\n" + logs());
  }
}

bool SlurmCluster::all_idle() const {
  try {
    return command({"sinfo", "-h", "-p", "low", "-t", "idle", "-o", "%D"}) == std::to_string(nodes_.size());
  } catch (const std::runtime_error&) {
    return false;  // the controller does not answer yet
  }
}

void SlurmCluster::cancel_all() const {
  std::istringstream lines(command({"squeue", "-h", "-o", "%A"}));
  const std::vector<std::string> ids{std::istream_iterator<std::string>(lines), {}};
  if (ids.empty()) {
    return;
  }
  std::vector<std::string> cancel{"scancel", "--signal=KILL", "--full"};
  cancel.insert(cancel.end(), ids.begin(), ids.end());
  command(cancel);
  cancel[1] = "--quiet", cancel[2] = "--verbose";
  command(cancel);
  static_cast<void>(wait_until([this] { return command({"squeue", "-h"}).empty(); }, 30s));
}

std::string SlurmCluster::command(std::vector<std::string> arguments, const Environment& environment) const {
  // What the command starts belongs to the daemons: it must live on when the command has ended.
  std::vector<std::string> all{"env", "-u", "E2E_PROCESS_MARK"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  Environment merged = environment;
  merged.insert(environment_.begin(), environment_.end());
  Process process({all, merged, directory()});
  const std::optional<int> code = process.wait(60s);
  if (code != 0) {
    throw std::runtime_error(arguments.front() + " returned " + std::to_string(code.value_or(-1)) + ": " +
                             process.err());
  }
  std::string output = process.out();
  output.erase(output.find_last_not_of('\n') + 1);
  return output;
}

int SlurmCluster::submit(std::vector<std::string> arguments, const Environment& environment) const {
  arguments.insert(arguments.begin(), {"sbatch", "--parsable"});
  return std::stoi(command(std::move(arguments), environment));
}

/// One question for all who ask at about the same time. With the lock held.
void SlurmCluster::read_jobs() {
  constexpr auto kFresh = 200ms;
  if (std::chrono::steady_clock::now() - jobs_read_ <= kFresh) {
    return;
  }
  jobs_.clear();
  std::istringstream lines(command({"scontrol", "--oneliner", "show", "job"}));
  for (std::string line; std::getline(lines, line);) {
    if (const JobFields fields = parse_fields(line); fields.contains("JobId")) {
      jobs_[std::stoi(fields.at("JobId"))] = fields;
    }
  }
  jobs_read_ = std::chrono::steady_clock::now();
}

JobFields SlurmCluster::job(int id) {
  const std::scoped_lock lock(jobs_mutex_);
  read_jobs();
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? JobFields{} : found->second;
}

std::optional<int> SlurmCluster::array_task(int array, int task) {
  const std::scoped_lock lock(jobs_mutex_);
  read_jobs();
  for (const auto& [id, fields] : jobs_) {
    const auto own_array = fields.find("ArrayJobId"), own_task = fields.find("ArrayTaskId");
    if (own_array != fields.end() && own_array->second == std::to_string(array) && own_task != fields.end() &&
        own_task->second == std::to_string(task)) {
      return id;
    }
  }
  return std::nullopt;
}

bool SlurmCluster::remembers_grace() const {
  std::istringstream words(command({"scontrol", "--version"}));  // "slurm-wlm 24.11.5"
  std::string name, version;
  words >> name >> version;
  return version >= "24.05";
}

bool SlurmCluster::wait_for_job(int id, const std::function<bool(const JobFields&)>& wanted,
                                std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!wanted(job(id))) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(50ms);
  }
  return true;
}

bool SlurmCluster::wait_for_state(int id, const std::string& state, std::chrono::seconds limit) {
  return wait_for_job(
      id,
      [&](const JobFields& fields) {
        const auto found = fields.find("JobState");
        return found != fields.end() && found->second == state;
      },
      limit);
}

void SlurmCluster::kill_node(int node) {
  const pid_t daemon = daemons_.at(static_cast<std::size_t>(node))->pid();  // the controller is the first
  const std::string place = uts_namespace(std::to_string(daemon));
  if (place.empty() || place == uts_namespace("self")) {
    throw std::runtime_error("the node has no namespace of its own");
  }
  const auto kill_all = [&] {
    bool found = false;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (std::isdigit(static_cast<unsigned char>(name.front())) != 0 && uts_namespace(name) == place) {
        found = true;
        ::kill(std::stoi(name), SIGKILL);
      }
    }
    return !found;
  };
  if (!wait_until(kill_all, 20s)) {
    throw std::runtime_error("processes of a dead node live on");
  }
}

std::string SlurmCluster::logs() const {
  std::string all;
  for (const auto& daemon : daemons_) {
    all += daemon->out() + daemon->err();
  }
  for (const auto& entry : fs::directory_iterator(files_ / "log")) {
    all += entry.path().filename().string() + ":\n" + tail(entry.path()) + "\n";
  }
  return all;
}

std::string SlurmCluster::logs_of(int job) const {
  const std::string id = std::to_string(job);
  const std::regex mentions("(JobId=|jobid |job |job_|\\[)" + id + "\\b", std::regex::icase);
  std::string all;
  for (const auto& entry : fs::directory_iterator(files_ / "log")) {
    std::istringstream lines(read_text(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      if (std::regex_search(line, mentions)) {
        all += entry.path().filename().string() + ": " + line + "\n";
      }
    }
  }
  return all;
}

}  // namespace reprieve::test
