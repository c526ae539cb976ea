// SPDX-License-Identifier: BSD-3-Clause
#include "handler/error_report.hpp"

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/directory.hpp"
#include "core/log.hpp"

namespace reprieve::handler {

namespace {

constexpr const char* kFileName = "error.json";

}  // namespace

void write_error_report(const std::filesystem::path& directory, const ErrorReport& report) noexcept {
  try {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const nlohmann::json content = {{"rank", report.rank},
                                    {"host", report.host},
                                    {"run_calls", report.run_calls},
                                    {"message", report.message},
                                    {"time_s", std::chrono::duration<double>(now).count()}};
    const std::string text = content.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    // Each rank has a file of its own, and the rename makes it the report: never a mixture of two.
    const std::string mine = fmt::format(".error-{}.json", report.rank);
    const core::Directory place = core::Directory::open(directory);
    place.write_text(mine, text, place.file_mode(), false);
    place.rename(mine, place, kFileName);
  } catch (const std::exception& error) {
    core::log::warning("cannot write the error report: {}", error.what());
  }
}

void remove_error_report(const std::filesystem::path& directory) noexcept {
  try {
    core::Directory::open(directory).remove_file(kFileName);
  } catch (const std::exception& error) {
    core::log::warning("an old error report stays behind: {}", error.what());
  }
}

}  // namespace reprieve::handler
