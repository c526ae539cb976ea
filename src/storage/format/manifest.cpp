// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/manifest.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <ranges>
#include <string>
#include <system_error>

#include "core/events.hpp"
#include "state/registry.hpp"
#include "storage/format/description.hpp"

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

template <class Value>
void put_unless_empty(json& entry, const char* key, const Value& value) {
  if (!value.empty()) {
    entry[key] = value;
  }
}

json encode_metadata(const FileMetadata& metadata) {
  json fields{{"format_version", metadata.format_version},   {"number", metadata.number},
              {"world_size", metadata.world_size},           {"time_us", metadata.time_us},
              {"reason", json_of(metadata.reason)},          {"has_files", metadata.has_files},
              {"library_version", metadata.library_version}, {"mpi_version", metadata.mpi_version},
              {"hdf5_version", metadata.hdf5_version}};
  put_unless_empty(fields, "constants", metadata.constants);
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

/// Versions that did not write an identity wrote 0 when no handler gave them the count.
std::optional<std::uint64_t> decode_run_calls(const json& from, const FileMetadata& metadata) {
  if (!from.contains("run_calls")) {
    return std::nullopt;
  }
  const auto run_calls = integer<std::uint64_t>(from.at("run_calls"));
  const bool is_unknown =
      !metadata.identity && run_calls == 0 && metadata.number != 0 && metadata.reason.kind == SaveReason::Kind::user;
  return is_unknown ? std::nullopt : std::optional(run_calls);
}

json encode_list(const Members& members) {
  json list = json::array();
  for (const Member& member : members) {
    json& entry = list.emplace_back(json{{"name", member.name},
                                         {"class", name_of(kClassNames, member.type.element_class)},
                                         {"size_bytes", member.type.size_bytes},
                                         {"offset", member.offset}});
    put_unless_empty(entry, "shape", member.shape);
    put_unless_empty(entry, "members", encode_list(member.members));
  }
  return list;
}

ElementClass element_class_named(std::string_view name) { return named<ElementClass>(kClassNames, name); }

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

void decode_rare_fields(const json& from, StoredVariable& variable) {
  variable.annotation = Annotation{from.value("units", ""), from.value("description", ""),
                                   from.value("dims", std::vector<std::string>())};
  if (from.contains("members")) {
    variable.members = decode_list(from.at("members"));
  }
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
  put_unless_empty(entry, "tile", variable.chunk);
  if (variable.compressed) {
    entry["compressed"] = true;
  }
  if (variable.is_copy) {
    entry["copy"] = true;
  }
  if (is_text_array(variable)) {
    entry["texts"] = true;
  }
  put_unless_empty(entry, "units", variable.annotation->units);
  put_unless_empty(entry, "description", variable.annotation->description);
  put_unless_empty(entry, "dims", variable.annotation->dims);
  if (!variable.members.empty()) {
    entry["members"] = encode_list(variable.members);
  }
  return entry;
}

/// Reads JSON from front to end without a document in memory: a manifest can have an entry for each of a hundred
/// thousand variables. Texts and numbers in the form in which this library writes most of them are taken as they stand,
/// which is ten times as fast; the JSON library reads all other values, and says what is wrong.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : all_(text), rest_(text) {}

  /// Calls @p visit(key) for each member, which reads the value. Ends early if that returns false.
  template <class Visit>
  bool object(Visit&& visit) {
    if (!takes('{')) {
      static_cast<void>(value().get_ref<const json::object_t&>());
      fail();
    }
    return members('}', [&] {
      const std::string_view key = text();
      expect(':');
      return visit(key);
    });
  }

  /// Calls @p visit() for each item, which reads it.
  template <class Visit>
  void list(Visit&& visit) {
    if (!takes('[')) {
      static_cast<void>(value().get_ref<const json::array_t&>());
      fail();
    }
    members(']', [&] {
      visit();
      return true;
    });
  }

  /// Good until the next text.
  std::string_view text() {
    skip_space();
    if (rest_.starts_with('"')) {
      const std::string_view plain = rest_.substr(1, rest_.find('"', 1) - 1);
      const bool is_plain = plain.size() + 1 < rest_.size() &&
                            std::ranges::all_of(plain, [](char c) { return c >= 0x20 && c < 0x7f && c != '\\'; });
      if (is_plain) {
        rest_.remove_prefix(plain.size() + 2);
        return plain;
      }
    }
    text_ = value().get<std::string>();
    return text_;
  }

  template <class Number>
  Number number() {
    skip_space();
    std::uint64_t plain = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), plain);
    const auto digits = static_cast<std::size_t>(end - rest_.data());
    const bool is_whole =
        digits < rest_.size() && (rest_[digits] == ',' || rest_[digits] == ']' || rest_[digits] == '}');
    const bool is_json = digits == 1 || !rest_.starts_with('0');  // no zeros before it
    if (error != std::errc{} || !is_whole || !is_json || !std::in_range<Number>(plain)) {
      return integer<Number>(value());
    }
    rest_.remove_prefix(digits);
    return static_cast<Number>(plain);
  }

  Extents numbers() {
    skip_space();
    if (!rest_.starts_with('[')) {
      throw CorruptError("'" + core::shown(value()) + "' where a list of integers is expected");
    }
    Extents found;
    list([&] { found.push_back(number<std::uint64_t>()); });
    return found;
  }

  /// Whatever comes next.
  json value() {
    skip_space();
    const std::string_view source = rest_.substr(0, length_of_value());
    require(!core::nested_too_deep(source), kTooDeep);
    rest_.remove_prefix(source.size());
    return json::parse(source);
  }

  /// Nothing but the end of the text comes next.
  void expect_end() {
    skip_space();
    if (!rest_.empty()) {
      fail();
    }
  }

 private:
  static constexpr const char* kTooDeep = "the manifest is nested too deep";

  template <class Visit>
  bool members(char end, const Visit& visit) {
    if (takes(end)) {
      return true;
    }
    do {
      if (!visit()) {
        return false;
      }
    } while (takes(','));
    expect(end);
    return true;
  }

  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r' || rest_[0] == '\n')) {
      rest_.remove_prefix(1);
    }
  }

  bool takes(char c) {
    skip_space();
    const bool is_next = rest_.starts_with(c);
    rest_.remove_prefix(is_next ? 1 : 0);
    return is_next;
  }

  void expect(char c) {
    if (!takes(c)) {
      fail();
    }
  }

  /// Whether it is JSON is for the library to judge.
  [[nodiscard]] std::size_t length_of_value() const {
    std::size_t depth = 0;
    bool in_text = false;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      const char c = rest_[i];
      if (in_text) {
        i += c == '\\' ? 1 : 0;
        in_text = c != '"';
      } else if (c == '"') {
        in_text = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (depth == 0 && (c == ',' || c == ':' || c == '}' || c == ']')) {
        return i;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        return i + 1;
      }
    }
    return rest_.size();
  }

  /// In the words of the library.
  [[noreturn]] void fail() const {
    require(!core::nested_too_deep(all_), kTooDeep);
    const json document = json::parse(all_);
    throw CorruptError("a manifest of another form: " + core::shown(document));
  }

  std::string_view all_;
  std::string_view rest_;
  std::string text_;  ///< the last one that was not plain
};

using In = JsonCursor;
using Out = StoredVariable;

/// A field that is read without a document in memory.
struct Field {
  std::string_view name;
  bool is_required;
  void (*read)(In& in, Out& variable, bool& is_texts);
};
constexpr std::array<Field, 11> kFields{{
    {"class", true, [](In& in, Out& v, bool&) { v.type.element_class = element_class_named(in.text()); }},
    {"distribution", true,
     [](In& in, Out& v, bool&) { v.distribution = named<state::Distribution>(kDistributionNames, in.text()); }},
    {"file_offset", true, [](In& in, Out& v, bool&) { v.file_offset = in.number<std::uint64_t>(); }},
    {"name", true, [](In& in, Out& v, bool&) { v.name = in.text(); }},
    {"piece_dimensions", true, [](In& in, Out& v, bool&) { v.piece_dimensions = in.number<std::uint64_t>(); }},
    {"shape", true, [](In& in, Out& v, bool&) { v.shape = in.numbers(); }},
    {"size_bytes", true, [](In& in, Out& v, bool&) { v.type.size_bytes = in.number<std::uint32_t>(); }},
    {"compressed", false, [](In& in, Out& v, bool&) { v.compressed = in.value().get<bool>(); }},
    {"copy", false, [](In& in, Out& v, bool&) { v.is_copy = in.value().get<bool>(); }},
    {"texts", false, [](In& in, Out&, bool& is_texts) { is_texts = in.value().get<bool>(); }},
    {"tile", false,
     [](In& in, Out& v, bool&) {
       v.chunk = in.numbers();
       require(!v.chunk.empty(), "chunks without a shape");
     }},
}};

StoredVariable read_variable(JsonCursor& in) {
  StoredVariable variable;
  std::array<bool, kFields.size()> seen{};
  bool is_texts = false;
  json others;  // what few variables have
  in.object([&](std::string_view key) {
    const auto field = std::ranges::find(kFields, key, &Field::name);
    if (field == kFields.end()) {
      const std::string name(key);
      others[name] = in.value();
    } else {
      field->read(in, variable, is_texts);
      seen.at(static_cast<std::size_t>(field - kFields.begin())) = true;
    }
    return true;
  });
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    require(seen.at(i) || !kFields.at(i).is_required, "a variable without one of its fields");
  }
  if (is_texts) {
    require(variable.type.element_class == ElementClass::opaque && variable.type.size_bytes > 1, "impossible texts");
    variable.type.element_class = ElementClass::text;
  } else {
    require(!is_text_array(variable), "a text of elements that are not bytes");
  }
  if (!others.is_null()) {
    decode_rare_fields(others, variable);
  }
  return variable;
}

std::string_view text_of(std::span<const std::byte> manifest) {
  return {reinterpret_cast<const char*>(manifest.data()), manifest.size()};
}

constexpr const char* kVariables = "variables";
/// Where the list of them begins in what `encode_manifest` made of an index, with the comma before its name.
constexpr std::string_view kListBegins = R"(,"variables":[)";
constexpr std::size_t kLikelyEntryBytes = 160;

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
  text.reserve(text.size() + room + index.variables.size() * kLikelyEntryBytes);  // it may be the largest of all texts
  text.append(room, ' ');
  text += kListBegins;
  const char* separator = "";
  for (const StoredVariable& variable : index.variables) {
    text += std::exchange(separator, ",");
    text += encode_variable(variable).dump();
  }
  text += "]}";
  return text;
}

std::size_t list_offset(std::span<const std::byte> manifest) {
  const std::size_t offset = text_of(manifest).find(kListBegins);  // within a text its quotes would be escaped
  require(offset != std::string_view::npos, "no list of variables");
  return offset;
}

json read_manifest(std::span<const std::byte> manifest, std::vector<StoredVariable>* variables) {
  json fields = json::object();
  bool has_list = false;
  JsonCursor in(text_of(manifest));
  const bool at_end = in.object([&](std::string_view key) {
    if (key != kVariables) {
      const std::string name(key);
      fields[name] = in.value();
      return true;
    }
    has_list = true;
    if (variables == nullptr) {
      // The list comes last, but for files of the first versions, which have the fields in the order of their names.
      return !fields.contains("world_size") && !in.value().is_null();
    }
    variables->clear();
    variables->reserve(manifest.size() / kLikelyEntryBytes);
    in.list([&] { variables->push_back(read_variable(in)); });
    return true;
  });
  if (at_end) {
    in.expect_end();
  }
  if (!has_list) {
    static_cast<void>(fields.at(kVariables));  // throws
  }
  return fields;
}

}  // namespace reprieve::storage
