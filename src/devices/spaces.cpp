// SPDX-License-Identifier: BSD-3-Clause
#include "devices/spaces.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/log.hpp"
#include "core/memory.hpp"
#include "reprieve/error.hpp"

namespace reprieve {

MemorySpace::~MemorySpace() = default;
void MemorySpace::pin(void* /*host*/, std::size_t /*bytes*/, const void* /*address*/) {}
bool MemorySpace::unpin(void* /*host*/, const void* /*address*/) noexcept { return true; }

namespace {

using SpaceList = std::vector<std::shared_ptr<MemorySpace>>;

std::mutex& list_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Never destroyed: a handler that is a static object may save at the end of the process.
SpaceList& added_list() {
  static auto* const list = new SpaceList;
  return *list;
}

SpaceList added_spaces() {
  const std::lock_guard lock(list_mutex());
  return added_list();
}

std::shared_ptr<MemorySpace> loaded(std::shared_ptr<MemorySpace> space, const char* name, const char* library) {
  if (space == nullptr) {
    throw UsageError(std::string("there is no memory space '") + name + "': the program has not loaded " + library +
                     ", or it lacks functions that are needed");
  }
  return space;
}

bool is_named(const std::shared_ptr<MemorySpace>& space, std::string_view name) { return space->name() == name; }

}  // namespace

void add_memory_space(std::shared_ptr<MemorySpace> space) {
  if (space == nullptr) {
    throw UsageError("add_memory_space was given none");
  }
  const std::string name = space->name();
  const std::lock_guard lock(list_mutex());
  SpaceList& list = added_list();
  if (name == "cuda" || name == "hip" ||
      std::ranges::any_of(list, [&](const auto& other) { return is_named(other, name); })) {
    throw UsageError("there is a memory space '" + name + "' already");
  }
  list.push_back(std::move(space));
}

std::shared_ptr<MemorySpace> cuda_memory(void* stream) {
  return loaded(devices::find_cuda(stream), "cuda", "libcuda.so.1");
}

std::shared_ptr<MemorySpace> hip_memory(void* stream) {
  return loaded(devices::find_hip(stream), "hip", "libamdhip64.so");
}

std::shared_ptr<MemorySpace> memory_space(std::string_view name, void* stream) {
  if (name == "cuda") {
    return cuda_memory(stream);
  }
  if (name == "hip") {
    return hip_memory(stream);
  }
  for (const auto& space : added_spaces()) {
    if (is_named(space, name)) {
      return space;
    }
  }
  throw UsageError("there is no memory space '" + std::string(name) + "': add it first");
}

}  // namespace reprieve

namespace reprieve::devices {

Spaces::Spaces() : spaces_(added_spaces()) {
  // They are kept as long as the process, and longer than its static objects, for the same reason.
  static auto* const cuda = new std::shared_ptr<MemorySpace>;
  static auto* const hip = new std::shared_ptr<MemorySpace>;
  const std::lock_guard lock(list_mutex());
  for (const auto& [space, find] : {std::pair{hip, &find_hip}, std::pair{cuda, &find_cuda}}) {
    if (*space == nullptr) {
      *space = find(nullptr);
    }
    if (*space != nullptr) {
      spaces_.insert(spaces_.begin(), *space);
    }
  }
}

MemorySpace* Spaces::find(const std::byte* first, std::size_t bytes, MemorySpace* named) const {
  if (bytes == 0) {
    return nullptr;
  }
  const auto in = [&](MemorySpace& space, MemoryOwner owner) {
    const std::byte* const last = first + bytes - 1;
    if (space.owner_of(last) != owner) {
      throw UsageError("its memory begins in the memory space '" + space.name() + "' and ends outside of it");
    }
    space.synchronize(first);
    space.synchronize(last);  // of an allocation of another device, if the program laid them side by side
    return owner == MemoryOwner::device ? &space : nullptr;
  };
  if (named != nullptr) {
    const MemoryOwner owner = named->owner_of(first);
    if (owner == MemoryOwner::other) {
      throw UsageError("its memory is not of the memory space '" + named->name() + "', which was set for it");
    }
    return in(*named, owner);
  }
  for (const auto& space : spaces_) {
    if (const MemoryOwner owner = space->owner_of(first); owner != MemoryOwner::other) {
      return in(*space, owner);
    }
  }
  return nullptr;
}

bool Spaces::is_mapped(const std::byte* first, std::size_t bytes) const noexcept {
  constexpr std::uintptr_t page_bytes = 4096;  // of larger pages, a part
  const auto page_of = [](const std::byte* place) { return reinterpret_cast<std::uintptr_t>(place) / page_bytes; };
  if (bytes == 0) {
    return true;
  }
  if (page_of(first) == mapped_page_) {
    const std::size_t known = (mapped_page_ + 1) * page_bytes - reinterpret_cast<std::uintptr_t>(first);
    if (bytes <= known) {
      return true;
    }
    first += known;
    bytes -= known;
  }
  if (!core::is_mapped(first, bytes)) {
    return false;
  }
  mapped_page_ = page_of(first + bytes - 1);
  return true;
}

namespace {

/// What is looked for in the list of loaded libraries.
struct Search {
  std::string_view begin;        ///< of the library's name
  unsigned long long absent_at;  ///< how many libraries had been loaded when it was not there
  unsigned long long loaded_so_far = 0;
  bool found = false;
};

/// Called for each library until it returns something else than zero.
int match_library(dl_phdr_info* info, std::size_t /*size*/, void* search_of_caller) {
  auto& search = *static_cast<Search*>(search_of_caller);
  search.loaded_so_far = info->dlpi_adds;  // the same for all of them
  if (search.loaded_so_far == search.absent_at) {
    return 1;
  }
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  search.found = path.substr(path.rfind('/') + 1).starts_with(search.begin);
  return search.found ? 1 : 0;
}

/// By the list in memory: dlopen searches the file system for a name that is not loaded. A program may register many
/// thousand variables, and mostly nothing was loaded since the last of them.
bool is_any_loaded(const char* begin, std::atomic<unsigned long long>& absent_at) noexcept {
  Search search{begin, absent_at};
  ::dl_iterate_phdr(match_library, &search);
  if (!search.found) {
    absent_at = search.loaded_so_far;
  }
  return search.found;
}

}  // namespace

DriverLibrary::DriverLibrary(const char* begin, std::initializer_list<const char*> names,
                             std::atomic<unsigned long long>& absent_at) noexcept {
  if (!is_any_loaded(begin, absent_at)) {
    return;
  }
  for (const char* name : names) {
    // The handle is not closed: what was taken from it must stay.
    handle_ = ::dlopen(name, RTLD_NOLOAD | RTLD_NOW);
    if (handle_ != nullptr) {
      return;
    }
  }
}

void* DriverLibrary::symbol(const char* name) noexcept { return ::dlsym(handle_, name); }

bool try_twice(const std::function<void()>& unpin) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      unpin();
      return true;
    } catch (const Error& error) {
      core::log::debug("{}", error.what());
    }
  }
  return false;
}

}  // namespace reprieve::devices
