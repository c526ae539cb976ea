// SPDX-License-Identifier: BSD-3-Clause
#include "core/storage_error.hpp"

#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace reprieve::core {

namespace {

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::no_space;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::permission;
    default:
      return ErrorCode::io;
  }
}

/// " (12 bytes and 3 inodes available)" for messages; empty if that cannot be told.
std::string available_space(const std::filesystem::path& path) {
  struct statvfs status = {};
  if (::statvfs(path.c_str(), &status) != 0 && ::statvfs(path.parent_path().c_str(), &status) != 0) {
    return "";
  }
  return " (" + std::to_string(std::uint64_t{status.f_bavail} * status.f_frsize) + " bytes and " +
         std::to_string(status.f_favail) + " inodes available)";
}

}  // namespace

StorageError storage_error(const std::string& action, const std::filesystem::path& path, int error_number) {
  const bool is_full = code_of(error_number) == ErrorCode::no_space;
  return {code_of(error_number), "cannot " + action + " " + path.string() + ": " +
                                     std::generic_category().message(error_number) +
                                     (is_full ? available_space(path) : "")};
}

}  // namespace reprieve::core
