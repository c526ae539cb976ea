// SPDX-License-Identifier: BSD-3-Clause
#include "core/process.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/log.hpp"

namespace reprieve::core {

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::vector<std::string> merged_environment(const EnvironmentChanges& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) {
      merged.push_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    if (value) {
      merged.push_back(name + "=" + *value);
    }
  }
  return merged;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// One read: all processes are asked again and again.
std::optional<ProcessStat> stat_of_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');  // the second field is the name, in parentheses, and may hold anything
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  constexpr int kBetween = 17;  // fields, from the parent to the start
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  ProcessStat found;
  rest >> state >> found.parent;
  found.is_stopped = state == 'T';
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) {
    rest >> skipped;
  }
  return rest >> found.start && state != 'Z' && state != 'X' ? std::optional(found) : std::nullopt;
}

namespace {

/// Descriptors to close, each plus one; zero stands for nothing. A fork handler gets no argument, so that this has to
/// be global; atomic, since another thread may fork at any time.
std::array<std::atomic<int>, 64> slots{};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// In the child, which has one thread; only calls that a signal handler may make.
void close_all() {
  for (std::atomic<int>& slot : slots) {
    if (const int descriptor = slot.exchange(0) - 1; descriptor >= 0) {
      ::close(descriptor);
    }
  }
}

bool install() {
  if (::pthread_atfork(nullptr, nullptr, close_all) != 0) {
    log::warning("children that are forked will share the lock of the checkpoint directory");
    return false;
  }
  return true;
}

}  // namespace

ClosedOnFork::ClosedOnFork(int descriptor) {
  static const bool installed = install();
  for (std::size_t i = 0; installed && descriptor >= 0 && i < slots.size(); ++i) {
    int none = 0;
    if (slots[i].compare_exchange_strong(none, descriptor + 1)) {
      slot_ = static_cast<int>(i);
      return;
    }
  }
}

ClosedOnFork::~ClosedOnFork() {
  if (slot_ >= 0) {
    slots[static_cast<std::size_t>(slot_)] = 0;
  }
}

ClosedOnFork::ClosedOnFork(ClosedOnFork&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

ClosedOnFork& ClosedOnFork::operator=(ClosedOnFork&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

}  // namespace reprieve::core
