// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether the ranks registered the same state, without their values.

#include <string_view>
#include <vector>

#include "cluster/communicator.hpp"
#include "state/registry.hpp"
#include "storage/format/description.hpp"

namespace reprieve::storage {

/// What ranks say of their variables, on rank 0; nothing on the others. The facts are rank 0's alone if the ranks have
/// the same ones. Otherwise of each rank, for the error that lists the differences. Takes @p mine. Collective.
[[nodiscard]] std::vector<DescriptionMessage> send_to_rank_0(cluster::Communicator& comm, DescriptionMessage mine,
                                                             bool same_facts, std::string_view what);

/// Compares what all ranks registered: names, kinds, types, constants, and the layouts that are known without a call
/// of the program's functions. Their boxes must not overlap. Functions that find values are called, no others.
/// Collective. Cost: a few reductions, and the boxes of the layouts to rank 0; all registrations only if they
/// differ.
/// @throws MismatchError that lists all differences, or UsageError about boxes that overlap, the same on every rank
void check_registration(cluster::Communicator& comm, const Checkpoint::Registry& registry);

/// Whether the memory of arrays with a layout fits it: a vector may have been resized, or memory freed, since it was
/// registered. For a start without a restore, which sees that too. Collective. @throws UsageError on all ranks
void check_declared_memory(cluster::Communicator& comm, const Checkpoint::Registry& registry);

/// The same for arrays that functions of the program describe; these are called. For the time in a restore when the
/// values are there: before, the functions may not be able to answer. Collective.
/// @throws as check_registration, and what the functions throw
void check_descriptions(cluster::Communicator& comm, const Checkpoint::Registry& registry);

}  // namespace reprieve::storage
