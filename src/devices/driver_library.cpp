// SPDX-License-Identifier: BSD-3-Clause
#include "devices/driver_library.hpp"

#include <dlfcn.h>

namespace reprieve::devices {

DriverLibrary::DriverLibrary(std::initializer_list<const char*> names) noexcept {
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
