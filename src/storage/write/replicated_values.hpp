// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether what is registered as equal on all ranks is equal.

#include <string>
#include <vector>

#include "cluster/communicator.hpp"
#include "storage/format/description.hpp"

namespace reprieve::storage {

/// Warns, once and on the chief, if a replicated variable has another value on some rank: only that of rank 0 is saved,
/// and all ranks would go on with it. Looks at the first 4 MiB of each variable, and at 64 MiB in all; at numbers and
/// texts alone, since equal objects may have different bytes, and not at the memory of devices. Collective: one small
/// reduction if all are equal. @param variables  the same ones on all ranks @throws as any collective call
void compare_replicated(cluster::Communicator& comm, const std::vector<LocalVariable>& variables,
                        const std::string& what);

}  // namespace reprieve::storage
