// SPDX-License-Identifier: BSD-3-Clause
#include "manager/xdmf_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "reprieve/version.hpp"

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
          ": describes the checkpoints beside it. Made anew by "
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
