// SPDX-License-Identifier: BSD-3-Clause
#include "devices/driver_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <string_view>

namespace reprieve::devices {

namespace {

/// What is looked for in the list of loaded libraries.
struct Search {
  std::string_view begin;        ///< of the library's name
  unsigned long long absent_at;  ///< how many libraries had been loaded when it was not there
  unsigned long long loaded_so_far = 0;
  bool found = false;
};

/// Called for each library until it returns something else than zero.
int look_at(dl_phdr_info* info, std::size_t /*size*/, void* search_of_caller) {
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
  ::dl_iterate_phdr(look_at, &search);
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

void* DriverLibrary::symbol(const char* name) noexcept {
  void* const found = ::dlsym(handle_, name);
  if (found == nullptr) {
    missing_ = name;
  }
  return found;
}

}  // namespace reprieve::devices
