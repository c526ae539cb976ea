#include "supervisor/run_directory.hpp"

#include <spdlog/fmt/fmt.h>
#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::supervisor {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw StorageError(error == EACCES || error == EROFS ? ErrorCode::permission : ErrorCode::io,
                     fmt::format("cannot make the directory {} for the record of the run: {}; choose a place with "
                                 "--run-dir",
                                 path.string(), std::generic_category().message(error)));
}

}  // namespace

RunDirectory::RunDirectory(const std::filesystem::path& parent) {
  std::string name = (std::filesystem::absolute(parent) / ".reprieve-run-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    fail(name, errno);
  }
  path_ = name;
}

RunDirectory::~RunDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) {
    core::log::warning("cannot remove {}: {}", path_.string(), error.message());
  }
}

std::filesystem::path RunDirectory::make(int start) const {
  const std::filesystem::path path = path_ / std::to_string(start);
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (error) {
    fail(path, error.value());
  }
  return path;
}

}  // namespace reprieve::supervisor
