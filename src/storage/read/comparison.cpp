// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read/comparison.hpp"

#include <algorithm>
#include <set>
#include <span>

#include "core/log.hpp"
#include "storage/format/description.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

std::string line_about(const std::string& name, const std::string& what) { return "variable '" + name + "': " + what; }

void add_line(std::vector<std::string>& lines, const std::string& name, const std::string& difference) {
  if (!difference.empty()) {
    lines.push_back(line_about(name, difference));
  }
}

std::string type_difference(ElementType registered, ElementType stored) {
  return registered == stored ? ""
                              : std::string(kRegisteredWith) + "elements of type " + to_string(registered) +
                                    ", stored with " + to_string(stored);
}

/// Texts fit an array of texts, whatever its elements' length.
std::string value_type_difference(const ValueAccess& value, const StoredVariable& stored) {
  const bool fits_texts = is_text_array(stored) && value.type() == type_in_memory(stored) &&
                          value.is_text_list() == is_list_of_texts(stored) && value.resizable();
  return fits_texts ? "" : type_difference(value.type(), stored.type);
}

std::string shape_difference(const Extents& registered, const Extents& stored) {
  return registered == stored ? ""
                              : std::string(kRegisteredWith) + "the shape " + core::list_text(registered) +
                                    ", stored with " + core::list_text(stored);
}

/// Where one side has no list of members, only the sizes of the elements are compared.
std::string stored_members_difference(const Members& registered, const Members& stored) {
  const bool are_known = !registered.empty() && !stored.empty();
  const std::string other = are_known ? members_difference(registered, stored, "stored") : "";
  return other.empty() ? "" : "registered with other members than are stored: " + other;
}

/// What has no units fits all.
std::string units_difference(const Annotation& registered, const Annotation& stored) {
  return registered.units.empty() || stored.units.empty() || registered.units == stored.units
             ? ""
             : "registered in units of '" + registered.units + "', stored in '" + stored.units +
                   "'; the numbers are restored as they are";
}

class FileComparison {
 public:
  FileComparison(const Checkpoint::Registry& registry, const FileIndex& index, int rank, int size)
      : registry_(registry), index_(index), rank_(rank), size_(size) {}

  [[nodiscard]] Comparison run() && {
    for (const auto& [name, variable] : registry_.variables) {
      compare(name, variable);
    }
    auto registered = registry_.variables.begin();
    for (const StoredVariable& stored : index_.variables) {
      while (registered != registry_.variables.end() && registered->first < stored.name) {
        ++registered;
      }
      const bool is_registered = registered != registry_.variables.end() && registered->first == stored.name;
      if (!stored.is_copy && !is_registered && !taken_over_.contains(stored.name)) {
        left_out(stored.name);
      }
    }
    return std::move(result_);
  }

 private:
  void compare(const std::string& name, const state::Variable& variable) {
    const StoredVariable* const stored = find(name, variable);
    if (stored == nullptr) {
      missing(name, variable);
      return;
    }
    add_line(result_.differences, name, difference(variable, *stored));
    add_line(result_.differences, name, stored_members_difference(variable.members, stored->members));
    add_line(result_.warnings, name, units_difference(variable.annotation, stored->annotation));
    auto& targets = variable.distribution == Distribution::distributed ? result_.arrays : result_.values;
    targets.push_back({&name, stored, &variable});
  }

  /// Under its present name, or under a former one that means nothing else today.
  const StoredVariable* find(const std::string& name, const state::Variable& variable) {
    // Both are in the order of names, and mostly the same.
    if (next_ < index_.variables.size() && index_.variables[next_].name == name) {
      return &index_.variables[next_++];
    }
    if (const StoredVariable* const stored = index_.find(name)) {
      next_ = static_cast<std::size_t>(stored - index_.variables.data()) + 1;
      return stored;
    }
    for (const std::string& former : variable.former_names) {
      const StoredVariable* const stored = index_.find(former);
      if (stored != nullptr && !registry_.variables.contains(former) && taken_over_.insert(former).second) {
        return stored;
      }
    }
    return nullptr;
  }

  void missing(const std::string& name, const state::Variable& variable) {
    if (variable.may_be_missing) {
      result_.remarks.push_back(line_about(name, "not in the checkpoint; stays as it is"));
    } else {
      result_.differences.push_back(line_about(name, std::string(kNotStored)));
    }
  }

  void left_out(const std::string& name) {
    if (registry_.may_drop(name)) {
      result_.remarks.push_back(line_about(name, "in the checkpoint, and dropped"));
    } else {
      result_.differences.push_back(line_about(name, std::string(kNotRegistered)));
    }
  }

  [[nodiscard]] std::string difference(const state::Variable& variable, const StoredVariable& stored) const {
    if (variable.distribution != stored.distribution) {
      return std::string(kRegisteredAs) + to_string(variable.distribution) + ", stored as " +
             to_string(stored.distribution);
    }
    switch (variable.distribution) {
      case Distribution::replicated:
        return value_difference(index_, stored, 0, *variable.value);
      case Distribution::per_rank:
        return per_rank_difference(variable, stored);
      case Distribution::distributed:
        break;
    }
    return "";
  }

  [[nodiscard]] std::string per_rank_difference(const state::Variable& variable, const StoredVariable& stored) const {
    if (index_.metadata.world_size == size_) {
      return value_difference(index_, stored, static_cast<std::size_t>(rank_), *variable.value);
    }
    if (std::string other = value_type_difference(*variable.value, stored); !other.empty()) {
      return other;
    }
    return variable.redistribute
               ? ""
               : "a per-rank variable saved by " + std::to_string(index_.metadata.world_size) +
                     " ranks cannot be restored on " + std::to_string(size_) + ' ' + std::string(kNoRedistribution);
  }

  const Checkpoint::Registry& registry_;
  const FileIndex& index_;
  int rank_;
  int size_;
  std::size_t next_ = 0;              ///< the stored variable behind the one that was found last
  std::set<std::string> taken_over_;  ///< stored names that registered variables were known by
  Comparison result_;
};

/// Elements of one item of a list.
std::uint64_t width_of(std::span<const std::uint64_t> shape) { return shape.size() == 2 ? shape[1] : 1; }

}  // namespace

Comparison compare_with_file(const Checkpoint::Registry& registry, const FileIndex& index, int rank, int size) {
  return FileComparison(registry, index, rank, size).run();
}

Differences compare_arrays(std::vector<RestoreTarget>& arrays, bool described_by_user) {
  const devices::Spaces spaces;
  Differences differences;
  run_for_all(arrays, [&](RestoreTarget& target) {
    if (target.variable->described_by_user != described_by_user) {
      if (const auto& declared = target.variable->declared; declared && !described_by_user) {
        add_line(differences, *target.name, array_difference(*target.stored, *declared));
      }
      return;
    }
    target.array = target.variable->describe();
    state::check_array(*target.name, target.array, spaces, target.variable->space.get());
    add_line(differences, *target.name, array_difference(*target.stored, target.array));
  });
  return differences;
}

std::string value_difference(const FileIndex& index, const StoredVariable& stored, std::size_t box,
                             const ValueAccess& value) {
  std::string other = value_type_difference(value, stored);
  if (!other.empty()) {
    return other;
  }
  const std::span<const std::uint64_t> extent = index.row(stored, box).extent;
  const bool may_be_made = value.resizable() && value.type() == ElementType{ElementClass::opaque, 1};
  if (may_be_made && extent.size() != 2) {
    return "";  // not to be asked for a shape: a function of the program may make it
  }
  const Extents shape = value.shape();
  if (value.resizable()) {
    return width_of(shape) == width_of(extent) ? "" : shape_difference(shape, to_extents(extent));
  }
  return std::ranges::equal(shape, extent) ? "" : shape_difference(shape, to_extents(extent));
}

std::string array_difference(const StoredVariable& stored, const DistributedArray& array) {
  const std::string other = type_difference(array.type, stored.type);
  return other.empty() ? shape_difference(array.global_shape, stored.shape) : other;
}

std::vector<std::string> ways_out(const Differences& differences, int saved_ranks) {
  const auto any = [&](std::string_view text) {
    return std::ranges::any_of(differences,
                               [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  std::vector<std::string> ways;
  if (any(kNotStored) && any(kNotRegistered)) {
    ways.emplace_back("a variable that has a new name: add_former_name(new name, old name)");
  }
  if (any(kNotStored)) {
    ways.emplace_back("a variable that is new in the program: allow_missing(name) leaves it as it is");
  }
  if (any(kNotRegistered)) {
    ways.emplace_back("a variable that the program no longer has: allow_dropped(name)");
  }
  if (any(kRegisteredWith) || any(kRegisteredAs)) {
    ways.emplace_back("a checkpoint of another input or program: start with that one, or use another directory");
  }
  if (any(kNoRedistribution)) {
    ways.push_back("start on " + std::to_string(saved_ranks) +
                   " ranks, or register per-rank variables with a redistribution function, for one in_order()");
  }
  return ways;
}

void throw_unless_fits(const std::string& name, const std::string& difference) {
  if (!difference.empty()) {
    throw MismatchError(line_about(name, difference));
  }
}

}  // namespace reprieve::storage
