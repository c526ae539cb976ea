#include "storage/comparison.hpp"

#include <set>

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

std::string line_about(const std::string& name, const std::string& what) { return "variable '" + name + "': " + what; }

std::string type_difference(ElementType registered, ElementType stored) {
  return registered == stored
             ? ""
             : "registered with elements of type " + to_string(registered) + ", stored with " + to_string(stored);
}

std::string shape_difference(const Extents& registered, const Extents& stored) {
  return registered == stored ? ""
                              : "registered with the shape " + text_of(registered) + ", stored with " + text_of(stored);
}

class FileComparison {
 public:
  FileComparison(const Checkpoint::Registry& registry, const FileIndex& index, int rank, int size)
      : registry_(registry), index_(index), rank_(rank), size_(size) {}

  [[nodiscard]] Comparison run() && {
    for (const auto& [name, variable] : registry_.variables) {
      compare(name, variable);
    }
    for (const StoredVariable& stored : index_.variables) {
      if (!registry_.variables.contains(stored.name) && !taken_over_.contains(stored.name)) {
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
    if (const std::string other = difference(variable, *stored); !other.empty()) {
      result_.differences.push_back(line_about(name, other));
    }
    auto& targets = variable.distribution == Distribution::distributed ? result_.arrays : result_.values;
    targets.push_back({name, stored, &variable});
  }

  /// Under its present name, or under a former one that means nothing else today.
  const StoredVariable* find(const std::string& name, const state::Variable& variable) {
    if (const StoredVariable* const stored = index_.find(name)) {
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
      result_.differences.push_back(line_about(name, "registered, but not in the checkpoint"));
    }
  }

  void left_out(const std::string& name) {
    if (registry_.may_drop(name)) {
      result_.remarks.push_back(line_about(name, "in the checkpoint, and dropped"));
    } else {
      result_.differences.push_back(line_about(name, "in the checkpoint, but not registered"));
    }
  }

  [[nodiscard]] std::string difference(const state::Variable& variable, const StoredVariable& stored) const {
    if (variable.distribution != stored.distribution) {
      return std::string("registered as ") + to_string(variable.distribution) + ", stored as " +
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
    if (std::string other = type_difference(variable.value->type(), stored.type); !other.empty()) {
      return other;
    }
    return variable.redistribute
               ? ""
               : "a per-rank variable saved by " + std::to_string(index_.metadata.world_size) +
                     " ranks cannot be restored on " + std::to_string(size_) + " without a redistribution function";
  }

  const Checkpoint::Registry& registry_;
  const FileIndex& index_;
  int rank_;
  int size_;
  std::set<std::string> taken_over_;  ///< stored names that registered variables were known by
  Comparison result_;
};

}  // namespace

Comparison compare_with_file(const Checkpoint::Registry& registry, const FileIndex& index, int rank, int size) {
  return FileComparison(registry, index, rank, size).run();
}

Differences compare_arrays(std::vector<RestoreTarget>& arrays) {
  Differences differences;
  for (RestoreTarget& target : arrays) {
    target.array = target.variable->describe();
    state::check_array(target.name, target.array);
    if (const std::string other = array_difference(*target.stored, target.array); !other.empty()) {
      differences.push_back(line_about(target.name, other));
    }
  }
  return differences;
}

std::string value_difference(const FileIndex& index, const StoredVariable& stored, std::size_t box,
                             const ValueAccess& value) {
  std::string other = type_difference(value.type(), stored.type);
  if (!other.empty() || value.resizable()) {
    return other;
  }
  return shape_difference(value.shape(), index.row(stored, box).extent);
}

std::string array_difference(const StoredVariable& stored, const DistributedArray& array) {
  const std::string other = type_difference(array.type, stored.type);
  return other.empty() ? shape_difference(array.global_shape, stored.shape) : other;
}

void throw_unless_fits(const std::string& name, const std::string& difference) {
  if (!difference.empty()) {
    throw MismatchError(line_about(name, difference));
  }
}

}  // namespace reprieve::storage
