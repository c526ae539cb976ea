// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/file_index.hpp"

#include <algorithm>

#include "storage/format/description.hpp"
#include "storage/format/manifest.hpp"

namespace reprieve::storage {

using nlohmann::json;

namespace {

/// Where those rows end that come first, of the rows from @p begin to before @p end; found by halving.
template <class ComesFirst>
std::size_t end_of(std::size_t begin, std::size_t end, const ComesFirst& comes_first) {
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (comes_first(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

using storage::require;

std::string quoted(const StoredVariable& variable) { return "variable '" + variable.name + "'"; }

/// There can be very many variables: the text is put together only if it is needed.
void require(bool condition, const StoredVariable& variable, const char* what) {
  if (!condition) {
    throw CorruptError(quoted(variable) + ": " + what);
  }
}

/// The widths that a file can hold; others would let readers look past the end of an element.
bool is_possible(ElementType type) {
  const auto any_of = [&](std::initializer_list<std::uint32_t> sizes) {
    return std::ranges::find(sizes, type.size_bytes) != sizes.end();
  };
  switch (type.element_class) {
    case ElementClass::boolean:
    case ElementClass::signed_integer:
    case ElementClass::unsigned_integer:
      return any_of({1, 2, 4, 8});
    case ElementClass::floating:
      return any_of({2, sizeof(float), sizeof(double), sizeof(long double)});
    case ElementClass::complex:
      return any_of({2 * sizeof(float), 2 * sizeof(double), 2 * sizeof(long double)});
    case ElementClass::opaque:
    case ElementClass::text:
      return type.size_bytes > 0;
  }
  return false;
}

/// The rules for what is registered hold for files too: tools print names, and build paths from them.
template <class Check>
void check_stored(const Check& check) {
  try {
    check();
  } catch (const UsageError& error) {
    throw CorruptError(error.what());
  }
}

bool has_possible_types(const Members& members) {
  return std::ranges::all_of(members, [](const Member& member) {
    return is_possible(member.type) && has_possible_types(member.members) &&
           (member.members.empty() || member.type.element_class == ElementClass::opaque);
  });
}

/// @param bytes  gets what the dataset takes, if it has chunks
void check_chunk(const StoredVariable& variable, std::uint64_t& bytes) {
  if (variable.chunk.empty()) {
    require(!variable.compressed, variable, "compressed without chunks");
    return;
  }
  require(variable.distribution == state::Distribution::distributed ||
              (variable.compressed && variable.distribution == state::Distribution::per_rank),
          variable, "chunks of what is not distributed");
  require(variable.chunk.size() == variable.shape.size() &&
              is_possible_chunk(variable.shape, variable.chunk, variable.type.size_bytes) &&
              storage::stored_bytes(variable.shape, variable.chunk, variable.type.size_bytes, bytes),
          variable, "impossible chunks");
  require(!variable.compressed || volume(variable.chunk) <= kMaxBlockBytes / variable.type.size_bytes, variable,
          "compressed chunks that are too large");
}

/// Shape and region of a dataset, and the order of names.
void check_variable(const FileIndex& index, std::size_t i) {
  const StoredVariable& variable = index.variables[i];
  check_stored([&] { state::check_name(variable.name); });
  const bool per_rank = variable.distribution == state::Distribution::per_rank;
  std::uint64_t bytes = 0;
  require(i == 0 || index.variables[i - 1].name < variable.name, variable, "not in the order of names");
  require(variable.type.size_bytes > 0, variable, "element size 0");
  if (!is_possible(variable.type)) {
    throw CorruptError(quoted(variable) + ": impossible element type of " + std::to_string(variable.type.size_bytes) +
                       " bytes");
  }
  require(checked_bytes(variable.shape, variable.type.size_bytes, bytes), variable, "impossible shape");
  check_chunk(variable, bytes);
  require(Region{variable.file_offset, bytes}.lies_before(index.file_size), variable, "lies outside of the file");
  require(!per_rank || variable.shape.size() == 1, variable, "a per-rank dataset must have one dimension");
  require(!variable.is_copy || (per_rank && variable.name.starts_with(std::string(state::kReservedPart) + "/")),
          variable, "said to stand beside a shared variable");
  require(variable.shape.size() <= index.boxes.dimensions() && variable.piece_dimensions <= index.boxes.dimensions(),
          variable, "more dimensions than the table of boxes");
  require(!is_text_array(variable) || variable.distribution != state::Distribution::distributed, variable,
          "texts that are distributed");
  require(!is_text_array(variable) || (per_rank ? variable.piece_dimensions <= 1 : variable.shape.size() == 1),
          variable, "texts of an impossible shape");
  check_stored([&] {
    state::check_members(variable.name, variable.members, variable.type);
    state::check_annotation(variable.name, variable.annotation);
    state::check_dimension_names(variable.name, variable.annotation, FileIndex::row_dimensions(variable));
  });
  require(has_possible_types(variable.members), variable, "a member of an impossible type");
}

/// One row: who wrote it, and that it lies inside of its dataset. Returns its number of blocks.
std::uint64_t check_row(const FileIndex& index, const StoredVariable& variable, const BoxRow& row) {
  std::uint64_t bytes = 0;
  require(row.rank < static_cast<std::uint64_t>(index.metadata.world_size), variable, "written by an impossible rank");
  require(checked_bytes(row.extent, variable.type.size_bytes, bytes), variable, "impossible box");
  const std::uint64_t elements = volume(row.extent);
  const bool is_piece = variable.distribution == state::Distribution::per_rank;
  const auto extent = is_piece ? std::span(&elements, 1) : row.extent;
  for (std::size_t d = 0; d < extent.size(); ++d) {
    require(extent[d] <= variable.shape[d] && row.offset[d] <= variable.shape[d] - extent[d], variable,
            "a box is not inside of its dataset");
  }
  // Every chunk has a block: what a forged file claims must not take memory.
  require(variable.chunk.empty() || chunk_count(variable.chunk, row.offset, row.extent) <= index.checksums.size(),
          variable, "there are fewer checksums than chunks");
  return FileIndex::block_count(variable, row);
}

constexpr const char* kNotInOrder = "the table of boxes is not in the order of variables";

void check_box_count(const FileIndex& index, const StoredVariable& variable) {
  const auto ranks = static_cast<std::size_t>(index.metadata.world_size);
  require(variable.distribution != state::Distribution::per_rank || variable.box_count == ranks, variable,
          "not one value for each rank");
  require(variable.distribution != state::Distribution::replicated || variable.box_count == 1, variable,
          "not one value");
}

/// Finds the rows of each variable, by halving.
void assign_rows(FileIndex& index) {
  std::size_t next = 0;
  for (std::size_t v = 0; v < index.variables.size(); ++v) {
    const auto is_before_end = [&](std::size_t row) { return index.boxes.variable_of(row) <= v; };
    index.variables[v].first_box = next;
    index.variables[v].box_count = end_of(next, index.boxes.size(), is_before_end) - next;
    next += index.variables[v].box_count;
    check_box_count(index, index.variables[v]);
  }
  require(next == index.boxes.size(), kNotInOrder);
}

/// Checks all rows, one after the other.
void check_rows(const FileIndex& index) {
  std::uint64_t checksums = 0;
  for (std::size_t v = 0; v < index.variables.size(); ++v) {
    const StoredVariable& variable = index.variables[v];
    const bool per_rank = variable.distribution == state::Distribution::per_rank;
    std::uint64_t elements = 0;
    std::uint64_t last_rank = 0;
    for (std::size_t box = 0; box < variable.box_count; ++box) {
      const std::size_t number = variable.first_box + box;
      require(index.boxes.variable_of(number) == v, kNotInOrder);
      const BoxRow row = index.row(variable, box);
      require(per_rank ? row.rank == box : row.rank >= last_rank, variable, "the ranks are not in order");
      last_rank = row.rank;
      require(row.first_checksum == checksums, variable, "wrong place in the checksums");
      require(index.boxes.padded_with_zeros(number, variable.shape.size(), FileIndex::row_dimensions(variable)),
              variable, "a box with more dimensions than the variable");
      checksums += check_row(index, variable, row);
      require(!per_rank || row.offset[0] == elements, variable, "a gap between two ranks");
      elements += volume(row.extent);
      require(checksums <= index.checksums.size(), "there are fewer checksums than blocks");
    }
  }
  require(checksums == index.checksums.size(), "there are more checksums than blocks");
}

/// No byte of the file belongs to two things: the commit record, the tables, the variables.
void check_apart(const FileIndex& index, const CommitRecord& commit_record) {
  struct Owner {
    Region region;
    const char* name;
    const StoredVariable* variable = nullptr;
  };
  const auto owner_name = [](const Owner& owner) {
    return owner.variable != nullptr ? quoted(*owner.variable) : owner.name;
  };
  std::vector<Owner> owners{{{0, kCommitRecordBytes}, "the commit record"}};
  for (const Region& table :
       {commit_record.manifest.region, commit_record.boxes.region, commit_record.checksums.region}) {
    require(table.lies_before(index.file_size), "a table lies outside of the file");
    owners.push_back({table, "a table"});
  }
  for (const StoredVariable& variable : index.variables) {
    owners.push_back({{variable.file_offset, variable.stored_bytes()}, "", &variable});
  }
  std::erase_if(owners, [](const Owner& owner) { return owner.region.size == 0; });
  std::ranges::sort(owners, {}, [](const Owner& owner) { return owner.region.offset; });
  for (std::size_t i = 1; i < owners.size(); ++i) {
    const Owner& before = owners[i - 1];
    if (before.region.offset + before.region.size > owners[i].region.offset) {
      throw CorruptError(owner_name(before) + " and " + owner_name(owners[i]) + " share bytes of the file");
    }
  }
}

FileIndex parse(const IndexBytes& bytes, Rows rows) {
  FileIndex index;
  const json fields = read_manifest(bytes.manifest, &index.variables);
  index.file_size = bytes.commit_record.file_size;
  index.metadata = decode_metadata(fields);
  const auto dimensions = integer<std::uint64_t>(fields.at("box_dimensions"));
  require(dimensions > 0 && dimensions <= state::kMostDimensions, "impossible number of dimensions");
  index.boxes = BoxTable(static_cast<std::size_t>(dimensions), bytes.boxes);
  require(index.boxes.words().size() == index.boxes.size() * index.boxes.row_words(), "a table is cut short");
  index.checksums = bytes.checksums;
  for (std::size_t i = 0; i < index.variables.size(); ++i) {
    check_variable(index, i);
  }
  require(index.metadata.format_version == index.format_version(), "another format version than its variables need");
  if (index.may_be_compressed()) {
    const std::size_t blocks = bytes.checksums.size() / 2;
    require(bytes.checksums.size() == 2 * blocks, "not one size for each checksum");
    index.checksums = bytes.checksums.part(0, blocks);
    index.compressed_sizes = bytes.checksums.part(blocks, blocks);
  }
  assign_rows(index);
  if (rows == Rows::unknown) {
    check_rows(index);
  }
  check_apart(index, bytes.commit_record);
  return index;
}

/// Says which file an error is about.
template <class Parse>
auto named_in_errors(const std::string& file_name, const Parse& parse_it) {
  try {
    return parse_it();
  } catch (const json::exception& error) {
    throw CorruptError(file_name + " has an impossible manifest: " + core::reason_of(error));
  } catch (const CorruptError& error) {
    throw CorruptError(file_name + " contradicts itself: " + error.what());
  }
}

/// A member as differences name it.
struct Flat {
  std::string name;
  std::string text;
};

/// Those of structs in structs after these: "position.x".
void flatten(const Members& members, const std::string& prefix, std::vector<Flat>& flat) {
  for (const Member& member : members) {
    flat.push_back({prefix + member.name, state::to_string(member)});
    flatten(member.members, prefix + member.name + ".", flat);
  }
}

const Flat* find(const std::vector<Flat>& flat, const std::string& name) {
  const auto found = std::ranges::find(flat, name, &Flat::name);
  return found == flat.end() ? nullptr : &*found;
}

/// In the type of the dataset and in the manifest.
std::uint64_t most_bytes(const Members& members) {
  constexpr std::uint64_t per_member = 512;
  return sum_of(members,
                [](const Member& member) { return per_member + 8 * member.name.size() + most_bytes(member.members); });
}

}  // namespace

void BoxTableBuilder::add(const BoxRow& row) {
  words_.insert(words_.end(), {row.variable, row.rank, row.first_checksum});
  for (const auto& numbers : {row.offset, row.extent}) {
    words_.insert(words_.end(), numbers.begin(), numbers.end());
    words_.insert(words_.end(), dimensions_ - numbers.size(), 0);
  }
}

BoxRow BoxTable::row(std::size_t index, std::size_t offsets, std::size_t extents) const {
  const auto words = words_.span().subspan(index * row_words(), row_words());
  return {words[0], words[1], words[2], words.subspan(kFixedWords, offsets),
          words.subspan(kFixedWords + dimensions_, extents)};
}

bool BoxTable::padded_with_zeros(std::size_t index, std::size_t offsets, std::size_t extents) const {
  const auto numbers = words_.span().subspan(index * row_words() + kFixedWords, 2 * dimensions_);
  const auto is_zero = [](std::uint64_t word) { return word == 0; };
  const auto unused_offsets = numbers.first(dimensions_).subspan(offsets);
  const auto unused_extents = numbers.last(dimensions_).subspan(extents);
  return std::ranges::all_of(unused_offsets, is_zero) && std::ranges::all_of(unused_extents, is_zero);
}

std::size_t FileIndex::row_dimensions(const StoredVariable& variable) {
  const bool per_rank = variable.distribution == state::Distribution::per_rank;
  return per_rank ? static_cast<std::size_t>(variable.piece_dimensions) : variable.shape.size();
}

BoxRow FileIndex::row(const StoredVariable& variable, std::size_t box) const& {
  return boxes.row(variable.first_box + box, variable.shape.size(), row_dimensions(variable));
}

RowRange FileIndex::rows_of(const StoredVariable& variable, std::uint64_t first, std::uint64_t end) const {
  const auto begin_of = [&](std::uint64_t rank) {
    const auto is_before = [&](std::size_t row) { return boxes.rank_of(row) < rank; };
    return end_of(variable.first_box, variable.first_box + variable.box_count, is_before) - variable.first_box;
  };
  return {begin_of(first), begin_of(end)};
}

/// Most boxes are smaller than a block.
std::uint64_t FileIndex::block_count(const StoredVariable& variable, const BoxRow& row) {
  const std::span<const std::uint64_t> extent = row.extent;
  const std::uint64_t chunks = chunk_count(variable.chunk, row.offset, extent);
  if (!variable.chunk.empty() && volume(variable.chunk) <= kMaxBlockBytes / variable.type.size_bytes) {
    return chunks;
  }
  if (chunks > 1) {
    return blocks_of(variable, row).count();
  }
  const std::uint64_t elements = volume(extent);
  if (elements <= kMaxBlockBytes / variable.type.size_bytes) {
    return elements > 0 ? 1 : 0;
  }
  return BlockSplit(dataset_box(variable, row), variable.type.size_bytes).count();
}

Box FileIndex::dataset_box(const StoredVariable& variable, const BoxRow& row) {
  const bool is_piece = variable.distribution == state::Distribution::per_rank;
  return {to_extents(row.offset), is_piece ? Extents{volume(row.extent)} : to_extents(row.extent)};
}

std::vector<Box> FileIndex::dataset_boxes(const StoredVariable& variable, RowRange rows) const {
  std::vector<Box> found;
  found.reserve(rows.end - rows.begin);
  for (std::size_t b = rows.begin; b < rows.end; ++b) {
    found.push_back(dataset_box(variable, row(variable, b)));
  }
  return found;
}

bool FileIndex::have_same_boxes(const StoredVariable& a, const StoredVariable& b) const {
  if (a.distribution != b.distribution || a.box_count != b.box_count || a.shape.size() != b.shape.size()) {
    return false;
  }
  for (std::size_t box = 0; box < a.box_count; ++box) {
    const BoxRow in_a = row(a, box);
    const BoxRow in_b = row(b, box);
    if (!std::ranges::equal(in_a.offset, in_b.offset) || !std::ranges::equal(in_a.extent, in_b.extent)) {
      return false;
    }
  }
  return true;
}

ChunkedSplit FileIndex::blocks_of(const StoredVariable& variable, const BoxRow& row) {
  return {variable.dataset(), dataset_box(variable, row)};
}

int FileIndex::format_version() const {
  if (may_be_compressed()) {
    return 3;
  }
  return std::ranges::any_of(variables, [](const StoredVariable& v) { return !v.chunk.empty(); }) ? 2 : 1;
}

bool FileIndex::may_be_compressed() const { return std::ranges::any_of(variables, &StoredVariable::compressed); }

const StoredVariable* FileIndex::find(const std::string& name) const {
  const auto found = std::ranges::lower_bound(variables, name, {}, &StoredVariable::name);
  return found != variables.end() && found->name == name ? &*found : nullptr;
}

std::uint64_t FileIndex::state_bytes() const { return sum_of(variables, &StoredVariable::bytes); }

std::vector<Region> gaps_between(std::vector<Region> taken, std::uint64_t begin, std::uint64_t end) {
  std::ranges::sort(taken, {}, &Region::offset);
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

FileIndex parse_index(const IndexBytes& bytes, const std::string& file_name, Rows rows) {
  return named_in_errors(file_name, [&] { return parse(bytes, rows); });
}

FileMetadata parse_metadata(std::span<const std::byte> manifest, const std::string& file_name) {
  return named_in_errors(file_name, [&] { return decode_metadata(read_manifest(manifest, nullptr)); });
}

void check_boxes_apart(const FileIndex& index, const std::string& file_name, int reader, int readers) {
  const StoredVariable* apart = nullptr;  // many variables often lie on one grid
  for (std::size_t v = static_cast<std::size_t>(reader); v < index.variables.size();
       v += static_cast<std::size_t>(readers)) {
    const StoredVariable& variable = index.variables[v];
    if (variable.distribution != state::Distribution::distributed ||
        (apart != nullptr && index.have_same_boxes(*apart, variable))) {
      continue;
    }
    const std::vector<Box> boxes = index.dataset_boxes(variable);
    if (const auto overlap = find_overlap(boxes); !overlap.empty()) {
      throw CorruptError(file_name + " contradicts itself: variable '" + variable.name + "': the boxes " +
                         text_of(boxes[overlap[0]]) + " and " + text_of(boxes[overlap[1]]) + " overlap");
    }
    apart = &variable;
  }
}

std::string members_difference(const Members& own, const Members& other, const std::string& others) {
  std::vector<Flat> mine;
  std::vector<Flat> theirs;
  flatten(own, "", mine);
  flatten(other, "", theirs);
  std::string text;
  const auto add = [&](const std::string& name, const std::string& what) {
    text += (text.empty() ? "" : ", ");
    text += "'" + name + "' " + what;
  };
  for (const Flat& member : mine) {
    const Flat* const same = find(theirs, member.name);
    if (same == nullptr) {
      add(member.name, member.text + " (" + others + ": none)");
    } else if (same->text != member.text) {
      add(member.name, member.text + " (" + others + ": " + same->text + ")");
    }
  }
  for (const Flat& member : theirs) {
    if (find(mine, member.name) == nullptr) {
      add(member.name, "none (" + others + ": " + member.text + ")");
    }
  }
  return text;
}

std::uint64_t most_member_bytes(const FileIndex& index) {
  return sum_of(index.variables, [](const StoredVariable& variable) { return most_bytes(variable.members); });
}

}  // namespace reprieve::storage
