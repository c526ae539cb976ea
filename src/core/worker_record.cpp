// SPDX-License-Identifier: BSD-3-Clause
#include "core/worker_record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <thread>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {

namespace {

using Json = nlohmann::json;

/// Whoever tests the lock holds it for an instant.
constexpr int kTries = 50;
constexpr std::chrono::milliseconds kPause{10};

/// Fields of /proc/<pid>/stat behind the name, which may hold anything: the state is the first of them.
constexpr int kStartField = 19;

}  // namespace

Worker Worker::self(int rank, std::string host) {
  return {rank, std::move(host), ::getpid(), start_of_process(::getpid())};
}

Json to_json(const Worker& worker) {
  return {{"rank", worker.rank}, {"host", worker.host}, {"pid", worker.pid}, {"start", worker.start}};
}

std::vector<Worker> workers_from_json(const Json& document) {
  std::vector<Worker> workers;
  if (!document.is_array()) {
    return workers;
  }
  for (const Json& each : document) {
    try {
      workers.push_back({each.at("rank").get<int>(), each.at("host").get<std::string>(), each.at("pid").get<pid_t>(),
                         each.at("start").get<std::uint64_t>()});
    } catch (const Json::exception& error) {
      log::debug("a process of a run cannot be read: {}", error.what());
    }
  }
  return workers;
}

std::uint64_t start_of_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text) || text.rfind(')') == std::string::npos) {
    return 0;
  }
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string state;
  std::string skipped;
  fields >> state;
  for (int i = 1; i < kStartField; ++i) {
    fields >> skipped;
  }
  std::uint64_t start = 0;
  fields >> start;
  return fields && state != "Z" && state != "X" ? start : 0;
}

void write_worker_record(const std::filesystem::path& directory, const Json& workers) {
  const std::string text = workers.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  const Directory place = Directory::open(directory);
  place.write_text(kWorkerRecordName, text, place.file_mode(), false);
}

WorkerLock::WorkerLock(const std::filesystem::path& directory) {
  try {
    descriptor_ = Directory::open(directory).open_file(kWorkerRecordName, O_RDONLY).release();
  } catch (const StorageError& error) {
    log::debug("{}; other nodes cannot see whether this process lives", error.what());
    return;
  }
  closed_on_fork_ = ClosedOnFork(descriptor_);
  int result = ::flock(descriptor_, LOCK_SH | LOCK_NB);
  for (int i = 0; i < kTries && result != 0 && errno == EWOULDBLOCK; ++i) {
    std::this_thread::sleep_for(kPause);
    result = ::flock(descriptor_, LOCK_SH | LOCK_NB);
  }
  if (result != 0) {
    log::debug("cannot lock {}: {}; other nodes cannot see whether this process lives",
               (directory / kWorkerRecordName).string(), std::generic_category().message(errno));
  }
}

WorkerLock::~WorkerLock() {
  closed_on_fork_ = {};
  if (descriptor_ >= 0 && ::close(descriptor_) != 0) {
    log::warning("closing {} failed: {}", kWorkerRecordName, std::generic_category().message(errno));
  }
}

}  // namespace reprieve::core
