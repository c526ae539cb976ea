// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/manifest_reader.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/strict_json.hpp"
#include "storage/format/manifest.hpp"
#include "storage/format/plain_list.hpp"
#include "storage/format/texts.hpp"

namespace reprieve::storage {

using nlohmann::json;

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

}  // namespace reprieve::storage
