// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/checkpoint.hpp"

#include <algorithm>
#include <iterator>

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
  state::check_registered_name(name);
  check_place_in_tree(variables, name);
  variables.emplace(std::move(name), std::move(variable));
}

void check_access(const std::string& name, const std::unique_ptr<ValueAccess>& access) {
  if (access == nullptr) {
    throw UsageError("variable '" + name + "' was registered without a value");
  }
}

/// The part of a checkpoint that belongs to one component, under the names that the component knows.
class StoredComponent final : public StoredState {
 public:
  StoredComponent(const StoredState& whole, const std::string& prefix) : whole_(whole), prefix_(prefix) {}

  [[nodiscard]] std::vector<std::string> names() const override {
    std::vector<std::string> own;
    for (const std::string& name : whole_.names()) {
      if (name.starts_with(prefix_)) {
        own.push_back(name.substr(prefix_.size()));
      }
    }
    return own;
  }
  [[nodiscard]] bool contains(const std::string& name) const override { return whole_.contains(prefix_ + name); }
  [[nodiscard]] ElementType type(const std::string& name) const override { return whole_.type(prefix_ + name); }
  [[nodiscard]] Extents shape(const std::string& name) const override { return whole_.shape(prefix_ + name); }
  [[nodiscard]] const PerRankPieces& pieces(const std::string& name) const override {
    return whole_.pieces(prefix_ + name);
  }
  void read_value(const std::string& name, ValueAccess& value) const override {
    whole_.read_value(prefix_ + name, value);
  }
  void read_distributed(const std::string& name, const DistributedArray& array) const override {
    whole_.read_distributed(prefix_ + name, array);
  }

 private:
  const StoredState& whole_;
  const std::string& prefix_;
};

state::Variable& registered(Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  if (found == variables.end()) {
    throw UsageError("no variable '" + name + "' is registered: register it first");
  }
  return found->second;
}

template <class T>
void append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

Checkpoint::Checkpoint() : registry_(std::make_unique<Registry>()) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

void Checkpoint::Registry::check_open(const std::string& name) const {
  if (!users.expired()) {
    throw UsageError("'" + name +
                     "' cannot be registered: a handler uses the state already, and may have to save it at any moment; "
                     "register everything before the handler is made");
  }
}

std::shared_ptr<const void> Checkpoint::Registry::use() {
  std::shared_ptr<const void> user = users.lock();
  if (!user) {
    user = std::make_shared<char>();
    users = user;
  }
  return user;
}

void Checkpoint::add_distributed(std::string name, std::function<DistributedArray()> describe) {
  registry_->check_open(name);
  if (!describe) {
    throw UsageError("distributed variable '" + name + "' was registered without a function that describes it");
  }
  add(registry_->variables, std::move(name),
      {.distribution = state::Distribution::distributed, .describe = std::move(describe), .described_by_user = true});
}

void Checkpoint::add_replicated_value(std::string name, std::unique_ptr<ValueAccess> access) {
  registry_->check_open(name);
  check_access(name, access);
  add(registry_->variables, std::move(name),
      {.distribution = state::Distribution::replicated, .value = std::move(access)});
}

void Checkpoint::add_per_rank_value(std::string name, std::unique_ptr<ValueAccess> access,
                                    RedistributeAny redistribute) {
  registry_->check_open(name);
  check_access(name, access);
  add(registry_->variables, std::move(name),
      {.distribution = state::Distribution::per_rank,
       .value = std::move(access),
       .redistribute = std::move(redistribute)});
}

void Checkpoint::add_distributed_array(std::string name, ElementType type, std::byte* data, DistributedLayout layout) {
  layout.first_element = 0;  // the address is that of the box
  add_distributed_pointer(
      std::move(name), type, [data] { return data; }, std::move(layout));
}

void Checkpoint::add_distributed_pointer(std::string name, ElementType type, FindPointer find,
                                         DistributedLayout layout) {
  registry_->check_open(name);
  const auto find_first = [find = std::move(find), first = layout.first_element * type.size_bytes] {
    auto* const begin = static_cast<std::byte*>(find());
    return begin == nullptr ? nullptr : begin + first;
  };
  DistributedArray array{type, std::move(layout.global_shape), {}};
  MemoryBox& box = array.boxes.emplace_back();
  box = {find_first(), std::move(layout.offset), std::move(layout.extent), std::move(layout.strides_bytes)};
  state::check_array(name, array, devices::Spaces());
  box.data = nullptr;  // it is looked for, and checked, at every save and restore
  box.space = nullptr;
  const auto declared = std::make_shared<const DistributedArray>(std::move(array));
  state::Variable variable;
  variable.distribution = state::Distribution::distributed;
  variable.describe = [declared, find_first] {
    DistributedArray now = *declared;
    now.boxes.front().data = find_first();
    return now;
  };
  variable.declared = declared;
  add(registry_->variables, std::move(name), std::move(variable));
}

void Checkpoint::add_component(const std::string& name, Checkpoint part) {
  registry_->check_open(name);
  const std::string prefix = name + "/";
  for (const auto& entry : part.registry_->variables) {
    state::check_registered_name(prefix + entry.first);
    check_place_in_tree(registry_->variables, prefix + entry.first);
  }
  registry_->half_restored.is_so |= part.registry_->half_restored.is_so;
  for (const std::string& own_name : part.registry_->half_restored.names) {
    registry_->half_restored.names.insert(prefix + own_name);
  }
  for (auto& [own_name, variable] : part.registry_->variables) {
    for (std::string& former : variable.former_names) {
      former.insert(0, prefix);
    }
    registry_->variables.emplace(prefix + own_name, std::move(variable));
  }
  for (std::string& dropped : part.registry_->dropped) {
    dropped.insert(0, prefix);
  }
  for (state::Migration& migration : part.registry_->migrations) {
    migration.prefix.insert(0, prefix);
  }
  for (auto& [own_name, constant] : part.registry_->constants) {
    registry_->add_constant(prefix + own_name, std::move(constant));
  }
  append(registry_->dropped, std::move(part.registry_->dropped));
  append(registry_->migrations, std::move(part.registry_->migrations));
  append(registry_->when_values_restored, std::move(part.registry_->when_values_restored));
}

void Checkpoint::when_values_restored(std::function<void()> prepare) {
  if (!prepare) {
    throw UsageError("when_values_restored was given no function");
  }
  registry_->when_values_restored.push_back(std::move(prepare));
}

void Checkpoint::allow_shared(const std::string& name) {
  state::Variable& variable = registered(registry_->variables, name);
  if (variable.distribution != state::Distribution::distributed) {
    throw UsageError("variable '" + name + "' is " + state::to_string(variable.distribution) +
                     ": elements of distributed variables alone can be shared");
  }
  // Room for the names of what stands beside it in the file: "@shared/<name>/values".
  state::check_name(std::string(state::kReservedPart) + "/" + name + "/values");
  variable.shared = true;
}

void Checkpoint::annotate(const std::string& name, Annotation annotation) {
  registry_->check_open(name);
  state::Variable& variable = registered(registry_->variables, name);
  state::check_annotation(name, annotation);
  if (variable.declared) {
    state::check_dimension_names(name, annotation, variable.declared->global_shape.size());
  }
  variable.annotation = std::move(annotation);
}

void Checkpoint::set_members(const std::string& name, Members members) {
  registry_->check_open(name);
  state::Variable& variable = registered(registry_->variables, name);
  if (variable.declared) {  // values may not be there yet: they are checked later
    state::check_members(name, members, variable.declared->type);
  }
  variable.members = std::move(members);
}

void Checkpoint::set_memory_space(const std::string& name, std::shared_ptr<MemorySpace> space) {
  registry_->check_open(name);
  if (space == nullptr) {
    throw UsageError("variable '" + name + "': set_memory_space was given none");
  }
  registered(registry_->variables, name).space = std::move(space);
}

void Checkpoint::allow_missing(const std::string& name) {
  registered(registry_->variables, name).may_be_missing = true;
}

void Checkpoint::add_former_name(const std::string& name, std::string former) {
  state::check_name(former);
  registered(registry_->variables, name).former_names.push_back(std::move(former));
}

void Checkpoint::allow_dropped(std::string name) {
  state::check_name(name);
  registry_->dropped.push_back(std::move(name));
}

void Checkpoint::on_migration(std::function<void(const StoredState& stored)> migrate) {
  if (!migrate) {
    throw UsageError("on_migration was given no function");
  }
  registry_->migrations.push_back({"", std::move(migrate)});
}

void Checkpoint::add_constant_text(std::string name, std::string text) {
  registry_->add_constant(std::move(name), {std::move(text)});
}

void Checkpoint::add_constant_file(std::string name, const std::filesystem::path& file) {
  registry_->add_constant(std::move(name), {file.string(), true});
}

void Checkpoint::Registry::add_constant(std::string name, state::Constant constant) {
  check_open(name);
  state::check_name(name);
  if (!constants.emplace(name, std::move(constant)).second) {
    throw UsageError("constant '" + name + "' is registered already");
  }
}

void Checkpoint::Registry::migrate(const StoredState& stored) const {
  for (const state::Migration& migration : migrations) {
    migration.migrate(StoredComponent(stored, migration.prefix));
  }
}

bool Checkpoint::Registry::may_drop(const std::string& name) const {
  return std::ranges::any_of(
      dropped, [&name](const std::string& allowed) { return name == allowed || name.starts_with(allowed + "/"); });
}

std::size_t Checkpoint::size() const noexcept { return registry_->variables.size(); }

bool Checkpoint::contains(const std::string& name) const { return registry_->variables.contains(name); }

}  // namespace reprieve
