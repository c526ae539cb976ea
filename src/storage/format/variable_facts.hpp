// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What is said of a variable wherever it is spoken of: by a rank that has it, in the file, and to those who ask the
/// file.

#include <string>

#include "state/registry.hpp"

namespace reprieve::storage {

struct VariableFacts {
  std::string name{};
  state::Distribution distribution = state::Distribution::replicated;
  ElementType type{};
  Extents shape{};
  bool is_shared = false;  ///< distributed: boxes may overlap
  bool is_copy = false;    ///< not registered by a program: it stands beside a shared variable (shared_copies.hpp)
  core::Rare<Annotation> annotation{};
  Members members{};  ///< of elements that are structs, if they are known

  [[nodiscard]] VariableFacts& facts() noexcept { return *this; }
  [[nodiscard]] const VariableFacts& facts() const noexcept { return *this; }
};

}  // namespace reprieve::storage
