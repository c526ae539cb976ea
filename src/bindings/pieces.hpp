// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What becomes of per-rank values on another number of ranks.

#include <string>

#include "reprieve/checkpoint.hpp"
#include "reprieve/reprieve.h"

namespace reprieve::bindings {

/// A C function as a redistribution; none if it is null.
/// @param list, item_bytes  of a resizable value, for `reprieve_in_order`
Checkpoint::RedistributeAny redistribution(const std::string& name, reprieve_redistribute_fn redistribute, void* user,
                                           ValueAccess* list = nullptr, std::size_t item_bytes = 0);

}  // namespace reprieve::bindings
