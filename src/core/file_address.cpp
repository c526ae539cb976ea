// SPDX-License-Identifier: BSD-3-Clause
#include "core/file_address.hpp"

#include <fcntl.h>

namespace reprieve::core {

namespace {

Descriptor open_below(const Directory& directory, std::filesystem::path::const_iterator name,
                      std::filesystem::path::const_iterator last, int flags, mode_t mode, Links links) {
  if (name == last) {
    return directory.open_file(name->string(), flags, mode, links);
  }
  const Directory next = directory.open_directory(name->string());
  return open_below(next, std::next(name), last, flags, mode, links);
}

}  // namespace

Descriptor FileAddress::open_in_place(int flags, mode_t mode, Links links) const {
  return directory_ ? open_below(*directory_, below_.begin(), std::prev(below_.end()), flags, mode, links)
                    : open_file_by_path(path_, flags, mode, links);
}

Descriptor FileAddress::open(int flags, mode_t mode) const { return open_in_place(flags, mode, Links::refused); }

Descriptor FileAddress::open_to_read() const { return open_in_place(O_RDONLY, 0, Links::followed); }

}  // namespace reprieve::core
