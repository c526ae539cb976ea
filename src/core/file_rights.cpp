#include "core/file_rights.hpp"

#include <sys/stat.h>

namespace reprieve::core {

namespace {

mode_t rights_of_others(const std::filesystem::path& directory, mode_t mask) noexcept {
  struct stat status = {};
  return ::stat(directory.empty() ? "." : directory.c_str(), &status) == 0 ? status.st_mode & mask : 0;
}

}  // namespace

mode_t file_mode_in(const std::filesystem::path& directory) noexcept {
  return kOwnFile | rights_of_others(directory, S_IRGRP | S_IROTH);
}

mode_t directory_mode_in(const std::filesystem::path& directory) noexcept {
  return kOwnDirectory | rights_of_others(directory, S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH);
}

}  // namespace reprieve::core
