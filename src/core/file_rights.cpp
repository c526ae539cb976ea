// SPDX-License-Identifier: BSD-3-Clause
#include "core/file_rights.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "core/log.hpp"

namespace reprieve::core {

bool has_no_rights(int error_number) noexcept {
  if (error_number != EPERM && error_number != EOPNOTSUPP && error_number != ENOSYS && error_number != EINVAL) {
    return false;
  }
  static std::atomic_flag told;
  if (!told.test_and_set()) {
    log::warning(
        "the file system does not let the rights of files be changed (error {}): who may read checkpoints is for the "
        "file system to say",
        error_number);
  }
  return true;
}

int give_rights(int descriptor, mode_t mode) noexcept {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    return errno;
  }
  if (!S_ISREG(status.st_mode) || status.st_size != 0 || status.st_uid != ::geteuid() ||
      (mode & ~status.st_mode) == 0) {
    return 0;
  }
  if (::fchmod(descriptor, mode) != 0) {
    static_cast<void>(has_no_rights(errno));  // what cannot be read for want of rights is told when it is read
  }
  return 0;
}

}  // namespace reprieve::core
