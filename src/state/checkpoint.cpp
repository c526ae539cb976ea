#include "reprieve/checkpoint.hpp"

#include "reprieve/error.hpp"
#include "state/registry.hpp"

namespace reprieve {

namespace {

using Variables = std::map<std::string, state::Variable>;

std::string cannot_register(const std::string& name) { return "variable '" + name + "' cannot be registered: "; }

/// A variable cannot be a group of the tree at the same time, neither above the new name nor below it.
void check_place_in_tree(const Variables& variables, const std::string& name) {
  if (variables.contains(name)) {
    throw UsageError("variable '" + name + "' is registered already");
  }
  for (auto slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (const std::string parent = name.substr(0, slash); variables.contains(parent)) {
      throw UsageError(cannot_register(name) + "its parent '" + parent + "' is a variable");
    }
  }
  const std::string as_parent = name + "/";
  if (const auto child = variables.lower_bound(as_parent);
      child != variables.end() && child->first.starts_with(as_parent)) {
    throw UsageError(cannot_register(name) + "it is the parent of variable '" + child->first + "'");
  }
}

void add(Variables& variables, std::string name, state::Variable variable) {
  state::check_name(name);
  check_place_in_tree(variables, name);
  variables.emplace(std::move(name), std::move(variable));
}

void check_access(const std::string& name, const std::unique_ptr<ValueAccess>& access) {
  if (access == nullptr) {
    throw UsageError("variable '" + name + "' was registered without a value");
  }
}

}  // namespace

Checkpoint::Checkpoint() : registry_(std::make_unique<Registry>()) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

void Checkpoint::add_distributed(std::string name, std::function<DistributedArray()> describe) {
  if (!describe) {
    throw UsageError("distributed variable '" + name + "' was registered without a function that describes it");
  }
  add(registry_->variables, std::move(name), {state::Distribution::distributed, nullptr, std::move(describe), {}});
}

void Checkpoint::add_replicated_value(std::string name, std::unique_ptr<ValueAccess> access) {
  check_access(name, access);
  add(registry_->variables, std::move(name), {state::Distribution::replicated, std::move(access), {}, {}});
}

void Checkpoint::add_per_rank_value(std::string name, std::unique_ptr<ValueAccess> access,
                                    RedistributeAny redistribute) {
  check_access(name, access);
  add(registry_->variables, std::move(name),
      {state::Distribution::per_rank, std::move(access), {}, std::move(redistribute)});
}

void Checkpoint::add_distributed_array(std::string name, ElementType type, std::byte* data, DistributedLayout layout) {
  DistributedArray array{type, std::move(layout.global_shape), {}};
  array.boxes.push_back({data, std::move(layout.offset), std::move(layout.extent), std::move(layout.strides_bytes)});
  state::check_array(name, array);
  add_distributed(std::move(name), [array = std::move(array)] { return array; });
}

std::size_t Checkpoint::size() const noexcept { return registry_->variables.size(); }

bool Checkpoint::contains(const std::string& name) const { return registry_->variables.contains(name); }

}  // namespace reprieve
