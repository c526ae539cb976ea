#pragma once

/// @file
/// The content of a Checkpoint as the layers below the public interface see it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "reprieve/checkpoint.hpp"

namespace reprieve::state {

enum class Distribution : std::uint8_t { replicated, distributed, per_rank };

/// Lower-case name: "replicated", "distributed", "per_rank".
const char* to_string(Distribution distribution) noexcept;

/// One registered variable. `value` is set for replicated and per-rank ones, `describe` for distributed ones.
struct Variable {
  Distribution distribution = Distribution::replicated;
  std::unique_ptr<ValueAccess> value;
  std::function<DistributedArray()> describe;
  Checkpoint::RedistributeAny redistribute;  ///< per-rank only; may be empty
};

/// Throws UsageError unless @p name is a valid variable name (see Checkpoint).
void check_name(const std::string& name);

/// Throws UsageError unless every box has the dimensions of the global shape and lies inside of it. A box that holds
/// nothing (a zero in its extent) may have any offset.
void check_array(const std::string& name, const DistributedArray& array);

}  // namespace reprieve::state

namespace reprieve {

/// Sorted by name, so that all ranks see one order whatever the order of registration.
struct Checkpoint::Registry {
  std::map<std::string, state::Variable> variables;
};

}  // namespace reprieve
