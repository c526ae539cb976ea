// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the two fake drivers have in common. Included by one file of each.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "fake_device.hpp"

namespace fake {

struct Allocation {
  std::size_t bytes;
  FakeMemory kind;
  int device;
  unsigned char* shadow;  ///< the same memory, for the fake and for tests
};

struct Pinned {
  std::size_t bytes;
  int device;
};

struct World {
  std::recursive_mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations;
  std::map<std::uintptr_t, Pinned> pinned;
  std::vector<std::function<void()>> copies[2];  ///< by device: begun
  std::vector<std::function<void()>> work[2];    ///< of the program
  FakeCounts counts{};
  std::string failing;  ///< empty: any function
  std::uint64_t calls_to_failure = 0;
  std::map<std::string, int> answers;
};

inline World& world() {
  static World* const it = new World;
  return *it;
}

inline const std::pair<const std::uintptr_t, Allocation>* find(std::uintptr_t address) {
  auto next = world().allocations.upper_bound(address);
  if (next == world().allocations.begin()) {
    return nullptr;
  }
  --next;
  return address < next->first + next->second.bytes ? &*next : nullptr;
}

inline unsigned char* shadow(std::uintptr_t address, std::size_t bytes) {
  const auto* const found = find(address);
  if (found == nullptr || address + bytes > found->first + found->second.bytes) {
    std::abort();  // a driver would tell of an illegal address; a test must not continue
  }
  return found->second.shadow + (address - found->first);
}

/// The result of a call that is not to do anything, or 0. @param failure  of the call that `fail` chose
inline int failure_of(const char* function, int failure) {
  World& w = world();
  ++w.counts.calls;
  if (const auto answer = w.answers.find(function); answer != w.answers.end()) {
    return answer->second;
  }
  if (w.calls_to_failure == 0 || (!w.failing.empty() && w.failing != function)) {
    return 0;
  }
  return --w.calls_to_failure == 0 ? failure : 0;
}

inline void run(std::vector<std::function<void()>>& tasks) {
  for (const auto& task : tasks) {
    task();
  }
  tasks.clear();
}

inline void count_copy(int device, const void* host, std::size_t bytes, std::size_t reach, bool out) {
  World& w = world();
  ++w.counts.copies;
  w.counts.largest_copy = std::max<std::uint64_t>(w.counts.largest_copy, bytes);
  (out ? w.counts.bytes_out : w.counts.bytes_in) += bytes;
  w.counts.while_busy += w.work[device].empty() ? 0 : 1;
  const auto first = reinterpret_cast<std::uintptr_t>(host);
  const bool pinned = std::ranges::any_of(w.pinned, [&](const auto& range) {
    return first >= range.first && first + reach <= range.first + range.second.bytes;
  });
  w.counts.not_pinned += pinned ? 0 : 1;
}

/// Begins a copy of rows.
inline void copy(int device, unsigned char* to, std::size_t to_pitch, const unsigned char* from, std::size_t from_pitch,
                 std::size_t width, std::size_t rows) {
  world().copies[device].emplace_back([=] {
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(to + row * to_pitch, from + row * from_pitch, width);
    }
  });
}

inline bool pin(void* host, std::size_t bytes, int device) {
  World& w = world();
  if (!w.pinned.emplace(reinterpret_cast<std::uintptr_t>(host), Pinned{bytes, device}).second) {
    return false;
  }
  w.counts.pinned += bytes;
  w.counts.most_pinned = std::max(w.counts.most_pinned, w.counts.pinned);
  return true;
}

inline bool unpin(void* host) {
  World& w = world();
  const auto found = w.pinned.find(reinterpret_cast<std::uintptr_t>(host));
  if (found == w.pinned.end()) {
    return false;
  }
  w.counts.pinned -= found->second.bytes;
  w.pinned.erase(found);
  return true;
}

/// The device for which that memory of the host was pinned, or -1.
inline int device_of_pinned(std::uintptr_t host) {
  for (const auto& [first, range] : world().pinned) {
    if (host >= first && host < first + range.bytes) {
      return range.device;
    }
  }
  return -1;
}

inline void unpin_all() {
  const std::lock_guard lock(world().mutex);
  world().pinned.clear();
  world().counts.pinned = 0;
}

inline void* allocate(std::size_t bytes, FakeMemory kind, int device) {
  const std::lock_guard lock(world().mutex);
  const int file = ::memfd_create("fake device", 0);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return nullptr;
  }
  const int protection = kind == FAKE_MANAGED ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* const memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  void* const twin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  world().allocations[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, kind, device,
                                                                   static_cast<unsigned char*>(twin)};
  return memory;
}

inline void release(void* memory) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().allocations.find(reinterpret_cast<std::uintptr_t>(memory));
  ::munmap(memory, found->second.bytes);
  ::munmap(found->second.shadow, found->second.bytes);
  world().allocations.erase(found);
}

inline unsigned char* bytes_of(void* memory) {
  const std::lock_guard lock(world().mutex);
  return shadow(reinterpret_cast<std::uintptr_t>(memory), 1);
}

inline void launch(void* memory, std::size_t bytes, int value) {
  const std::lock_guard lock(world().mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  unsigned char* const at = shadow(address, bytes);
  world().work[find(address)->second.device].emplace_back([=] { std::memset(at, value, bytes); });
}

inline void fail(const char* function, std::uint64_t nth) {
  const std::lock_guard lock(world().mutex);
  world().failing = function == nullptr ? "" : function;
  world().calls_to_failure = nth;
}

inline void answer(const char* function, int result) {
  const std::lock_guard lock(world().mutex);
  world().answers.erase(function);
  if (result != 0) {
    world().answers[function] = result;
  }
}

inline void reset() {
  const std::lock_guard lock(world().mutex);
  FakeCounts& counts = world().counts;
  const std::uint64_t pinned = counts.pinned;
  const std::int64_t contexts = counts.contexts;
  counts = {};
  counts.contexts = contexts;
  counts.pinned = counts.most_pinned = pinned;
  world().calls_to_failure = 0;
}

}  // namespace fake

extern "C" const FakeDevices* fake_devices() {
  static const FakeDevices devices{fake::allocate, fake::release,         fake::bytes_of, fake::launch,   fake::fail,
                                   fake::reset,    &fake::world().counts, fake::answer,   fake::unpin_all};
  return &devices;
}
