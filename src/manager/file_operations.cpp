#include "manager/file_operations.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/interrupted.hpp"
#include "core/log.hpp"
#include "storage/posix_file.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;

/// fsync of whatever the path names, opened with @p flags.
void sync_path(const fs::path& path, int flags) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const int descriptor = core::uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC); });
  if (descriptor < 0) {
    throw storage::storage_error("open", path, errno);
  }
  const int error_number = core::uninterrupted([&] { return ::fsync(descriptor); }) == 0 ? 0 : errno;
  if (::close(descriptor) != 0) {
    core::log::warning("closing {} failed: {}", path.string(), std::generic_category().message(errno));
  }
  if (error_number != 0) {
    throw storage::storage_error("make durable", path, error_number);
  }
}

}  // namespace

void make_directory(const fs::path& path, unsigned mode) {
  if (::mkdir(path.c_str(), static_cast<mode_t>(mode)) != 0) {
    throw storage::storage_error("make directory", path, errno);
  }
}

void set_mode(const fs::path& path, unsigned mode) {
  if (::chmod(path.c_str(), static_cast<mode_t>(mode)) != 0) {
    throw storage::storage_error("set the rights of", path, errno);
  }
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw storage::storage_error("rename " + from.string() + " to", to, errno);
  }
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    throw storage::storage_error("remove", path, error.value());
  }
}

void sync_directory(const fs::path& directory) { sync_path(directory, O_RDONLY | O_DIRECTORY); }

void sync_tree(const fs::path& directory) {
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
      const fs::file_type type = entry.symlink_status().type();
      if (type == fs::file_type::regular) {
        sync_path(entry.path(), O_RDONLY | O_NOFOLLOW);
      } else if (type == fs::file_type::directory) {
        sync_directory(entry.path());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw storage::storage_error("list", directory, error.code().value());
  }
  sync_directory(directory);
}

void remove_tree_or_log(const fs::path& path) noexcept {
  try {
    remove_tree(path);
  } catch (const std::exception& error) {
    core::log::warning("left behind: {}", error.what());
  }
}

}  // namespace reprieve::manager
