// SPDX-License-Identifier: BSD-3-Clause
#include "manager/constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::manager {

namespace {

/// Longer texts are stored and shown as their digest.
constexpr std::size_t kLongestText = 200;
constexpr std::size_t kPieceBytes = 1U << 20U;

std::string digest_text(std::uint64_t digest, std::uint64_t bytes) {
  return fmt::format("xxh3:{:016x} of {} bytes", digest, bytes);
}

/// The manifest is JSON.
bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::string as_stored(const std::string& text) {
  const bool is_short = text.size() <= kLongestText && is_utf8(text);
  return is_short ? text : digest_text(storage::xxh3(std::as_bytes(std::span(text))), text.size());
}

std::string digest_of_file(const std::filesystem::path& path) {
  const storage::PosixFile file = storage::PosixFile::open_to_read(path);
  const std::uint64_t size = file.size();
  storage::Xxh3Stream digest;
  std::vector<std::byte> piece;
  for (std::uint64_t done = 0; done < size; done += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(size - done, kPieceBytes)));
    file.read_all(piece, done);
    digest.update(piece);
  }
  return digest_text(digest.digest(), size);
}

}  // namespace

Constants find_constants(const Checkpoint::Registry& registry, bool with_array_task,
                         const std::function<std::optional<std::string>(const char*)>& environment) {
  Constants constants;
  for (const auto& [name, constant] : registry.constants) {
    constants[name] = constant.is_file ? digest_of_file(constant.text) : as_stored(constant.text);
  }
  // The job has another id at every submission; the task has not.
  const auto task = environment("SLURM_ARRAY_TASK_ID");
  if (with_array_task && task && environment("SLURM_ARRAY_JOB_ID")) {
    constants[kArrayTaskName] = as_stored(*task);
  }
  return constants;
}

void compare_constants(const std::filesystem::path& file, const Constants& stored, const Constants& present) {
  std::string differences;
  for (const auto& [name, value] : present) {
    const auto found = stored.find(name);
    if (found == stored.end()) {
      core::log::info("{} does not say what '{}' was; it is '{}' now", file.string(), name, value);
    } else if (found->second != value) {
      differences += fmt::format("\n  '{}': '{}' when it was saved, '{}' now", name, found->second, value);
    }
  }
  for (const auto& [name, value] : stored) {
    if (!present.contains(name)) {
      core::log::info("{} was saved with '{}' = '{}', which this program does not have", file.string(), name, value);
    }
  }
  if (!differences.empty()) {
    throw MismatchError(fmt::format(
        "{} belongs to another problem; nothing is restored from it. Use another directory, or move it away:{}",
        file.string(), differences));
  }
}

}  // namespace reprieve::manager
