// SPDX-License-Identifier: BSD-3-Clause
#include "devices/driver_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

namespace reprieve::devices {

namespace {

int has_name(dl_phdr_info* info, std::size_t /*size*/, void* begin) {
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  return path.substr(path.rfind('/') + 1).starts_with(static_cast<const char*>(begin)) ? 1 : 0;
}

/// By the list in memory: dlopen searches the file system for a name that is not loaded.
bool is_any_loaded(const char* begin) noexcept { return ::dl_iterate_phdr(has_name, const_cast<char*>(begin)) != 0; }

}  // namespace

DriverLibrary::DriverLibrary(const char* begin, std::initializer_list<const char*> names) noexcept {
  if (!is_any_loaded(begin)) {
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
