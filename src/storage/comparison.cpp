#include "storage/comparison.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

/// The difference between one registered variable and the stored one, if there is any. Fills in the target's array.
class Fit {
 public:
  Fit(const FileIndex& index, int rank, int size) : index_(index), rank_(rank), size_(size) {}

  [[nodiscard]] std::string difference(const std::string& name, RestoreTarget& target) const {
    const StoredVariable& stored = *target.stored;
    const state::Variable& variable = *target.variable;
    if (variable.distribution != stored.distribution) {
      return std::string("registered as ") + to_string(variable.distribution) + ", stored as " +
             to_string(stored.distribution);
    }
    if (variable.distribution == Distribution::distributed) {
      target.array = variable.describe();
      state::check_array(name, target.array);
      const std::string other = type_difference(target.array.type, stored.type);
      return other.empty() ? shape_difference(target.array.global_shape, stored.shape) : other;
    }
    const std::string other = type_difference(variable.value->type(), stored.type);
    if (!other.empty()) {
      return other;
    }
    return variable.distribution == Distribution::replicated ? value_difference(variable, stored, 0)
                                                             : per_rank_difference(variable, stored);
  }

 private:
  static std::string type_difference(ElementType registered, ElementType stored) {
    return registered == stored
               ? ""
               : "registered with elements of type " + to_string(registered) + ", stored with " + to_string(stored);
  }

  static std::string shape_difference(const Extents& registered, const Extents& stored) {
    return registered == stored
               ? ""
               : "registered with the shape " + text_of(registered) + ", stored with " + text_of(stored);
  }

  /// Values that can change their size take that of the file.
  [[nodiscard]] std::string value_difference(const state::Variable& variable, const StoredVariable& stored,
                                             std::size_t box) const {
    return variable.value->resizable() ? "" : shape_difference(variable.value->shape(), index_.row(stored, box).extent);
  }

  [[nodiscard]] std::string per_rank_difference(const state::Variable& variable, const StoredVariable& stored) const {
    if (index_.metadata.world_size == size_) {
      return value_difference(variable, stored, static_cast<std::size_t>(rank_));
    }
    return variable.redistribute
               ? ""
               : "a per-rank variable saved by " + std::to_string(index_.metadata.world_size) +
                     " ranks cannot be restored on " + std::to_string(size_) + " without a redistribution function";
  }

  const FileIndex& index_;
  int rank_;
  int size_;
};

}  // namespace

Comparison compare_with_file(const Checkpoint::Registry& registry, const FileIndex& index, int rank, int size) {
  Comparison comparison;
  const Fit fit(index, rank, size);
  for (const auto& [name, variable] : registry.variables) {
    RestoreTarget target{index.find(name), &variable, {}};
    const std::string difference = target.stored == nullptr ? "registered, but not in the checkpoint"  //
                                                            : fit.difference(name, target);
    if (!difference.empty()) {
      comparison.differences.push_back("variable '" + name + "': " + difference);
    }
    comparison.targets.push_back(std::move(target));
  }
  for (const StoredVariable& stored : index.variables) {
    if (!registry.variables.contains(stored.name)) {
      comparison.differences.push_back("variable '" + stored.name + "': in the checkpoint, but not registered");
    }
  }
  return comparison;
}

}  // namespace reprieve::storage
