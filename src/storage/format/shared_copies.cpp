// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/shared_copies.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

/// Cuts @p hole, which lies inside, out of @p box: what lies before it and behind it, dimension by dimension.
void cut_out(Box box, const Box& hole, std::vector<Box>& parts) {
  for (std::size_t d = 0; d < box.extent.size(); ++d) {
    const std::uint64_t before = hole.offset[d] - box.offset[d];
    const std::uint64_t behind = box.extent[d] - before - hole.extent[d];
    if (before > 0) {
      parts.push_back(box);
      parts.back().extent[d] = before;
    }
    if (behind > 0) {
      parts.push_back(box);
      parts.back().offset[d] = hole.offset[d] + hole.extent[d];
      parts.back().extent[d] = behind;
    }
    box.offset[d] = hole.offset[d];
    box.extent[d] = hole.extent[d];
  }
}

/// A part was cut from the first box that holds all of it: what earlier boxes hold belongs to them.
std::optional<std::size_t> owner_of(const BoxSearch& search, const std::vector<Box>& boxes, const Box& part) {
  for (const std::size_t box : search.intersecting(part)) {
    if (intersection(boxes[box], part) == part) {
      return box;
    }
  }
  return std::nullopt;
}

std::size_t position_of(const std::vector<LocalVariable>& variables, const std::string& name) {
  const auto found = std::ranges::find_if(variables, [&](const auto& v) { return v.description.name == name; });
  return static_cast<std::size_t>(found - variables.begin());
}

GatheredVariable& beside(Gathered& all, const std::string& name) {
  const auto found = std::ranges::find_if(
      all.variables, [&](const GatheredVariable& variable) { return variable.of_rank_0.name == name; });
  if (found == all.variables.end()) {
    throw Error(ErrorCode::internal, "nothing stands beside the shared variable: '" + name + "'");
  }
  return *found;
}

/// Lets a per-rank variable have this content.
void set_content(LocalVariable& variable, Extents shape, Bytes content) {
  variable.description.shape = std::move(shape);
  variable.content = std::move(content);
  const Extents& extent = variable.description.shape;
  variable.views = {
      {variable.content.data(), whole(extent), dense_strides(extent, variable.description.type.size_bytes)}};
}

LocalVariable per_rank(std::string name, ElementType type) {
  LocalVariable variable;
  variable.description.name = std::move(name);
  variable.description.distribution = Distribution::per_rank;
  variable.description.type = type;
  variable.description.is_copy = true;
  return variable;
}

}  // namespace

std::string copies_name(const std::string& name) { return std::string(state::kReservedPart) + "/" + name + "/values"; }
std::string boxes_name(const std::string& name) { return std::string(state::kReservedPart) + "/" + name + "/boxes"; }

Bytes words_of(const std::vector<Box>& boxes) {
  std::vector<std::uint64_t> words;
  for (const Box& box : boxes) {
    words.insert(words.end(), box.offset.begin(), box.offset.end());
    words.insert(words.end(), box.extent.begin(), box.extent.end());
  }
  Bytes bytes(words.size() * sizeof(std::uint64_t));
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), words.data(), bytes.size());
  }
  return bytes;
}

std::vector<Box> without(const Box& box, std::span<const Box> others) {
  std::vector<Box> parts{box};
  for (const Box& other : others) {
    std::vector<Box> left;
    for (const Box& part : parts) {
      const Box hole = intersection(part, other);
      if (volume(hole.extent) == 0) {
        left.push_back(part);
      } else {
        cut_out(part, hole, left);
      }
    }
    parts = std::move(left);
  }
  return parts;
}

PartsOfBoxes owned_parts(const std::vector<Box>& boxes) {
  const BoxSearch search(boxes);
  PartsOfBoxes parts;
  parts.reserve(boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    std::vector<Box> earlier;
    for (const std::size_t other : search.intersecting(boxes[i])) {
      if (other < i) {
        earlier.push_back(boxes[other]);
      }
    }
    parts.push_back(without(boxes[i], earlier));
  }
  return parts;
}

std::vector<Copy> copies_of(const std::vector<Box>& boxes, std::span<const Box> owned) {
  const BoxSearch search(boxes);
  std::vector<std::vector<Box>> owned_by(boxes.size());
  for (const Box& part : owned) {
    if (const auto box = owner_of(search, boxes, part)) {
      owned_by[*box].push_back(part);
    }
  }
  std::vector<Copy> copies;
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    for (Box& part : without(boxes[b], owned_by[b])) {
      copies.push_back({b, std::move(part)});
    }
  }
  return copies;
}

void add_copies(std::vector<LocalVariable>& variables) {
  std::vector<LocalVariable> added;
  for (const LocalVariable& variable : variables) {
    const Description& description = variable.description;
    if (description.is_shared) {
      LocalVariable& boxes = added.emplace_back(per_rank(boxes_name(description.name), kBoxWord));
      set_content(boxes, {description.boxes.size(), 2 * description.shape.size()}, words_of(description.boxes));
      set_content(added.emplace_back(per_rank(copies_name(description.name), description.type)), {0}, {});
    }
  }
  if (!added.empty()) {
    variables.insert(variables.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
    std::ranges::sort(variables, [](const auto& a, const auto& b) { return a.description.name < b.description.name; });
  }
}

std::vector<PartsOfBoxes> part_shared(Gathered& all) {
  std::vector<PartsOfBoxes> parts(all.variables.size());
  for (std::size_t v = 0; v < parts.size(); ++v) {
    const GatheredVariable& variable = all.variables[v];
    if (!variable.of_rank_0.is_shared) {
      continue;
    }
    parts[v] = owned_parts(variable.boxes());
    std::vector<std::uint64_t> copies(all.ranks, 0);
    auto part = parts[v].begin();
    variable.for_each_box([&](std::size_t rank, std::span<const std::uint64_t>, std::span<const std::uint64_t> extent) {
      copies[rank] += volume(extent) - sum_of(*part++, [](const Box& owned) { return volume(owned.extent); });
    });
    beside(all, copies_name(variable.of_rank_0.name)).numbers = std::move(copies);
  }
  return parts;
}

void split_shared(std::vector<LocalVariable>& variables, std::size_t shared, std::span<const Box> owned) {
  LocalVariable& variable = variables[shared];
  LocalVariable& copies = variables[position_of(variables, copies_name(variable.description.name))];
  const std::size_t element_size = variable.description.type.size_bytes;
  const std::vector<Box> boxes = boxes_of(variable.views);
  Bytes values;
  state::Staging staging;
  for (const Copy& copy : copies_of(boxes, owned)) {
    const auto& view = variable.views[copy.box];
    const std::size_t before = values.size();
    values.resize(before + bytes_of(copy.part, element_size));
    copy_from(view, view.data + displacement(view.box, view.strides_bytes, copy.part.offset), copy.part.extent,
              element_size, values.data() + before, dense_strides(copy.part.extent, element_size), staging);
  }
  const std::uint64_t elements = values.size() / element_size;
  set_content(copies, {elements}, std::move(values));
  const BoxSearch search(boxes);
  std::vector<BoxView<const std::byte>> parts;
  for (const Box& part : owned) {
    if (const auto box = owner_of(search, boxes, part)) {
      const auto& view = variable.views[*box];
      parts.push_back(
          {view.data + displacement(view.box, view.strides_bytes, part.offset), part, view.strides_bytes, view.space});
    }
  }
  variable.views = std::move(parts);
}

std::vector<Box> parts_written_by(const FileIndex& index, const StoredVariable& variable, std::uint64_t rank) {
  return index.dataset_boxes(variable, index.rows_of(variable, rank, rank + 1));
}

}  // namespace reprieve::storage
