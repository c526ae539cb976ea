#include "storage/file_index.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/strict_json.hpp"
#include "state/registry.hpp"

namespace reprieve::storage {

using nlohmann::json;

void BoxTable::add(const BoxRow& row) {
  words_.insert(words_.end(), {row.variable, row.rank, row.first_checksum});
  for (const Extents* numbers : {&row.offset, &row.extent}) {
    words_.insert(words_.end(), numbers->begin(), numbers->end());
    words_.insert(words_.end(), dimensions_ - numbers->size(), 0);
  }
}

BoxRow BoxTable::row(std::size_t index, std::size_t offsets, std::size_t extents) const {
  const auto words = std::span(words_).subspan(index * row_words(), row_words());
  const auto offset = words.subspan(kFixedWords, offsets);
  const auto extent = words.subspan(kFixedWords + dimensions_, extents);
  return {words[0], words[1], words[2], Extents(offset.begin(), offset.end()), Extents(extent.begin(), extent.end())};
}

bool BoxTable::padded_with_zeros(std::size_t index, std::size_t offsets, std::size_t extents) const {
  const auto numbers = std::span(words_).subspan(index * row_words() + kFixedWords, 2 * dimensions_);
  const auto is_zero = [](std::uint64_t word) { return word == 0; };
  const auto unused_offsets = numbers.first(dimensions_).subspan(offsets);
  const auto unused_extents = numbers.last(dimensions_).subspan(extents);
  return std::all_of(unused_offsets.begin(), unused_offsets.end(), is_zero) &&
         std::all_of(unused_extents.begin(), unused_extents.end(), is_zero);
}

std::size_t FileIndex::row_dimensions(const StoredVariable& variable) {
  const bool per_rank = variable.distribution == state::Distribution::per_rank;
  return per_rank ? static_cast<std::size_t>(variable.piece_dimensions) : variable.shape.size();
}

BoxRow FileIndex::row(const StoredVariable& variable, std::size_t box) const {
  return boxes.row(variable.first_box + box, variable.shape.size(), row_dimensions(variable));
}

Box FileIndex::dataset_box(const StoredVariable& variable, const BoxRow& row) {
  if (variable.distribution == state::Distribution::per_rank) {
    return {row.offset, {volume(row.extent)}};
  }
  return {row.offset, row.extent};
}

const StoredVariable* FileIndex::find(const std::string& name) const {
  const auto found = std::lower_bound(variables.begin(), variables.end(), name,
                                      [](const StoredVariable& v, const std::string& n) { return v.name < n; });
  return found != variables.end() && found->name == name ? &*found : nullptr;
}

std::uint64_t FileIndex::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const StoredVariable& variable : variables) {
    bytes += variable.bytes();
  }
  return bytes;
}

std::vector<Region> gaps_between(std::vector<Region> taken, std::uint64_t begin, std::uint64_t end) {
  std::sort(taken.begin(), taken.end(), [](const Region& a, const Region& b) { return a.offset < b.offset; });
  std::vector<Region> gaps;
  for (const Region& region : taken) {
    if (region.offset > begin) {
      gaps.push_back({begin, region.offset - begin});
    }
    begin = std::max(begin, region.offset + region.size);
  }
  if (end > begin) {
    gaps.push_back({begin, end - begin});
  }
  return gaps;
}

namespace {

/// Names of element classes in the manifest, in the order of the enumeration.
constexpr const char* kClassNames[] = {"boolean", "signed", "unsigned", "floating", "complex", "opaque", "text"};
constexpr const char* kDistributionNames[] = {"replicated", "distributed", "per_rank"};
constexpr const char* kReasonNames[] = {"user", "periodic", "preemption"};

/// The enumerator with the name that @p value holds.
template <class Enum, std::size_t n>
Enum named(const char* const (&names)[n], const json& value) {
  const auto& name = value.get_ref<const std::string&>();
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) {
    throw CorruptError("unknown name '" + name.substr(0, 100) + "'");
  }
  return static_cast<Enum>(found - std::begin(names));
}

template <class Enum, std::size_t n>
const char* name_of(const char* const (&names)[n], Enum value) {
  return names[static_cast<std::size_t>(value)];
}

json encode_metadata(const FileMetadata& metadata) {
  return {{"format_version", kFormatVersion},
          {"number", metadata.number},
          {"run_calls", metadata.run_calls},
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
}

/// An integer that T can hold; nlohmann's own conversion would accept fractions and wrap around.
template <class T>
T integer(const json& value) {
  if (value.is_number_unsigned() && std::in_range<T>(value.get<std::uint64_t>())) {
    return static_cast<T>(value.get<std::uint64_t>());
  }
  if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.get<std::int64_t>())) {
    return static_cast<T>(value.get<std::int64_t>());
  }
  throw CorruptError("'" + core::shown(value) + "' where an integer is expected");
}

FileMetadata decode_metadata(const json& from) {
  const json& reason = from.at("reason");
  FileMetadata metadata;
  metadata.format_version = integer<int>(from.at("format_version"));
  metadata.number = integer<std::uint64_t>(from.at("number"));
  metadata.run_calls = integer<std::uint64_t>(from.at("run_calls"));
  metadata.world_size = integer<int>(from.at("world_size"));
  metadata.time_us = integer<std::int64_t>(from.at("time_us"));
  metadata.reason.kind = named<SaveReason::Kind>(kReasonNames, reason.at("kind"));
  metadata.reason.rank = integer<int>(reason.at("rank"));
  metadata.reason.host = reason.at("host").get<std::string>();
  metadata.reason.source = reason.at("source").get<std::string>();
  metadata.reason.message = reason.at("message").get<std::string>();
  metadata.has_files = from.at("has_files").get<bool>();
  metadata.library_version = from.at("library_version").get<std::string>();
  metadata.mpi_version = from.at("mpi_version").get<std::string>();
  metadata.hdf5_version = from.at("hdf5_version").get<std::string>();
  return metadata;
}

json encode_variable(const StoredVariable& variable) {
  return {{"name", variable.name},
          {"distribution", name_of(kDistributionNames, variable.distribution)},
          {"class", name_of(kClassNames, variable.type.element_class)},
          {"size_bytes", variable.type.size_bytes},
          {"shape", variable.shape},
          {"file_offset", variable.file_offset},
          {"piece_dimensions", variable.piece_dimensions}};
}

StoredVariable decode_variable(const json& from) {
  StoredVariable variable;
  variable.name = from.at("name").get<std::string>();
  variable.distribution = named<state::Distribution>(kDistributionNames, from.at("distribution"));
  variable.type.element_class = named<ElementClass>(kClassNames, from.at("class"));
  variable.type.size_bytes = integer<std::uint32_t>(from.at("size_bytes"));
  for (const json& length : from.at("shape")) {
    variable.shape.push_back(integer<std::uint64_t>(length));
  }
  variable.file_offset = integer<std::uint64_t>(from.at("file_offset"));
  variable.piece_dimensions = integer<std::uint64_t>(from.at("piece_dimensions"));
  return variable;
}

std::vector<std::uint64_t> words_of(const Bytes& bytes) {
  if (bytes.size() % sizeof(std::uint64_t) != 0) {
    throw CorruptError("a table is cut short");
  }
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  if (!words.empty()) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
  }
  return words;
}

std::string quoted(const StoredVariable& variable) { return "variable '" + variable.name + "'"; }

void require(bool condition, const char* what) {
  if (!condition) {
    throw CorruptError(what);
  }
}

/// There can be very many variables: the text is put together only if it is needed.
void require(bool condition, const StoredVariable& variable, const char* what) {
  if (!condition) {
    throw CorruptError(quoted(variable) + ": " + what);
  }
}

/// The widths that a file can hold; others would let readers look past the end of an element.
bool is_possible(ElementType type) {
  const auto any_of = [&](std::initializer_list<std::uint32_t> sizes) {
    return std::find(sizes.begin(), sizes.end(), type.size_bytes) != sizes.end();
  };
  switch (type.element_class) {
    case ElementClass::text:
      return type.size_bytes == 1;
    case ElementClass::boolean:
    case ElementClass::signed_integer:
    case ElementClass::unsigned_integer:
      return any_of({1, 2, 4, 8});
    case ElementClass::floating:
      return any_of({2, sizeof(float), sizeof(double), sizeof(long double)});
    case ElementClass::complex:
      return any_of({2 * sizeof(float), 2 * sizeof(double), 2 * sizeof(long double)});
    case ElementClass::opaque:
      return type.size_bytes > 0;
  }
  return false;
}

/// The rules for names hold for files too: tools print names, and build paths from them.
void check_stored_name(const std::string& name) {
  try {
    state::check_name(name);
  } catch (const UsageError& error) {
    throw CorruptError(error.what());
  }
}

/// Shape and place of a dataset, and the order of names.
void check_variable(const FileIndex& index, std::size_t i) {
  const StoredVariable& variable = index.variables[i];
  check_stored_name(variable.name);
  const bool per_rank = variable.distribution == state::Distribution::per_rank;
  std::uint64_t bytes = 0;
  require(i == 0 || index.variables[i - 1].name < variable.name, variable, "not in the order of names");
  require(variable.type.size_bytes > 0, variable, "element size 0");
  if (!is_possible(variable.type)) {
    throw CorruptError(quoted(variable) + ": impossible element type of " + std::to_string(variable.type.size_bytes) +
                       " bytes");
  }
  require(checked_bytes(variable.shape, variable.type.size_bytes, bytes), variable, "impossible shape");
  require(variable.file_offset <= index.file_size && bytes <= index.file_size - variable.file_offset, variable,
          "lies outside of the file");
  require(!per_rank || variable.shape.size() == 1, variable, "a per-rank dataset must have one dimension");
  require(variable.shape.size() <= index.boxes.dimensions() && variable.piece_dimensions <= index.boxes.dimensions(),
          variable, "more dimensions than the table of boxes");
}

/// One row: who wrote it, and that it lies inside of its dataset. Returns its number of blocks.
std::uint64_t check_row(const FileIndex& index, const StoredVariable& variable, const BoxRow& row) {
  std::uint64_t bytes = 0;
  require(row.rank < static_cast<std::uint64_t>(index.metadata.world_size), variable, "written by an impossible rank");
  require(checked_bytes(row.extent, variable.type.size_bytes, bytes), variable, "impossible box");
  const Box box = FileIndex::dataset_box(variable, row);
  for (std::size_t d = 0; d < box.extent.size(); ++d) {
    require(box.extent[d] <= variable.shape[d] && box.offset[d] <= variable.shape[d] - box.extent[d], variable,
            "a box is not inside of its dataset");
  }
  return BlockSplit(box, variable.type.size_bytes).count();
}

/// Assigns the rows to the variables and checks them all.
void check_boxes(FileIndex& index) {
  std::size_t next = 0;
  std::uint64_t checksums = 0;
  for (std::size_t v = 0; v < index.variables.size(); ++v) {
    StoredVariable& variable = index.variables[v];
    const bool per_rank = variable.distribution == state::Distribution::per_rank;
    variable.first_box = next;
    std::uint64_t elements = 0;
    for (; next < index.boxes.size() && index.boxes.variable_of(next) == v; ++next) {
      const std::size_t box = variable.box_count++;
      const BoxRow row = index.row(variable, box);
      require(!per_rank || row.rank == box, variable, "the ranks are not in order");
      require(row.first_checksum == checksums, variable, "wrong place in the checksums");
      require(index.boxes.padded_with_zeros(next, variable.shape.size(), FileIndex::row_dimensions(variable)), variable,
              "a box with more dimensions than the variable");
      checksums += check_row(index, variable, row);
      require(!per_rank || row.offset[0] == elements, variable, "a gap between two ranks");
      elements += volume(row.extent);
      require(checksums <= index.checksums.size(), "there are fewer checksums than blocks");
    }
    require(!per_rank || variable.box_count == static_cast<std::size_t>(index.metadata.world_size), variable,
            "not one value for each rank");
    require(variable.distribution != state::Distribution::replicated || variable.box_count == 1, variable,
            "not one value");
  }
  require(next == index.boxes.size(), "the table of boxes is not in the order of variables");
  require(checksums == index.checksums.size(), "there are more checksums than blocks");
}

/// No byte of the file belongs to two things: the seal, the tables, the variables.
void check_apart(const FileIndex& index, std::span<const Region> tables) {
  struct Owner {
    Region region;
    const char* name;
    const StoredVariable* variable = nullptr;
  };
  const auto owner_name = [](const Owner& owner) {
    return owner.variable != nullptr ? quoted(*owner.variable) : owner.name;
  };
  std::vector<Owner> owners{{{0, kSealBytes}, "the seal"}};
  for (const Region& table : tables) {
    require(table.offset <= index.file_size && table.size <= index.file_size - table.offset,
            "a table lies outside of the file");
    owners.push_back({table, "a table"});
  }
  for (const StoredVariable& variable : index.variables) {
    owners.push_back({{variable.file_offset, variable.bytes()}, "", &variable});
  }
  std::erase_if(owners, [](const Owner& owner) { return owner.region.size == 0; });
  std::sort(owners.begin(), owners.end(),
            [](const Owner& a, const Owner& b) { return a.region.offset < b.region.offset; });
  for (std::size_t i = 1; i < owners.size(); ++i) {
    const Owner& before = owners[i - 1];
    if (before.region.offset + before.region.size > owners[i].region.offset) {
      throw CorruptError(owner_name(before) + " and " + owner_name(owners[i]) + " share bytes of the file");
    }
  }
}

FileIndex parse(const IndexBytes& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.manifest.data()), bytes.manifest.size());
  require(!core::nested_too_deep(text), "the manifest is nested too deep");
  const json manifest = json::parse(text);
  FileIndex index;
  index.file_size = bytes.file_size;
  index.metadata = decode_metadata(manifest);
  require(index.metadata.world_size > 0, "written by no ranks");
  for (const json& variable : manifest.at("variables")) {
    index.variables.push_back(decode_variable(variable));
  }
  const auto dimensions = integer<std::uint64_t>(manifest.at("box_dimensions"));
  require(dimensions > 0 && dimensions <= bytes.boxes.size() + 1, "impossible number of dimensions");
  index.boxes = BoxTable(static_cast<std::size_t>(dimensions), words_of(bytes.boxes));
  require(index.boxes.words().size() == index.boxes.size() * index.boxes.row_words(), "a table is cut short");
  index.checksums = words_of(bytes.checksums);
  for (std::size_t i = 0; i < index.variables.size(); ++i) {
    check_variable(index, i);
  }
  check_boxes(index);
  check_apart(index, bytes.regions);
  return index;
}

}  // namespace

std::string encode_variables(const FileIndex& index) {
  json variables = json::array();
  for (const StoredVariable& variable : index.variables) {
    variables.push_back(encode_variable(variable));
  }
  return variables.dump();
}

std::string encode_manifest(const FileIndex& index, const std::string& variables) {
  json manifest = encode_metadata(index.metadata);
  manifest["box_dimensions"] = index.boxes.dimensions();
  // Names are UTF-8 (checked when they are collected); the free text of a notice need not be.
  std::string text = manifest.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();  // the closing brace
  return text + R"(,"variables":)" + variables + "}";
}

FileIndex parse_index(const IndexBytes& bytes, const std::string& file_name) {
  try {
    return parse(bytes);
  } catch (const json::exception& error) {
    throw CorruptError(file_name + " has an impossible manifest: " + error.what());
  } catch (const CorruptError& error) {
    throw CorruptError(file_name + " contradicts itself: " + error.what());
  }
}

void check_boxes_apart(const FileIndex& index, const std::string& file_name) {
  for (const StoredVariable& variable : index.variables) {
    if (variable.distribution != state::Distribution::distributed) {
      continue;
    }
    std::vector<Box> boxes;
    boxes.reserve(variable.box_count);
    for (std::size_t b = 0; b < variable.box_count; ++b) {
      const BoxRow row = index.row(variable, b);
      boxes.push_back({row.offset, row.extent});
    }
    if (const auto overlap = find_overlap(boxes); !overlap.empty()) {
      throw CorruptError(file_name + " contradicts itself: variable '" + variable.name + "': the boxes " +
                         text_of(boxes[overlap[0]]) + " and " + text_of(boxes[overlap[1]]) + " overlap");
    }
  }
}

}  // namespace reprieve::storage
