#pragma once

/// @file
/// The content of a Checkpoint as the layers below the public interface see it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reprieve/checkpoint.hpp"

namespace reprieve::state {

enum class Distribution : std::uint8_t { replicated, distributed, per_rank };

/// Lower-case name: "replicated", "distributed", "per_rank".
const char* to_string(Distribution distribution) noexcept;

/// One registered variable. `value` is set for replicated and per-rank ones, `describe` for distributed ones.
struct Variable {
  Distribution distribution = Distribution::replicated;
  std::unique_ptr<ValueAccess> value{};
  std::function<DistributedArray()> describe{};
  Checkpoint::RedistributeAny redistribute{};  ///< per-rank only; may be empty
  bool may_be_missing = false;                 ///< a checkpoint without it leaves it as it is
  std::vector<std::string> former_names{};     ///< looked for, in this order, where the present name is not stored
};

/// A function that takes over old state, and the part of the tree that it sees: names that begin with the prefix.
struct Migration {
  std::string prefix;
  std::function<void(const StoredState&)> migrate;
};

/// Throws UsageError unless @p name is a valid variable name (see Checkpoint).
void check_name(const std::string& name);

/// Throws UsageError unless every box has the dimensions of the global shape and lies inside of it. A box that holds
/// nothing (a zero in its extent) may have any offset.
void check_array(const std::string& name, const DistributedArray& array);

}  // namespace reprieve::state

namespace reprieve {

struct [[gnu::visibility("hidden")]] Checkpoint::Registry {
  /// Sorted by name, so that all ranks see one order whatever the order of registration.
  std::map<std::string, state::Variable> variables;
  std::vector<std::string> dropped;  ///< names, or parents of names, that a restore may leave out
  std::vector<std::function<void()>> when_values_restored;
  std::vector<state::Migration> migrations;

  /// Whether a stored variable that is not registered may be left out.
  [[nodiscard]] bool may_drop(const std::string& name) const;
  /// Runs the functions that were given to `on_migration`.
  void migrate(const StoredState& stored) const;
};

}  // namespace reprieve
