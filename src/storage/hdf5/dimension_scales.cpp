// SPDX-License-Identifier: BSD-3-Clause
#include "storage/hdf5/dimension_scales.hpp"

#include <map>
#include <set>

namespace reprieve::storage {

namespace {

/// The group of a path, with a `/` at its end; empty for the uppermost one.
std::string group_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// The group above one that is not the uppermost.
std::string group_above(const std::string& group) { return group_of(group.substr(0, group.size() - 1)); }

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

bool shows_dimensions(const StoredVariable& variable) {
  return !variable.annotation->dims.empty() && variable.annotation->dims.size() == variable.shape.size() &&
         (variable.type != ElementType{ElementClass::text, 1} ||
          variable.distribution == state::Distribution::distributed);
}

std::vector<DimensionScale> plan_scales(const FileIndex& index) { return ScalePlanner(index).run(); }

}  // namespace reprieve::storage
