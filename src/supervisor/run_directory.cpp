#include "supervisor/run_directory.hpp"

#include <spdlog/fmt/fmt.h>
#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/drill_orders.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/run_record.hpp"
#include "reprieve/error.hpp"
#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;

fs::path outer_directory() {
  const auto named = core::environment_variable(core::kRunDirectoryVariable);
  std::error_code ignored;
  return named && fs::is_directory(*named, ignored) ? *named : "";
}

fs::path default_parent(const std::vector<std::string>& command) {
  return spans_nodes(command, core::environment_variable) ? fs::current_path() : fs::temp_directory_path();
}

[[noreturn]] void fail(const fs::path& path, int error) {
  throw StorageError(error == EACCES || error == EROFS ? ErrorCode::permission : ErrorCode::io,
                     fmt::format("cannot make the directory {} for the record of the run: {}; choose a place with "
                                 "--run-dir",
                                 path.string(), std::generic_category().message(error)));
}

}  // namespace

RunDirectory::RunDirectory(const std::optional<fs::path>& parent, const std::vector<std::string>& command)
    : outer_(outer_directory()) {
  const fs::path place = !outer_.empty() ? outer_ : parent ? *parent : default_parent(command);
  std::string name = (fs::absolute(place) / ".reprieve-run-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    fail(name, errno);
  }
  path_ = name;
}

RunDirectory::~RunDirectory() {
  if (!outer_.empty()) {
    return;
  }
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) {
    core::log::warning("cannot remove {}: {}", path_.string(), error.message());
  }
}

bool RunDirectory::is_rehearsal() const {
  std::error_code ignored;
  return !outer_.empty() && fs::exists(outer_ / core::kDrillOrdersName, ignored);
}

fs::path RunDirectory::make(int start) const {
  fs::path path = path_ / std::to_string(start);
  std::error_code error;
  fs::create_directory(path, error);
  if (error) {
    fail(path, error.value());
  }
  if (is_rehearsal()) {
    fs::copy_file(outer_ / core::kDrillOrdersName, path / core::kDrillOrdersName, error);
    if (error) {
      fail(path, error.value());
    }
  }
  return path;
}

}  // namespace reprieve::supervisor
