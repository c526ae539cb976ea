// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Values in a C program's memory, or behind its callbacks, as the registry wants to see them.

#include <memory>
#include <string>

#include "reprieve/checkpoint.hpp"
#include "reprieve/reprieve.h"

namespace reprieve::bindings {

/// An array (or a scalar: no dimensions) in memory that stays where it is.
/// @param strides_bytes  empty: dense, in C order
/// @throws UsageError
std::unique_ptr<ValueAccess> fixed_value(const std::string& name, ElementType type, std::byte* data, Extents shape,
                                         std::vector<std::ptrdiff_t> strides_bytes);

/// A list that can change its length. @throws UsageError
std::unique_ptr<ValueAccess> resizable_value(const std::string& name, ElementType type, std::int64_t item_elements,
                                             reprieve_memory_fn memory, void* user);

/// A value that callbacks turn into bytes and back. @throws UsageError
std::unique_ptr<ValueAccess> custom_value(const std::string& name, reprieve_save_fn save, reprieve_load_fn load,
                                          void* user);

// What becomes of per-rank values on another number of ranks.

/// A C function as a redistribution; none if it is null.
/// @param list, item_bytes  of a resizable value, for `reprieve_in_order`
Checkpoint::RedistributeAny redistribution(const std::string& name, reprieve_redistribute_fn redistribute, void* user,
                                           ValueAccess* list = nullptr, std::size_t item_bytes = 0);

}  // namespace reprieve::bindings
