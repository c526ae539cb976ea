// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/manifest.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/strict_json.hpp"
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

namespace {

/// Puts a JSON value together from what the parser meets.
class JsonBuilder {
 public:
  JsonBuilder() = default;
  ~JsonBuilder() = default;
  JsonBuilder(const JsonBuilder&) = delete;
  JsonBuilder& operator=(const JsonBuilder&) = delete;

  /// With an object, to which whatever comes belongs.
  void begin_anew() {
    open_.clear();
    begin(json::object());
  }
  void key(std::string& name) { key_ = std::move(name); }
  void begin(json container) { open_.push_back(&add(std::move(container))); }
  void end() { open_.pop_back(); }
  void value(json leaf) { add(std::move(leaf)); }
  [[nodiscard]] json take() { return std::move(root_); }
  [[nodiscard]] const json& root() const noexcept { return root_; }

 private:
  json& add(json value) {
    if (open_.empty()) {
      return root_ = std::move(value);
    }
    json& container = *open_.back();
    return container.is_array() ? container.emplace_back(std::move(value)) : container[key_] = std::move(value);
  }

  json root_ = json::object();
  std::vector<json*> open_;
  std::string key_;
};

/// The entries of the list that hold most of its bytes are taken as they come; what few variables have is put together
/// as JSON first.
class EntryReader {
 public:
  EntryReader() { others_.begin_anew(); }

  void begin() {
    variable_ = {};
    field_ = Field::other;
    seen_ = 0;
    texts_ = false;
    if (!others_.root().empty()) {
      others_.begin_anew();
    }
  }

  void key(std::string& name) {
    if (depth_ > 0) {
      others_.key(name);
      return;
    }
    field_ = field_of(name);
    if (field_ == Field::other) {
      others_.key(name);
    }
  }

  void begin_array() {
    if (depth_ == 0 && is_list(field_)) {
      in_list_ = true;
      list().clear();
    } else {
      begin_other(json::array());
    }
  }
  void begin_object() { begin_other(json::object()); }

  void end_container() {
    if (in_list_) {
      in_list_ = false;
      see();
    } else {
      others_.end();
      --depth_;
    }
  }

  /// A number, a text, or whatever else is no container.
  void value(json leaf) {
    if (in_list_) {
      list().push_back(integer<std::uint64_t>(leaf));
    } else if (depth_ > 0 || field_ == Field::other) {
      others_.value(std::move(leaf));
    } else {
      set(std::move(leaf));
      see();
    }
  }

  [[nodiscard]] StoredVariable finish() {
    for (std::size_t f = 0; f < kRequired; ++f) {
      require((seen_ & (1U << f)) != 0, "a variable without one of its fields");
    }
    require((seen_ & (1U << static_cast<unsigned>(Field::tile))) == 0 || !variable_.tile.empty(),
            "tiles without a shape");
    take_texts();
    if (!others_.root().empty()) {
      decode_rare_fields(others_.root(), variable_);
    }
    return std::move(variable_);
  }

 private:
  /// Those that every variable has come first.
  enum class Field : std::uint8_t { name, distribution, type, size, shape, offset, pieces, tile, copy, texts, other };
  static constexpr std::size_t kRequired = 7;
  static constexpr std::array<std::string_view, 10> kFields{
      "name",        "distribution",     "class", "size_bytes", "shape",
      "file_offset", "piece_dimensions", "tile",  "copy",       "texts"};

  static Field field_of(std::string_view name) {
    for (std::size_t f = 0; f < kFields.size(); ++f) {
      if (kFields[f] == name) {
        return static_cast<Field>(f);
      }
    }
    return Field::other;
  }

  static bool is_list(Field field) { return field == Field::shape || field == Field::tile; }
  Extents& list() { return field_ == Field::shape ? variable_.shape : variable_.tile; }
  void see() { seen_ |= 1U << static_cast<unsigned>(field_); }

  void begin_other(json container) {
    require(depth_ > 0 || field_ == Field::other, "a list where something else is expected");
    others_.begin(std::move(container));
    ++depth_;
  }

  void set(json leaf) {
    const auto text = [&]() -> std::string& { return leaf.get_ref<std::string&>(); };
    switch (field_) {
      case Field::name:
        variable_.name = std::move(text());
        break;
      case Field::distribution:
        variable_.distribution = distribution_named(text());
        break;
      case Field::type:
        variable_.type.element_class = element_class_named(text());
        break;
      case Field::size:
        variable_.type.size_bytes = integer<std::uint32_t>(leaf);
        break;
      case Field::offset:
        variable_.file_offset = integer<std::uint64_t>(leaf);
        break;
      case Field::pieces:
        variable_.piece_dimensions = integer<std::uint64_t>(leaf);
        break;
      case Field::copy:
        variable_.is_copy = leaf.get<bool>();
        break;
      case Field::texts:
        texts_ = leaf.get<bool>();
        break;
      default:
        throw CorruptError("'" + core::shown(leaf) + "' where a list of integers is expected");
    }
  }

  void take_texts() {
    if (texts_) {
      require(variable_.type.element_class == ElementClass::opaque && variable_.type.size_bytes > 1,
              "impossible texts");
      variable_.type.element_class = ElementClass::text;
    } else {
      require(!is_text_array(variable_), "a text of elements that are not bytes");
    }
  }

  StoredVariable variable_;
  Field field_ = Field::other;
  unsigned seen_ = 0;
  bool in_list_ = false;
  bool texts_ = false;
  std::size_t depth_ = 0;  ///< containers that are open within the entry
  JsonBuilder others_;
};

/// Takes what the parser meets: entries of the list of variables to their reader, the rest to a JSON value.
class ManifestReader : public json::json_sax_t {
 public:
  enum class Until : std::uint8_t { end, list_of_variables };

  explicit ManifestReader(Until until) : until_(until) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool leaf) override { return value(leaf); }
  bool number_integer(json::number_integer_t leaf) override { return value(leaf); }
  bool number_unsigned(json::number_unsigned_t leaf) override { return value(leaf); }
  bool number_float(json::number_float_t leaf, const std::string& /*text*/) override { return value(leaf); }
  bool string(std::string& leaf) override { return value(std::move(leaf)); }
  bool binary(json::binary_t& /*leaf*/) override { throw CorruptError("bytes where an integer is expected"); }

  bool key(std::string& name) override {
    if (in_entry()) {
      entry_.key(name);
      return true;
    }
    at_list_ = depth_ == 1 && name == kVariables;
    fields_.key(name);
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    deeper();
    if (!in_list_) {
      fields_.begin(json::object());
    } else if (depth_ == kEntryDepth) {
      entry_.begin();
    } else {
      entry_.begin_object();
    }
    return true;
  }

  bool end_object() override {
    if (!in_list_) {
      fields_.end();
    } else if (depth_ == kEntryDepth) {
      variables_.push_back(entry_.finish());
    } else {
      entry_.end_container();
    }
    --depth_;
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    deeper();
    if (in_list_) {
      require(depth_ > kEntryDepth, kNoEntry);
      entry_.begin_array();
    } else if (at_list_ && depth_ == 2) {
      in_list_ = true;
      has_list_ = true;
      variables_.clear();
      // The list comes last, but for files of the first versions, which have the fields in the order of their names.
      return until_ == Until::end || !fields_.root().contains("world_size");
    } else {
      fields_.begin(json::array());
    }
    return true;
  }

  bool end_array() override {
    if (!in_list_) {
      fields_.end();
    } else if (depth_ == 2) {
      in_list_ = at_list_ = false;
    } else {
      entry_.end_container();
    }
    --depth_;
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    if (const auto* const not_json = dynamic_cast<const json::parse_error*>(&error)) {
      throw *not_json;
    }
    throw CorruptError(error.what());
  }

  [[nodiscard]] ReadManifest take() {
    json fields = fields_.take();
    if (!has_list_) {
      static_cast<void>(fields.at(kVariables).get_ref<const json::array_t&>());
    }
    return {std::move(fields), std::move(variables_)};
  }

 private:
  static constexpr const char* kVariables = "variables";
  static constexpr const char* kNoEntry = "something else in the list of variables";
  static constexpr std::size_t kEntryDepth = 3;  // within the object of the manifest and the list

  bool value(json leaf) {
    if (in_list_) {
      require(in_entry(), kNoEntry);
      entry_.value(std::move(leaf));
    } else {
      fields_.value(std::move(leaf));
    }
    return true;
  }

  void deeper() { require(++depth_ <= core::kMaxJsonDepth, "the manifest is nested too deep"); }
  [[nodiscard]] bool in_entry() const noexcept { return in_list_ && depth_ >= kEntryDepth; }

  Until until_;
  std::size_t depth_ = 0;
  bool at_list_ = false;  ///< the key of the list was the last of the manifest itself
  bool in_list_ = false;
  bool has_list_ = false;
  JsonBuilder fields_;
  EntryReader entry_;
  std::vector<StoredVariable> variables_;
};

std::string_view text_of(const Bytes& manifest) {
  return {reinterpret_cast<const char*>(manifest.data()), manifest.size()};
}

ReadManifest read(std::string_view manifest, ManifestReader::Until until) {
  ManifestReader reader(until);
  static_cast<void>(json::sax_parse(manifest, &reader));  // errors are thrown; false says that it wants no more
  return reader.take();
}

StoredVariable read_entry(std::string_view entry) {
  ReadManifest alone = read(R"({"variables":[)" + std::string(entry) + "]}", ManifestReader::Until::end);
  require(alone.variables.size() == 1, "an entry that is none");
  return std::move(alone.variables.front());
}

/// Nothing if the list does not come last, or if it has another form than this library gives it.
std::optional<ReadManifest> read_plain(std::string_view manifest) {
  const std::size_t place = manifest.find(kListBegins);
  if (place == std::string_view::npos) {
    return std::nullopt;
  }
  auto variables = read_plain_list(manifest.substr(place + kListBegins.size()), read_entry);
  if (!variables) {
    return std::nullopt;
  }
  // With an empty list in its place, what comes before is a manifest as well, if it was one.
  ReadManifest read_fields =
      read(std::string(manifest.substr(0, place)) + std::string(kListBegins) + "]}", ManifestReader::Until::end);
  read_fields.variables = std::move(*variables);
  return read_fields;
}

}  // namespace

ReadManifest read_manifest(const Bytes& manifest) {
  auto plain = read_plain(text_of(manifest));
  return plain ? std::move(*plain) : read(text_of(manifest), ManifestReader::Until::end);
}

json read_manifest_fields(const Bytes& manifest) {
  return read(text_of(manifest), ManifestReader::Until::list_of_variables).fields;
}

namespace {

/// Takes what it knows from the start of a text; what it does not know stays there.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool takes(std::string_view expected) {
    if (!rest_.starts_with(expected)) {
      return false;
    }
    rest_.remove_prefix(expected.size());
    return true;
  }

  /// As JSON has it: without a sign, and without zeros before it.
  template <class Number>
  bool takes_number(Number& number) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const auto digits = static_cast<std::size_t>(end - rest_.data());
    if (error != std::errc{} || (digits > 1 && rest_.front() == '0') || value > std::numeric_limits<Number>::max()) {
      return false;
    }
    number = static_cast<Number>(value);
    rest_.remove_prefix(digits);
    return true;
  }

  bool takes_numbers(Extents& numbers) {
    if (!takes("[")) {
      return false;
    }
    if (takes("]")) {
      return true;
    }
    do {
      if (!takes_number(numbers.emplace_back())) {
        return false;
      }
    } while (takes(","));
    return takes("]");
  }

  /// Up to the next quote. Texts with characters that JSON writes in another way, or that may be no UTF-8, are not
  /// known here.
  bool takes_text(std::string_view& text) {
    text = rest_.substr(0, rest_.find('"'));
    const bool is_plain =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '\\'; });
    if (!is_plain || text.size() == rest_.size()) {
      return false;
    }
    rest_.remove_prefix(text.size() + 1);
    return true;
  }

  /// From a brace to the one that closes it; empty if there is none. Whether it is JSON is for others to judge.
  std::string_view take_object() {
    std::size_t depth = 0;
    bool in_text = false;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      const char c = rest_[i];
      if (in_text) {
        i += c == '\\' ? 1 : 0;
        in_text = c != '"';
      } else if (c == '"') {
        in_text = true;
      } else if (c == '{') {
        ++depth;
      } else if (c == '}' && --depth == 0) {
        const std::string_view object = rest_.substr(0, i + 1);
        rest_.remove_prefix(i + 1);
        return object;
      }
    }
    return {};
  }

  [[nodiscard]] bool begins_with(char c) const noexcept { return rest_.starts_with(c); }
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::string_view rest_;
};

/// The fields in the order of their names. False if the entry has another form.
bool takes_entry(Scanner& text, StoredVariable& variable) {
  std::string_view element_class;
  std::string_view distribution;
  std::string_view name;
  const bool is_plain = text.takes(R"({"class":")") && text.takes_text(element_class) &&
                        text.takes(R"(,"distribution":")") && text.takes_text(distribution) &&
                        text.takes(R"(,"file_offset":)") && text.takes_number(variable.file_offset) &&
                        text.takes(R"(,"name":")") && text.takes_text(name) && text.takes(R"(,"piece_dimensions":)") &&
                        text.takes_number(variable.piece_dimensions) && text.takes(R"(,"shape":)") &&
                        text.takes_numbers(variable.shape) && text.takes(R"(,"size_bytes":)") &&
                        text.takes_number(variable.type.size_bytes) && text.takes("}");
  if (!is_plain) {
    return false;
  }
  variable.type.element_class = element_class_named(element_class);
  variable.distribution = distribution_named(distribution);
  variable.name = name;
  return variable.type.element_class != ElementClass::text || variable.type.size_bytes == 1;
}

}  // namespace

std::optional<std::vector<StoredVariable>> read_plain_list(
    std::string_view list, const std::function<StoredVariable(std::string_view)>& read_other) {
  std::vector<StoredVariable> variables;
  Scanner text(list);
  while (text.begins_with('{')) {
    Scanner ahead = text;
    StoredVariable& variable = variables.emplace_back();
    if (takes_entry(ahead, variable)) {
      text = ahead;
    } else {
      const std::string_view entry = text.take_object();
      if (entry.empty()) {
        return std::nullopt;
      }
      variable = read_other(entry);
    }
    if (variables.size() == 1) {  // the others will be about as long
      const std::size_t bytes = list.size() - text.left();
      variables.reserve(list.size() / bytes + 1);
    }
    if (!text.takes(",")) {
      break;
    }
    if (!text.begins_with('{')) {
      return std::nullopt;
    }
  }
  return text.takes("]}") && text.left() == 0 ? std::optional(std::move(variables)) : std::nullopt;
}

}  // namespace reprieve::storage
