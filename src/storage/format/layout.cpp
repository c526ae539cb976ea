// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/layout.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "core/log.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/dataset.hpp"
#include "storage/format/shared_copies.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;
using ByRank = std::vector<std::vector<Description>>;

/// Differences between ranks, a line each. Beyond a few, more lines say nothing new.
class RankDifferences {
 public:
  void add(const std::string& name, std::size_t rank, const std::string& what) {
    if (++count_ <= kShown) {
      text_ += "\n  variable '" + name + "': rank " + std::to_string(rank) + " " + what;
    }
  }
  void throw_if_any() const {
    if (count_ > 0) {
      throw MismatchError("the ranks registered different variables:" + text_ +
                          (count_ > kShown ? "\n  and " + std::to_string(count_ - kShown) + " more" : ""));
    }
  }

 private:
  static constexpr std::size_t kShown = 50;
  std::size_t count_ = 0;
  std::string text_;
};

/// Variables are compared by name first, so that one missing variable does not shift all that follow it.
std::set<std::string> all_names(const ByRank& by_rank) {
  std::set<std::string> names;
  for (const auto& descriptions : by_rank) {
    for (const Description& description : descriptions) {
      names.insert(description.name);
    }
  }
  return names;
}

const Description* find(const std::vector<Description>& descriptions, const std::string& name) {
  const auto found = std::ranges::lower_bound(descriptions, name, {}, &Description::name);
  return found != descriptions.end() && found->name == name ? &*found : nullptr;
}

bool same_names(const std::vector<Description>& a, const std::vector<Description>& b) {
  return std::ranges::equal(a, b, {}, &Description::name, &Description::name);
}

void check_same_names(const ByRank& by_rank) {
  const auto matches = [&](const auto& descriptions) { return same_names(by_rank.front(), descriptions); };
  if (std::ranges::all_of(by_rank, matches)) {
    return;
  }
  RankDifferences differences;
  for (const std::string& name : all_names(by_rank)) {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (find(by_rank[rank], name) == nullptr) {
        differences.add(name, rank, "did not register it, other ranks did");
      }
    }
  }
  differences.throw_if_any();
}

std::string annotation_text(const Annotation& annotation) {
  std::string text = "units '" + annotation.units + "', description '" + annotation.description + "', dimensions";
  for (const std::string& dim : annotation.dims) {
    text += " '" + dim + "'";
  }
  return annotation.dims.empty() ? text + " without names" : text;
}

/// The first difference, in words; empty if there is none.
std::string difference_of(const Description& of_rank_0, const Description& other) {
  if (other.distribution != of_rank_0.distribution) {
    return fmt::format("registered it as {}, rank 0 as {}", state::to_string(other.distribution),
                       state::to_string(of_rank_0.distribution));
  }
  if (other.is_shared != of_rank_0.is_shared) {
    return fmt::format("{} shared elements, rank 0 did{} (allow_shared)", other.is_shared ? "allowed" : "did not allow",
                       of_rank_0.is_shared ? "" : " not");
  }
  if (other.type != of_rank_0.type) {
    return fmt::format("has elements of type {}, rank 0 of {}", to_string(other.type), to_string(of_rank_0.type));
  }
  const bool is_per_rank = of_rank_0.distribution == Distribution::per_rank;
  if (is_per_rank && other.shape.size() != of_rank_0.shape.size()) {
    return fmt::format("has {} dimensions, rank 0 has {}", other.shape.size(), of_rank_0.shape.size());
  }
  if (const std::string members = members_difference(other.members, of_rank_0.members, "rank 0"); !members.empty()) {
    return "has elements with other members: " + members;
  }
  if (other.annotation != of_rank_0.annotation) {
    return fmt::format("annotated it with {}, rank 0 with {}", annotation_text(other.annotation),
                       annotation_text(of_rank_0.annotation));
  }
  return is_per_rank || other.shape == of_rank_0.shape
             ? ""
             : fmt::format("has the shape {}, rank 0 has {}", core::list_text(other.shape),
                           core::list_text(of_rank_0.shape));
}

void check_same_kinds(const ByRank& by_rank) {
  RankDifferences differences;
  const auto& of_rank_0 = by_rank.front();
  for (std::size_t v = 0; v < of_rank_0.size(); ++v) {
    for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
      if (const std::string difference = difference_of(of_rank_0[v], by_rank[rank][v]); !difference.empty()) {
        differences.add(of_rank_0[v].name, rank, difference);
      }
    }
  }
  differences.throw_if_any();
}

/// Only of the texts of all ranks an array can be made. Of a replicated value rank 0's are written.
void compare_texts(ByRank& by_rank) {
  for (std::size_t v = 0; v < by_rank.front().size(); ++v) {
    const Description& of_rank_0 = by_rank.front()[v];
    const bool are_replicated = of_rank_0.distribution == Distribution::replicated;
    const bool have_all =
        std::ranges::all_of(by_rank, [&](const auto& of_rank) { return of_rank[v].texts.has_value(); });
    for (auto& of_rank : by_rank) {
      of_rank[v].texts = are_replicated ? of_rank_0.texts : have_all ? of_rank[v].texts : std::nullopt;
    }
  }
}

std::size_t box_dimensions(const Gathered& all) {
  std::size_t dimensions = 1;
  for (const GatheredVariable& variable : all.variables) {
    dimensions = std::max(dimensions, variable.of_rank_0.shape.size());
  }
  return dimensions;
}

/// What the boxes of all ranks make together: whether any two overlap, and which chunks fit them. Many variables often
/// lie on one grid: what was checked once is not checked again.
class Grids {
 public:
  explicit Grids(Chunking chunking) : chunking_(chunking) {}

  /// @param variable  outlives this; @throws UsageError if boxes overlap
  Extents chunk_of(const GatheredVariable& variable) {
    const std::uint64_t digest = xxh3(std::as_bytes(std::span(variable.numbers)));
    const auto [first, last] = known_.equal_range(digest);
    const auto found = std::find_if(first, last, [&](const auto& known) {
      const GatheredVariable& other = *known.second.variable;
      return other.numbers == variable.numbers && other.of_rank_0.shape == variable.of_rank_0.shape &&
             other.of_rank_0.type.size_bytes == variable.of_rank_0.type.size_bytes;
    });
    if (found != last) {
      return found->second.chunk;
    }
    const std::vector<Box> boxes = variable.boxes();
    check_apart(variable, boxes);
    return known_.emplace(digest, Known{&variable, chosen(variable.of_rank_0, boxes)})->second.chunk;
  }

  /// What neighbours share is not compressed.
  [[nodiscard]] bool may_be_compressed(const VariableFacts& variable) const {
    return chunking_ == Chunking::compressed && !variable.is_shared && !variable.is_copy;
  }

  Extents chunk_of_parts(const VariableFacts& variable, const PartsOfBoxes& parts) const {
    std::vector<Box> boxes;
    for (const auto& of_box : parts) {
      boxes.insert(boxes.end(), of_box.begin(), of_box.end());
    }
    return chosen(variable, boxes);
  }

  /// For these boxes.
  [[nodiscard]] Extents chosen(const VariableFacts& variable, std::span<const Box> boxes) const {
    if (chunking_ == Chunking::none) {
      return {};
    }
    return may_be_compressed(variable) ? choose_compressed_chunk(variable.shape, variable.type.size_bytes, boxes)
                                       : choose_chunk(variable.shape, variable.type.size_bytes, boxes);
  }

 private:
  struct Known {
    const GatheredVariable* variable;
    Extents chunk;
  };

  static void check_apart(const GatheredVariable& variable, const std::vector<Box>& boxes) {
    const auto overlap = find_overlap(boxes);
    if (!overlap.empty()) {
      const Box& a = boxes[overlap[0]];
      const Box& b = boxes[overlap[1]];
      std::vector<std::size_t> ranks;
      variable.for_each_box([&](std::size_t rank, auto&&...) { ranks.push_back(rank); });
      throw UsageError(
          "variable '" + variable.of_rank_0.name + "': the boxes " + text_of(a) + " of rank " +
          std::to_string(ranks[overlap[0]]) + " and " + text_of(b) + " of rank " + std::to_string(ranks[overlap[1]]) +
          " overlap in " + text_of(intersection(a, b)) +
          "; correct the offsets, or, if each has a copy of its own of these elements (nodes on a border), "
          "call allow_shared(\"" +
          variable.of_rank_0.name + "\") (Python: distributed(..., shared=True))");
    }
  }

  Chunking chunking_;
  std::unordered_multimap<std::uint64_t, Known> known_;
};

/// How many rows there will be, but for those of shared variables.
std::size_t row_count(const Gathered& all) {
  std::size_t rows = 0;
  for (const GatheredVariable& variable : all.variables) {
    if (variable.of_rank_0.distribution == Distribution::replicated) {
      ++rows;
    } else if (variable.of_rank_0.distribution == Distribution::per_rank) {
      rows += all.ranks;
    } else {
      rows += (variable.numbers.size() - all.ranks) / (2 * std::max<std::size_t>(variable.of_rank_0.shape.size(), 1));
    }
  }
  return rows;
}

/// Adds the rows of one variable after the other.
class Planner {
 public:
  /// @param parts  of the boxes of shared variables
  Planner(const Gathered& all, const std::vector<PartsOfBoxes>& parts, Chunking chunking, FileIndex& index)
      : all_(all), parts_(parts), index_(index), grids_(chunking), rows_(box_dimensions(all)) {
    rows_.reserve(row_count(all));
  }

  void add(std::size_t v) {
    const GatheredVariable& gathered = all_.variables[v];
    StoredVariable& variable = index_.variables.emplace_back();
    variable.facts() = gathered.of_rank_0.facts();
    variable.first_box = rows_.size();
    if (variable.distribution == Distribution::replicated) {
      add_row(variable, 0, Extents(variable.shape.size(), 0), variable.shape);
    } else if (variable.distribution == Distribution::per_rank) {
      add_pieces(variable, gathered.numbers);
    } else if (variable.is_shared) {
      add_parts(variable, gathered, parts_[v]);
    } else {
      add_boxes(variable, gathered);
    }
  }

  /// The tables, when all variables are added.
  void finish() {
    index_.boxes = rows_.take();
    const std::vector<std::uint64_t> words(static_cast<std::size_t>(checksums_));
    index_.checksums = SharedWords(words);
    index_.compressed_sizes = index_.may_be_compressed() ? SharedWords(words) : SharedWords();
  }

 private:
  using Numbers = std::span<const std::uint64_t>;

  void add_row(StoredVariable& variable, std::size_t rank, Numbers offset, Numbers extent) {
    const BoxRow row{index_.variables.size() - 1, rank, checksums_, offset, extent};
    rows_.add(row);
    ++variable.box_count;
    checksums_ += FileIndex::block_count(variable, row);
  }

  /// The numbers are the shapes of the ranks' values.
  void add_pieces(StoredVariable& variable, Numbers numbers) {
    std::uint64_t elements = 0;
    variable.piece_dimensions = variable.shape.size();
    const auto shape_of = [&](std::size_t rank) {
      return numbers.subspan(rank * variable.piece_dimensions, variable.piece_dimensions);
    };
    std::vector<Box> boxes;
    for (std::size_t rank = 0; rank < all_.ranks; ++rank) {
      boxes.push_back({{elements}, {volume(shape_of(rank))}});
      elements += boxes.back().extent[0];
    }
    variable.shape = {elements};
    if (grids_.may_be_compressed(variable)) {
      variable.chunk = grids_.chosen(variable, boxes);
      variable.compressed = !variable.chunk.empty();
    }
    for (std::size_t rank = 0; rank < all_.ranks; ++rank) {
      add_row(variable, rank, boxes[rank].offset, shape_of(rank));
    }
  }

  void add_parts(StoredVariable& variable, const GatheredVariable& gathered, const PartsOfBoxes& parts) {
    variable.chunk = grids_.chunk_of_parts(variable, parts);
    auto next = parts.begin();
    gathered.for_each_box([&](std::size_t rank, Numbers, Numbers) {
      for (const Box& part : *next++) {
        add_row(variable, rank, part.offset, part.extent);
      }
    });
  }

  void add_boxes(StoredVariable& variable, const GatheredVariable& gathered) {
    variable.chunk = grids_.chunk_of(gathered);
    variable.compressed = !variable.chunk.empty() && grids_.may_be_compressed(variable);
    gathered.for_each_box(
        [&](std::size_t rank, Numbers offset, Numbers extent) { add_row(variable, rank, offset, extent); });
  }

  const Gathered& all_;
  const std::vector<PartsOfBoxes>& parts_;
  FileIndex& index_;
  Grids grids_;
  BoxTableBuilder rows_;
  std::uint64_t checksums_ = 0;
};

FileIndex plan_gathered(Gathered all, const FileMetadata& metadata, Chunking chunking) {
  const std::vector<PartsOfBoxes> parts = part_shared(all);
  arrange_texts(all);
  FileIndex index;
  index.metadata = metadata;
  index.metadata.world_size = static_cast<int>(all.ranks);
  index.variables.reserve(all.variables.size());
  Planner planner(all, parts, chunking, index);
  for (std::size_t v = 0; v < all.variables.size(); ++v) {
    planner.add(v);
  }
  index.metadata.format_version = index.format_version();
  planner.finish();
  return index;
}

/// A rank has parts of chunks, or chunks, that are too small.
bool has_small_parts(const FileIndex& index, const StoredVariable& variable) {
  const Dataset dataset = variable.dataset();
  if (volume(dataset.chunk) * dataset.element_size < kLeastOwnChunkBytes) {
    return true;
  }
  for (std::size_t b = 0; b < variable.box_count; ++b) {
    const BoxRow row = index.row(variable, b);
    if (is_whole_chunks(dataset.shape, dataset.chunk, row.offset, row.extent)) {
      continue;  // which is how most boxes are
    }
    const std::vector<ChunkPart> parts = chunk_parts(dataset, FileIndex::dataset_box(variable, index.row(variable, b)));
    if (std::ranges::any_of(parts, [&](const ChunkPart& part) {
          return !part.is_all && run_length(part.within, dataset.chunk) * dataset.element_size < kLeastDirectBytes;
        })) {
      return true;
    }
  }
  return false;
}

bool has_short_rows(const FileIndex& index, const StoredVariable& variable) {
  std::span<const std::uint64_t> before;
  for (std::size_t b = 0; b < variable.box_count; ++b) {
    const BoxRow row = index.row(variable, b);
    if (std::ranges::equal(row.extent, before)) {
      continue;  // of a box of the same extent it is known
    }
    before = row.extent;
    const Box box = FileIndex::dataset_box(variable, index.row(variable, b));
    if (run_length(box, variable.shape) * variable.type.size_bytes < kLeastDirectBytes) {
      return true;
    }
  }
  return false;
}

bool is_scattered(const FileIndex& index, const StoredVariable& variable) {
  return variable.chunk.empty() ? has_short_rows(index, variable) : has_small_parts(index, variable);
}

Bytes encode_common(const FileIndex& index) {
  Encoder message;
  message.put(index.state_bytes());
  for (const StoredVariable& variable : index.variables) {
    message.put(variable.dataset());
    message.put(is_scattered(index, variable));
  }
  return message.take();
}

Bytes encode_of_rank(const FileIndex& index, std::size_t rank) {
  Encoder message;
  for (const StoredVariable& variable : index.variables) {
    if (variable.distribution == Distribution::per_rank) {
      message.put(index.row(variable, rank).offset[0]);
    }
    if (variable.is_shared) {
      message.put(parts_written_by(index, variable, rank));
    }
  }
  return message.take();
}

/// The group of a path, with a `/` at its end; empty for the uppermost one.
std::string group_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// The group above one that is not the uppermost.
std::string group_above(const std::string& group) { return group_of(group.substr(0, group.size() - 1)); }

/// Whether the dataset of a variable has the dimensions that its annotation names. Texts are single strings there, and
/// values of several dimensions of which every rank has its own lie one after the other.
bool shows_dimensions(const StoredVariable& variable) {
  return !variable.annotation->dims.empty() && variable.annotation->dims.size() == variable.shape.size() &&
         (variable.type != ElementType{ElementClass::text, 1} ||
          variable.distribution == state::Distribution::distributed);
}

class ScalePlanner {
 public:
  explicit ScalePlanner(const FileIndex& index) : index_(index) {}

  std::vector<DimensionScale> run() && {
    collect_taken();
    for (std::size_t v = 0; v < index_.variables.size(); ++v) {
      const StoredVariable& variable = index_.variables[v];
      if (shows_dimensions(variable)) {
        for (std::size_t d = 0; d < variable.shape.size(); ++d) {
          use(v, d);
        }
      }
    }
    std::vector<DimensionScale> scales;
    for (auto& [path, scale] : scales_) {
      scales.push_back(std::move(scale));
    }
    return scales;
  }

 private:
  /// All variables and all groups.
  void collect_taken() {
    for (const StoredVariable& variable : index_.variables) {
      taken_.insert(variable.name);
      for (std::string group = group_of(variable.name); !group.empty(); group = group_above(group)) {
        taken_.insert(group.substr(0, group.size() - 1));
      }
    }
  }

  void use(std::size_t v, std::size_t d) {
    const StoredVariable& variable = index_.variables[v];
    const std::string path = path_of(group_of(variable.name), variable.annotation->dims[d], variable.shape[d]);
    DimensionScale& scale = scales_[path];
    scale.path = path;
    scale.length = variable.shape[d];
    scale.is_variable = taken_.contains(path);
    if (path != variable.name) {  // no scale is on itself
      scale.uses.push_back({v, d});
    }
  }

  [[nodiscard]] std::string path_of(const std::string& group, const std::string& dim, std::uint64_t length) const {
    bool is_other = false;  // a dimension of that name and another length lies above
    for (std::string above = group;; above = group_above(above)) {
      if (const auto coordinates = length_of_coordinates(above, dim); coordinates == length) {
        return above + dim;
      } else if (coordinates) {
        is_other = true;
      }
      if (above.empty()) {
        break;
      }
    }
    std::string path = group + dim;
    if (is_other || !is_free(path, length)) {
      path += "_" + std::to_string(length);
    }
    while (!is_free(path, length)) {
      path += "_";
    }
    return path;
  }

  /// Of a variable that is one dimension's coordinates.
  [[nodiscard]] std::optional<std::uint64_t> length_of_coordinates(const std::string& group,
                                                                   const std::string& dim) const {
    const StoredVariable* const variable = index_.find(group + dim);
    if (variable == nullptr || variable->shape.size() != 1 || variable->type == ElementType{ElementClass::text, 1} ||
        variable->distribution == state::Distribution::per_rank) {
      return std::nullopt;
    }
    const auto& dims = variable->annotation->dims;
    return dims.empty() || dims.front() == dim ? std::optional(variable->shape.front()) : std::nullopt;
  }

  [[nodiscard]] bool is_free(const std::string& path, std::uint64_t length) const {
    const auto scale = scales_.find(path);
    return !taken_.contains(path) && (scale == scales_.end() || scale->second.length == length);
  }

  const FileIndex& index_;
  std::set<std::string> taken_;
  std::map<std::string, DimensionScale> scales_;
};

}  // namespace

FileIndex plan_file(std::vector<std::vector<Description>> by_rank, const FileMetadata& metadata, Chunking chunking) {
  check_same_names(by_rank);
  check_same_kinds(by_rank);
  compare_texts(by_rank);
  std::vector<DescriptionMessage> messages;
  messages.reserve(by_rank.size());
  for (const auto& descriptions : by_rank) {
    messages.push_back(encode_descriptions(descriptions));
  }
  return plan_gathered(gather_numbers(std::move(by_rank.front()), std::move(messages)), metadata, chunking);
}

FileIndex plan_file(std::vector<DescriptionMessage> messages, const FileMetadata& metadata, Chunking chunking) {
  if (messages.size() == 1 || messages.back().facts.empty()) {
    std::vector<Description> of_rank_0 = decode_descriptions(messages.front().facts, messages.front().numbers);
    Bytes().swap(messages.front().facts);
    Gathered all = gather_numbers(std::move(of_rank_0), std::move(messages));  // both are freed here
    return plan_gathered(std::move(all), metadata, chunking);
  }
  ByRank by_rank;
  by_rank.reserve(messages.size());
  for (const DescriptionMessage& message : messages) {
    by_rank.push_back(decode_descriptions(message.facts, message.numbers));
  }
  return plan_file(std::move(by_rank), metadata, chunking);
}

FileOffsets offsets_in(const FileIndex& index, int ranks) {
  FileOffsets offsets{encode_common(index), {}};
  offsets.of_ranks.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    offsets.of_ranks.push_back(encode_of_rank(index, static_cast<std::size_t>(rank)));
  }
  return offsets;
}

void place_checksums(FileIndex& index, const std::vector<Bytes>& by_rank) {
  std::vector<std::uint64_t> blocks(by_rank.size());  // of each rank
  const auto blocks_of_row = [&](std::size_t i) {
    const bool is_last = i + 1 == index.boxes.size();
    return (is_last ? index.checksums.size() : index.boxes.row(i + 1, 0, 0).first_checksum) -
           index.boxes.row(i, 0, 0).first_checksum;
  };
  for (std::size_t i = 0; i < index.boxes.size(); ++i) {
    blocks[static_cast<std::size_t>(index.boxes.rank_of(i))] += blocks_of_row(i);
  }
  constexpr std::size_t word = sizeof(std::uint64_t);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].size() < blocks[rank] * word) {
      throw Error(ErrorCode::internal, "rank " + std::to_string(rank) + " sent too few checksums");
    }
  }
  std::vector<std::uint64_t> checksums(index.checksums.size());
  std::vector<std::uint64_t> sizes(index.compressed_sizes.size());
  std::vector<std::uint64_t> taken(by_rank.size());
  for (std::size_t i = 0; i < index.boxes.size(); ++i) {
    const auto rank = static_cast<std::size_t>(index.boxes.rank_of(i));
    const auto take = [&](std::vector<std::uint64_t>& table, std::uint64_t before) {
      std::memcpy(table.data() + index.boxes.row(i, 0, 0).first_checksum, &by_rank[rank][before * word],
                  blocks_of_row(i) * word);
    };
    if (blocks_of_row(i) == 0) {
      continue;
    }
    take(checksums, taken[rank]);
    if (!sizes.empty() && by_rank[rank].size() == 2 * blocks[rank] * word) {
      take(sizes, blocks[rank] + taken[rank]);
    }
    taken[rank] += blocks_of_row(i);
  }
  index.checksums = SharedWords(std::move(checksums));
  index.compressed_sizes = SharedWords(std::move(sizes));
}

std::vector<DimensionScale> plan_scales(const FileIndex& index) { return ScalePlanner(index).run(); }

}  // namespace reprieve::storage
