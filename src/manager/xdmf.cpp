// SPDX-License-Identifier: BSD-3-Clause
#include "manager/xdmf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "manager/checkpoint_list.hpp"
#include "reprieve/version.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::manager {

namespace {

/// Grids of the same form, in time: the arrays that one checkpoint has on it.
using Collection = std::vector<std::pair<const XdmfCheckpoint*, std::vector<const XdmfArray*>>>;
/// By the prefix of the checkpoints, and the shape.
using Collections = std::map<std::pair<std::string, Extents>, Collection>;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// "64 64 32".
template <class Numbers>
std::string list_text(const Numbers& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

std::string number_type(ElementType type) {
  const bool is_byte = type.size_bytes == 1;
  switch (type.element_class) {
    case ElementClass::floating:
      return "Float";
    case ElementClass::unsigned_integer:
      return is_byte ? "UChar" : "UInt";
    default:
      return is_byte ? "Char" : "Int";
  }
}

/// Grids in space, also of arrays with fewer dimensions: ParaView would put XDMF's plane grids into the plane of y and
/// z.
template <class T>
std::vector<T> in_space(std::vector<T> values, T missing) {
  values.insert(values.begin(), 3 - values.size(), missing);
  return values;
}

/// The values given for arrays with so many dimensions, or the standard ones.
std::vector<double> for_dimensions(const std::vector<double>& given, std::size_t dimensions, double standard) {
  return given.size() == dimensions ? given : std::vector<double>(dimensions, standard);
}

std::string xml_numbers(const std::vector<double>& values) {
  return fmt::format(
      "          <DataItem Format=\"XML\" NumberType=\"Float\" Precision=\"8\" Dimensions=\"{}\">{}</DataItem>\n",
      values.size(), list_text(values));
}

std::string grid_text(const Extents& shape, const XdmfOptions& options) {
  return fmt::format("        <Topology TopologyType=\"3DCoRectMesh\" Dimensions=\"{}\"/>\n",
                     list_text(in_space<std::uint64_t>(shape, 1))) +
         "        <Geometry GeometryType=\"ORIGIN_DXDYDZ\">\n" +
         xml_numbers(in_space(for_dimensions(options.origin, shape.size(), 0), 0.0)) +
         xml_numbers(in_space(for_dimensions(options.spacing, shape.size(), 1), 1.0)) + "        </Geometry>\n";
}

std::string array_text(const XdmfArray& array, const std::string& path) {
  return fmt::format("        <Attribute Name=\"{}\" AttributeType=\"Scalar\" Center=\"Node\">\n",
                     escaped(array.name)) +
         fmt::format(
             "          <DataItem Format=\"HDF\" NumberType=\"{}\" Precision=\"{}\" Dimensions=\"{}\">{}:/state/{}"
             "</DataItem>\n",
             number_type(array.type), array.type.size_bytes, list_text(in_space<std::uint64_t>(array.shape, 1)),
             escaped(path), escaped(array.name)) +
         "        </Attribute>\n";
}

std::string collection_text(const std::string& name, const Extents& shape, const Collection& collection,
                            const XdmfOptions& options) {
  std::string text =
      fmt::format("    <Grid Name=\"{}\" GridType=\"Collection\" CollectionType=\"Temporal\">\n", escaped(name));
  for (const auto& [checkpoint, arrays] : collection) {
    text += fmt::format("      <Grid Name=\"{}\" GridType=\"Uniform\">\n", escaped(checkpoint->path));
    text += fmt::format("        <Time Value=\"{}\"/>\n", checkpoint->time);
    text += grid_text(shape, options);
    for (const XdmfArray* array : arrays) {
      text += array_text(*array, checkpoint->path);
    }
    text += "      </Grid>\n";
  }
  return text + "    </Grid>\n";
}

Collections collected(const std::vector<XdmfCheckpoint>& checkpoints) {
  Collections collections;
  for (const XdmfCheckpoint& checkpoint : checkpoints) {
    std::map<Extents, std::vector<const XdmfArray*>> by_shape;
    for (const XdmfArray& array : checkpoint.arrays) {
      by_shape[array.shape].push_back(&array);
    }
    for (auto& [shape, arrays] : by_shape) {
      collections[{checkpoint.prefix, shape}].emplace_back(&checkpoint, std::move(arrays));
    }
  }
  for (auto& [key, collection] : collections) {
    std::ranges::stable_sort(collection, {}, [](const auto& entry) { return entry.first->time; });
  }
  return collections;
}

}  // namespace

bool xdmf_can_show(ElementType type, const Extents& shape) {
  const bool has_a_form = !shape.empty() && shape.size() <= 3 && std::ranges::find(shape, 0U) == shape.end();
  switch (type.element_class) {
    case ElementClass::floating:
      return has_a_form && (type.size_bytes == 4 || type.size_bytes == 8);
    case ElementClass::signed_integer:
    case ElementClass::unsigned_integer:
      return has_a_form && type.size_bytes <= 8;
    default:
      return false;
  }
}

std::string xdmf_text(const std::vector<XdmfCheckpoint>& checkpoints, const XdmfOptions& options) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  text += "<!-- Written by Reprieve " REPRIEVE_VERSION
          ": describes the checkpoints beside it. Made again by "
          "`reprieve xdmf`. -->\n";
  text += "<Xdmf Version=\"3.0\">\n  <Domain>\n";
  for (const auto& [key, collection] : collected(checkpoints)) {
    const auto& [prefix, shape] = key;
    const std::string name = fmt::format("{} {}", prefix, fmt::join(shape, "x"));
    text += collection_text(name, shape, collection, options);
  }
  return text + "  </Domain>\n</Xdmf>\n";
}

}  // namespace reprieve::manager

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
  const core::Directory parent = core::Directory::open(file.has_parent_path() ? file.parent_path() : ".");
  parent.write_text(file.filename().string(), manager::xdmf_text(checkpoints, options), parent.file_mode(), false);
  return report;
}

}  // namespace reprieve
