#include "storage/format/layout.hpp"

#include <algorithm>
#include <set>

#include "core/text.hpp"
#include "storage/format/members.hpp"
#include "storage/format/shared_copies.hpp"
#include "storage/format/texts.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;
using ByRank = std::vector<std::vector<Description>>;

/// Differences between ranks, a line each. Beyond a few, more lines tell nothing new.
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
  const auto found = std::lower_bound(descriptions.begin(), descriptions.end(), name,
                                      [](const Description& d, const std::string& n) { return d.name < n; });
  return found != descriptions.end() && found->name == name ? &*found : nullptr;
}

bool same_names(const std::vector<Description>& a, const std::vector<Description>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Description& x, const Description& y) { return x.name == y.name; });
}

void check_same_names(const ByRank& by_rank) {
  const auto matches = [&](const auto& descriptions) { return same_names(by_rank.front(), descriptions); };
  if (std::all_of(by_rank.begin(), by_rank.end(), matches)) {
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

void compare(const Description& chief, const Description& other, std::size_t rank, RankDifferences& differences) {
  if (other.distribution != chief.distribution) {
    differences.add(chief.name, rank,
                    std::string("registered it as ") + state::to_string(other.distribution) + ", rank 0 as " +
                        state::to_string(chief.distribution));
  } else if (other.type != chief.type) {
    differences.add(chief.name, rank,
                    "has elements of type " + to_string(other.type) + ", rank 0 of " + to_string(chief.type));
  } else if (chief.distribution == Distribution::per_rank && other.shape.size() != chief.shape.size()) {
    differences.add(
        chief.name, rank,
        "has " + std::to_string(other.shape.size()) + " dimensions, rank 0 has " + std::to_string(chief.shape.size()));
  } else if (const std::string members = members_difference(other.members, chief.members, "rank 0"); !members.empty()) {
    differences.add(chief.name, rank, "has elements with other members: " + members);
  } else if (other.annotation != chief.annotation) {
    differences.add(chief.name, rank,
                    "annotated it with " + annotation_text(other.annotation) + ", rank 0 with " +
                        annotation_text(chief.annotation));
  } else if (chief.distribution != Distribution::per_rank && other.shape != chief.shape) {
    differences.add(chief.name, rank,
                    "has the shape " + core::list_text(other.shape) + ", rank 0 has " + core::list_text(chief.shape));
  }
}

void check_same_kinds(const ByRank& by_rank) {
  RankDifferences differences;
  const auto& chief = by_rank.front();
  for (std::size_t v = 0; v < chief.size(); ++v) {
    for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
      compare(chief[v], by_rank[rank][v], rank, differences);
    }
  }
  differences.throw_if_any();
}

std::size_t box_dimensions(const ByRank& by_rank) {
  std::size_t dimensions = 1;
  for (const Description& description : by_rank.front()) {
    dimensions = std::max(dimensions, description.shape.size());
  }
  return dimensions;
}

/// Adds the rows of one variable after the other.
class Planner {
 public:
  /// @param parts  of the boxes of shared variables
  Planner(const ByRank& by_rank, const std::vector<PartsOfBoxes>& parts, FileIndex& index)
      : by_rank_(by_rank), parts_(parts), index_(index) {}

  void add(std::size_t v) {
    const Description& chief = by_rank_.front()[v];
    StoredVariable& variable = index_.variables.emplace_back();
    variable.facts() = chief.facts();
    variable.first_box = index_.boxes.size();
    if (chief.distribution == Distribution::replicated) {
      add_row(variable, 0, Extents(chief.shape.size(), 0), chief.shape);
    } else if (chief.distribution == Distribution::per_rank) {
      add_pieces(variable, v);
    } else if (chief.is_shared) {
      add_parts(variable, v);
    } else {
      add_boxes(variable, v);
    }
  }

  [[nodiscard]] std::uint64_t checksums() const { return checksums_; }

 private:
  void add_row(StoredVariable& variable, std::size_t rank, const Extents& offset, const Extents& extent) {
    const BoxRow row{index_.variables.size() - 1, rank, checksums_, offset, extent};
    index_.boxes.add(row);
    ++variable.box_count;
    checksums_ += BlockSplit(FileIndex::dataset_box(variable, row), variable.type.size_bytes).count();
  }

  void add_pieces(StoredVariable& variable, std::size_t v) {
    std::uint64_t elements = 0;
    variable.piece_dimensions = variable.shape.size();
    variable.shape = {0};
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      const Extents& shape = by_rank_[rank][v].shape;
      add_row(variable, rank, {elements}, shape);
      elements += volume(shape);
    }
    variable.shape = {elements};
  }

  void add_parts(StoredVariable& variable, std::size_t v) {
    std::size_t box = 0;
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      for (std::size_t b = 0; b < by_rank_[rank][v].boxes.size(); ++b) {
        for (const Box& part : parts_[v][box++]) {
          add_row(variable, rank, part.offset, part.extent);
        }
      }
    }
  }

  void add_boxes(StoredVariable& variable, std::size_t v) {
    std::vector<Box> boxes;
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      for (const Box& box : by_rank_[rank][v].boxes) {
        boxes.push_back(box);
        ranks.push_back(rank);
        add_row(variable, rank, box.offset, box.extent);
      }
    }
    const auto overlap = find_overlap(boxes);
    if (!overlap.empty()) {
      const std::size_t a = overlap[0];
      const std::size_t b = overlap[1];
      throw UsageError("variable '" + variable.name + "': the boxes " + text_of(boxes[a]) + " of rank " +
                       std::to_string(ranks[a]) + " and " + text_of(boxes[b]) + " of rank " + std::to_string(ranks[b]) +
                       " overlap in " + text_of(intersection(boxes[a], boxes[b])) +
                       "; if each has a copy of its own of these elements, allow_shared says so");
    }
  }

  const ByRank& by_rank_;
  const std::vector<PartsOfBoxes>& parts_;
  FileIndex& index_;
  std::uint64_t checksums_ = 0;
};

}  // namespace

FileIndex plan_file(std::vector<std::vector<Description>> by_rank, const FileMetadata& metadata) {
  check_same_names(by_rank);
  check_same_kinds(by_rank);
  const std::vector<PartsOfBoxes> parts = part_shared(by_rank);
  arrange_texts(by_rank);
  FileIndex index;
  index.metadata = metadata;
  index.metadata.format_version = kFormatVersion;
  index.metadata.world_size = static_cast<int>(by_rank.size());
  index.boxes = BoxTable(box_dimensions(by_rank));
  index.variables.reserve(by_rank.front().size());
  Planner planner(by_rank, parts, index);
  for (std::size_t v = 0; v < by_rank.front().size(); ++v) {
    planner.add(v);
  }
  index.checksums.assign(static_cast<std::size_t>(planner.checksums()), 0);
  return index;
}

}  // namespace reprieve::storage
