// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/manifest.hpp"

#include <algorithm>
#include <string_view>

#include "core/strict_json.hpp"
#include "state/registry.hpp"
#include "storage/format/texts.hpp"

namespace reprieve::storage {

using nlohmann::json;

namespace {

/// Names of element classes in the manifest, in the order of the enumeration.
constexpr const char* kClassNames[] = {"boolean", "signed", "unsigned", "floating", "complex", "opaque", "text"};
constexpr const char* kDistributionNames[] = {"replicated", "distributed", "per_rank"};
constexpr const char* kReasonNames[] = {"user", "periodic", "preemption"};

/// The enumerator with that name.
template <class Enum, std::size_t n>
Enum named(const char* const (&names)[n], std::string_view name) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) {
    throw CorruptError("unknown name '" + std::string(name.substr(0, 100)) + "'");
  }
  return static_cast<Enum>(found - std::begin(names));
}

template <class Enum, std::size_t n>
const char* name_of(const char* const (&names)[n], Enum value) {
  return names[static_cast<std::size_t>(value)];
}

json encode_metadata(const FileMetadata& metadata) {
  json fields{{"format_version", metadata.format_version},
              {"number", metadata.number},
              {"world_size", metadata.world_size},
              {"time_us", metadata.time_us},
              {"reason",
               {{"kind", name_of(kReasonNames, metadata.reason.kind)},
                {"rank", metadata.reason.rank},
                {"host", metadata.reason.host},
                {"source", metadata.reason.source},
                {"message", metadata.reason.message}}},
              {"has_files", metadata.has_files},
              {"library_version", metadata.library_version},
              {"mpi_version", metadata.mpi_version},
              {"hdf5_version", metadata.hdf5_version}};
  if (!metadata.constants.empty()) {
    fields["constants"] = metadata.constants;
  }
  if (metadata.run_calls) {
    fields["run_calls"] = *metadata.run_calls;
  }
  if (const auto& identity = metadata.identity) {
    fields["directory_id"] = identity->directory_id;
    fields["run"] = identity->run;
    fields["save"] = identity->save;
  }
  return fields;
}

std::optional<SaveIdentity> decode_identity(const json& from) {
  if (!from.contains("directory_id")) {
    return std::nullopt;
  }
  SaveIdentity identity{from.at("directory_id").get<std::string>(), integer<std::uint64_t>(from.at("run")),
                        integer<std::uint64_t>(from.at("save"))};
  require(!identity.directory_id.empty() && identity.run > 0 && identity.save > 0, "impossible counters");
  return identity;
}

/// Versions that did not write an identity wrote 0 when no handler had told them the count.
std::optional<std::uint64_t> decode_run_calls(const json& from, const FileMetadata& metadata) {
  if (!from.contains("run_calls")) {
    return std::nullopt;
  }
  const auto run_calls = integer<std::uint64_t>(from.at("run_calls"));
  const bool is_unknown =
      !metadata.identity && run_calls == 0 && metadata.number != 0 && metadata.reason.kind == SaveReason::Kind::user;
  return is_unknown ? std::nullopt : std::optional(run_calls);
}

void encode_annotation(const Annotation& annotation, json& entry) {
  if (!annotation.units.empty()) {
    entry["units"] = annotation.units;
  }
  if (!annotation.description.empty()) {
    entry["description"] = annotation.description;
  }
  if (!annotation.dims.empty()) {
    entry["dims"] = annotation.dims;
  }
}

Annotation decode_annotation(const json& entry) {
  Annotation annotation;
  annotation.units = entry.value("units", "");
  annotation.description = entry.value("description", "");
  if (entry.contains("dims")) {
    entry.at("dims").get_to(annotation.dims);
  }
  return annotation;
}

json encode_list(const Members& members) {
  json list = json::array();
  for (const Member& member : members) {
    json& entry = list.emplace_back(json{{"name", member.name},
                                         {"class", name_of(kClassNames, member.type.element_class)},
                                         {"size_bytes", member.type.size_bytes},
                                         {"offset", member.offset}});
    if (!member.shape.empty()) {
      entry["shape"] = member.shape;
    }
    if (!member.members.empty()) {
      entry["members"] = encode_list(member.members);
    }
  }
  return list;
}

Extents extents_of(const json& list) {
  Extents lengths;
  for (const json& length : list) {
    lengths.push_back(integer<std::uint64_t>(length));
  }
  return lengths;
}

Members decode_list(const json& list) {
  Members members;
  for (const json& from : list) {
    Member& member = members.emplace_back();
    member.name = from.at("name").get<std::string>();
    member.type.element_class = element_class_named(from.at("class").get_ref<const std::string&>());
    member.type.size_bytes = integer<std::uint32_t>(from.at("size_bytes"));
    member.offset = integer<std::uint64_t>(from.at("offset"));
    if (from.contains("shape")) {
      member.shape = extents_of(from.at("shape"));
    }
    if (from.contains("members")) {
      member.members = decode_list(from.at("members"));
    }
  }
  return members;
}

json encode_variable(const StoredVariable& variable) {
  // For versions that do not know of arrays of texts, these are bytes, which fit no variable of theirs.
  const ElementClass element_class = is_text_array(variable) ? ElementClass::opaque : variable.type.element_class;
  json entry = {{"name", variable.name},
                {"distribution", name_of(kDistributionNames, variable.distribution)},
                {"class", name_of(kClassNames, element_class)},
                {"size_bytes", variable.type.size_bytes},
                {"shape", variable.shape},
                {"file_offset", variable.file_offset},
                {"piece_dimensions", variable.piece_dimensions}};
  if (!variable.tile.empty()) {
    entry["tile"] = variable.tile;
  }
  if (variable.is_copy) {
    entry["copy"] = true;
  }
  if (is_text_array(variable)) {
    entry["texts"] = true;
  }
  encode_annotation(variable.annotation, entry);
  if (!variable.members.empty()) {
    entry["members"] = encode_list(variable.members);
  }
  return entry;
}

}  // namespace

FileMetadata decode_metadata(const json& from) {
  const json& reason = from.at("reason");
  FileMetadata metadata;
  metadata.format_version = integer<int>(from.at("format_version"));
  metadata.number = integer<std::uint64_t>(from.at("number"));
  metadata.identity = decode_identity(from);
  metadata.world_size = integer<int>(from.at("world_size"));
  metadata.time_us = integer<std::int64_t>(from.at("time_us"));
  metadata.reason.kind = named<SaveReason::Kind>(kReasonNames, reason.at("kind").get_ref<const std::string&>());
  metadata.reason.rank = integer<int>(reason.at("rank"));
  metadata.reason.host = reason.at("host").get<std::string>();
  metadata.reason.source = reason.at("source").get<std::string>();
  metadata.reason.message = reason.at("message").get<std::string>();
  metadata.run_calls = decode_run_calls(from, metadata);
  if (from.contains("constants")) {
    from.at("constants").get_to(metadata.constants);
  }
  metadata.has_files = from.at("has_files").get<bool>();
  metadata.library_version = from.at("library_version").get<std::string>();
  metadata.mpi_version = from.at("mpi_version").get<std::string>();
  metadata.hdf5_version = from.at("hdf5_version").get<std::string>();
  require(metadata.world_size > 0, "written by no ranks");
  return metadata;
}

void decode_rare_fields(const json& from, StoredVariable& variable) {
  variable.annotation = decode_annotation(from);
  if (from.contains("members")) {
    variable.members = decode_list(from.at("members"));
  }
}

state::Distribution distribution_named(std::string_view name) {
  return named<state::Distribution>(kDistributionNames, name);
}

ElementClass element_class_named(std::string_view name) { return named<ElementClass>(kClassNames, name); }

std::string encode_fields(const FileIndex& index) {
  json fields = encode_metadata(index.metadata);
  fields["box_dimensions"] = index.boxes.dimensions();
  // Names are UTF-8 (checked when they are collected); the free text of a notice need not be.
  std::string text = fields.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();  // the closing brace
  return text;
}

std::string encode_manifest(const FileIndex& index, std::size_t room) {
  std::string text = encode_fields(index);
  text.append(room, ' ');
  text += kListBegins;
  const char* separator = "";
  for (const StoredVariable& variable : index.variables) {
    text += std::exchange(separator, ",");
    text += encode_variable(variable).dump();
  }
  return text + "]}";
}

std::size_t place_of_list(const Bytes& manifest) {
  const std::string_view text(reinterpret_cast<const char*>(manifest.data()), manifest.size());
  const std::size_t place = text.find(kListBegins);  // within a text its quotes would be escaped
  require(place != std::string_view::npos, "no list of variables");
  return place;
}

}  // namespace reprieve::storage
