// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether the ranks registered the same state, without a look at the values.

#include "cluster/communicator.hpp"
#include "state/registry.hpp"

namespace reprieve::storage {

/// Compares what all ranks registered: names, kinds, types, constants, and the layouts that are known without a call
/// of the program's functions, the boxes of which must not overlap. Functions that find values are called, no others.
/// Collective. Cost: a few reductions, and the boxes of the layouts to the chief; all registrations only if they
/// differ.
/// @throws MismatchError that lists all differences, or UsageError about boxes that overlap, the same on every rank
void check_registration(cluster::Communicator& comm, const Checkpoint::Registry& registry);

/// The same for arrays that functions of the program describe; these are called. For the time after a restore, which
/// has called them too: before, they may not be able to answer. Collective.
/// @throws as check_registration, and what the functions throw
void check_descriptions(cluster::Communicator& comm, const Checkpoint::Registry& registry);

}  // namespace reprieve::storage
