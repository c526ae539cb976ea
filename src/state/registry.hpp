// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The content of a Checkpoint as the layers below the public interface see it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/values.hpp"
#include "devices/spaces.hpp"
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
  bool shared = false;                         ///< distributed: boxes may overlap
  bool may_be_missing = false;                 ///< a checkpoint without it leaves it as it is
  /// `describe` is a function of the user's, which may rely on restored values: a restore calls it when they are there.
  bool described_by_user = false;
  std::vector<std::string> former_names{};  ///< looked for, in this order, where the present name is not stored
  /// Distributed: the layout that was given at the registration, without memory; null if a function returns it.
  std::shared_ptr<const DistributedArray> declared{};
  core::Rare<Annotation> annotation{};
  Members members{};                     ///< of elements that are structs; empty: they are opaque
  std::shared_ptr<MemorySpace> space{};  ///< that was set for its memory, if one was
};

/// A function that takes over old state, and the part of the tree that it sees: names that begin with the prefix.
struct Migration {
  std::string prefix;
  std::function<void(const StoredState&)> migrate;
};

/// What failed restores left behind: some variables have the values of a checkpoint, some do not.
struct HalfRestored {
  bool is_so = false;
  std::set<std::string> names;  ///< of this rank's that were overwritten
};

/// What must be the same in every run (`Checkpoint::add_constant`).
struct Constant {
  std::string text;      ///< the value, or the path of the file
  bool is_file = false;  ///< the content of the file counts
};

/// Throws UsageError unless @p name is a valid variable name (see Checkpoint).
void check_name(const std::string& name);

/// The first part of the names that a checkpoint has beside the variables of the program.
inline constexpr std::string_view kReservedPart = "@shared";

/// The same for a name that a program gives: the reserved part is not allowed.
void check_registered_name(const std::string& name);

/// No HDF5 dataset has more dimensions (H5S_MAX_RANK).
inline constexpr std::size_t kMostDimensions = 32;

/// Throws UsageError unless the texts of an annotation are such as Annotation says.
void check_annotation(const std::string& name, const Annotation& annotation);

/// Throws UsageError unless the members have names of their own and lie in an element of that type, side by side.
void check_members(const std::string& name, const Members& members, ElementType type);

/// "float64[3] at byte 8"
std::string to_string(const Member& member);

/// Throws UsageError unless no dimensions are named, or as many as there are.
void check_dimension_names(const std::string& name, const Annotation& annotation, std::size_t dimensions);

/// Throws UsageError unless every box has the dimensions of the global shape and lies inside of it. A box that holds
/// nothing (a zero in its extent) may have any offset.
void check_shapes(const std::string& name, const DistributedArray& array);

/// The same, and the boxes' memory is checked: it is not null, and the program's. Each box gets its memory space.
/// @param named  the space that was set for the variable, or null
void check_array(const std::string& name, DistributedArray& array, const devices::Spaces& spaces,
                 MemorySpace* named = nullptr);

}  // namespace reprieve::state

// Of public types, what goes into messages between ranks.

namespace reprieve {

constexpr auto fields_of(const ElementType*) {
  return std::tuple(&ElementType::element_class, &ElementType::size_bytes);
}
constexpr auto fields_of(const Annotation*) {
  return std::tuple(&Annotation::units, &Annotation::description, &Annotation::dims);
}
constexpr auto fields_of(const Member*) {
  return std::tuple(&Member::name, &Member::type, &Member::offset, &Member::shape, &Member::members);
}

struct [[gnu::visibility("hidden")]] Checkpoint::Registry {
  /// Sorted by name, so that all ranks see one order whatever the order of registration.
  std::map<std::string, state::Variable> variables;
  std::vector<std::string> dropped;  ///< names, or parents of names, that a restore may leave out
  std::vector<std::function<void()>> when_values_restored;
  std::vector<state::Migration> migrations;

  std::map<std::string, state::Constant> constants;

  /// Kept with the variables: a second manager of the same state must know it as well.
  state::HalfRestored half_restored;

  /// What the handlers that use the state hold: as long as there is one, nothing can be registered.
  std::weak_ptr<const void> users;
  /// @throws UsageError if the name is not allowed or taken
  void add_constant(std::string name, state::Constant constant);
  /// @throws UsageError if a handler uses it. @p name  of the variable to register
  void check_open(const std::string& name) const;
  /// For a handler: nothing can be registered until all that were returned are gone.
  [[nodiscard]] std::shared_ptr<const void> use();

  /// Whether a stored variable that is not registered may be left out.
  [[nodiscard]] bool may_drop(const std::string& name) const;
  /// Runs the functions that were given to `on_migration`.
  void migrate(const StoredState& stored) const;
};

}  // namespace reprieve
