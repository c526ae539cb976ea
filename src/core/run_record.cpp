// SPDX-License-Identifier: BSD-3-Clause
#include "core/run_record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <thread>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {

namespace {

struct Numbers {
  std::mutex mutex;
  std::set<int> taken;
};

/// The lowest one that no open record of this process has.
std::shared_ptr<const int> take_number() {
  static const auto numbers = std::make_shared<Numbers>();
  const std::lock_guard lock(numbers->mutex);
  int number = 0;
  while (numbers->taken.contains(number)) {
    ++number;
  }
  numbers->taken.insert(number);
  // A record may live on after the statics.
  return {new int(number), [numbers = numbers](const int* freed) {
            const std::lock_guard again(numbers->mutex);
            numbers->taken.erase(*freed);
            delete freed;  // NOLINT(cppcoreguidelines-owning-memory)
          }};
}

/// Whoever tests the lock holds it for an instant.
constexpr int kTries = 50;
constexpr std::chrono::milliseconds kPause{10};

}  // namespace

RunRecord open_run_record(const std::string& host) {
  const auto directory = environment_variable(kRunDirectoryVariable);
  if (!directory) {
    return {};
  }
  auto number = take_number();
  const std::string ending = *number == 0 ? "" : fmt::format(".{}", *number);
  EventLog log(std::filesystem::path(*directory) /
               fmt::format("{}.{}{}{}", host, ::getpid(), ending, kRunRecordSuffix));
  return {std::move(log), std::move(number)};
}

std::string read_drill_orders() {
  const auto directory = environment_variable(kRunDirectoryVariable);
  if (!directory) {
    return "";
  }
  std::ifstream file(std::filesystem::path(*directory) / kDrillOrdersName);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<DrillOrders> parse_drill_orders(const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  auto orders = whole_from_json<DrillOrders>(nlohmann::json::parse(text, nullptr, false));
  if (!orders) {
    throw ConfigError("the orders of a drill cannot be read: " + text);
  }
  const std::filesystem::path name = orders->subdirectory;
  if (!name.has_filename() || name != name.filename() || name == ".." || name == ".") {
    throw ConfigError("the orders of a drill name no directory: " + text);
  }
  return orders;
}

std::string to_text(const DrillOrders& orders) { return Json(json_of(orders)).dump(); }

Worker Worker::self(int rank, std::string host) {
  return {rank, std::move(host), ::getpid(), start_of_process(::getpid())};
}

std::vector<Worker> workers_from_json(const nlohmann::json& document) {
  std::vector<Worker> workers;
  for (const nlohmann::json& each : document.is_array() ? document : nlohmann::json::array()) {
    if (auto worker = whole_from_json<Worker>(each)) {
      workers.push_back(std::move(*worker));
    }
  }
  return workers;
}

void write_worker_record(const std::filesystem::path& directory, const nlohmann::json& workers) {
  const std::string text = workers.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  const Directory opened = Directory::open(directory);
  opened.write_text(kWorkerRecordName, text, opened.file_mode(), false);
}

WorkerLock::WorkerLock(const std::filesystem::path& directory) {
  try {
    descriptor_ = Directory::open(directory).open_file(kWorkerRecordName, O_RDONLY);
  } catch (const StorageError& error) {
    log::debug("{}; other nodes cannot see whether this process lives", error.what());
    return;
  }
  closed_on_fork_ = ClosedOnFork(descriptor_.get());
  int result = ::flock(descriptor_.get(), LOCK_SH | LOCK_NB);
  for (int i = 0; i < kTries && result != 0 && errno == EWOULDBLOCK; ++i) {
    std::this_thread::sleep_for(kPause);
    result = ::flock(descriptor_.get(), LOCK_SH | LOCK_NB);
  }
  if (result != 0) {
    log::debug("cannot lock {}: {}; other nodes cannot see whether this process lives",
               (directory / kWorkerRecordName).string(), std::generic_category().message(errno));
  }
}

bool is_for_this_launch(const Directory& directory, const std::string& file) noexcept {
  constexpr std::size_t kMostBytes = 4096;
  try {
    const std::string text = directory.read_text(file, kMostBytes);
    return !text.starts_with(kForLaunch) || text == kForLaunch + directory.read_text(kLockName, kMostBytes);
  } catch (const std::exception& error) {
    log::debug("{}", error.what());
    return true;
  }
}

}  // namespace reprieve::core
