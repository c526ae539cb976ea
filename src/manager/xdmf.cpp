// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/xdmf.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/xdmf_text.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve {

namespace fs = std::filesystem;

namespace {

template <class T>
double as_double(const std::vector<std::byte>& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(value));
  return static_cast<double>(value);
}

/// Nothing if it is no number that a double can stand for.
std::optional<double> number_of(ElementType type, const std::vector<std::byte>& bytes) {
  if (bytes.size() != type.size_bytes) {
    return std::nullopt;
  }
  if (type == element_type_of<double>()) return as_double<double>(bytes);
  if (type == element_type_of<float>()) return as_double<float>(bytes);
  if (type == element_type_of<std::int64_t>()) return as_double<std::int64_t>(bytes);
  if (type == element_type_of<std::uint64_t>()) return as_double<std::uint64_t>(bytes);
  if (type == element_type_of<std::int32_t>()) return as_double<std::int32_t>(bytes);
  if (type == element_type_of<std::uint32_t>()) return as_double<std::uint32_t>(bytes);
  return std::nullopt;
}

std::optional<double> time_of(const fs::path& file, const std::vector<storage::VariableInfo>& variables,
                              const std::string& name) {
  const auto found = std::ranges::find(variables, name, &storage::VariableInfo::name);
  if (found == variables.end() || found->distribution != state::Distribution::replicated) {
    return std::nullopt;
  }
  return number_of(found->type, storage::read_variable(file, name));
}

/// Nothing if the time is not to be found in it. @throws what reading it throws
std::optional<manager::XdmfCheckpoint> describe(const manager::CheckpointFile& file, const fs::path& to_directory,
                                                const std::string& time_variable) {
  const auto variables = storage::list_variables(file.path);
  const auto time = time_variable.empty() ? std::optional(static_cast<double>(file.number))
                                          : time_of(file.path, variables, time_variable);
  if (!time) {
    return std::nullopt;
  }
  manager::XdmfCheckpoint checkpoint{file.prefix, (to_directory / file.path.filename()).string(), *time, {}};
  for (const storage::VariableInfo& variable : variables) {
    const bool is_field = variable.distribution == state::Distribution::distributed;
    if (is_field && manager::xdmf_can_show(variable.type, variable.shape)) {
      checkpoint.arrays.push_back({variable.name, variable.type, variable.shape});
    }
  }
  return checkpoint;
}

/// What leads from the XDMF file to the directory; empty if it lies there.
fs::path way_to(const fs::path& directory, const fs::path& file) {
  std::error_code error;
  const fs::path from = fs::weakly_canonical(fs::absolute(file).parent_path(), error);
  const fs::path to = fs::weakly_canonical(fs::absolute(directory), error);
  const fs::path way = to.lexically_relative(from);
  return way == "." ? fs::path() : way;
}

}  // namespace

XdmfReport write_xdmf(const fs::path& directory, const fs::path& file, const XdmfOptions& options) {
  const fs::path way = way_to(directory, file);
  std::vector<manager::XdmfCheckpoint> checkpoints;
  XdmfReport report;
  std::size_t without_time = 0;
  for (const manager::CheckpointFile& found : manager::checkpoint_files(directory)) {
    try {
      if (auto checkpoint = describe(found, way, options.time_variable)) {
        report.arrays += checkpoint->arrays.size();
        checkpoints.push_back(std::move(*checkpoint));
      } else {
        ++without_time;
        core::log::warning("{} has no replicated number {}: left out of {}", found.path.string(), options.time_variable,
                           file.string());
      }
    } catch (const Error& error) {
      core::log::warning("left out of {}: {}", file.string(), error.what());
    }
  }
  if (checkpoints.empty() && without_time > 0) {
    throw UsageError(fmt::format("no checkpoint in {} has a replicated number {}, which is to be the time",
                                 directory.string(), options.time_variable));
  }
  report.checkpoints = checkpoints.size();
  // Replaced as a whole, so that a reader never meets half of it.
  const core::Directory place = core::Directory::open(file.has_parent_path() ? file.parent_path() : ".");
  place.write_text(file.filename().string(), manager::xdmf_text(checkpoints, options), place.file_mode(), false);
  return report;
}

}  // namespace reprieve
