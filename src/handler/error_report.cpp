#include "handler/error_report.hpp"

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

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
    // Each rank has a temporary file of its own, and the rename makes it the report: never a mixture of two.
    const auto temporary = directory / fmt::format(".error-{}.json", report.rank);
    std::ofstream file(temporary);
    file << content.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    file.close();
    if (!file) {
      core::log::warning("cannot write {}", temporary.string());
      return;
    }
    std::filesystem::rename(temporary, directory / kFileName);
  } catch (const std::exception& error) {
    core::log::warning("cannot write the error report: {}", error.what());
  }
}

void remove_error_report(const std::filesystem::path& directory) noexcept {
  std::error_code error;
  std::filesystem::remove(directory / kFileName, error);
  if (error) {
    core::log::warning("cannot remove {}: {}", (directory / kFileName).string(), error.message());
  }
}

}  // namespace reprieve::handler
