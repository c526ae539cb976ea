// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the ranks tell the chief of their variables: as little as the chief needs to plan a file.

#include <string_view>

#include "cluster/communicator.hpp"
#include "storage/format/description_message.hpp"
#include "storage/write/file_plan.hpp"

namespace reprieve::storage {

/// What one reduction tells.
struct Agreement {
  bool same_facts = true;    ///< all ranks have the same variables
  bool any_differs = false;  ///< some rank's are not what they were
};
/// Collective. @param differs  whether this rank's are not what they were
[[nodiscard]] Agreement compare_facts(cluster::Communicator& comm, const Bytes& facts, bool differs,
                                      std::string_view what);

/// What all ranks told, on the chief; nothing on the others. Numbers alone if the ranks have the same facts; otherwise
/// the facts as well, for the error that says in what they differ. Takes @p mine. Collective.
[[nodiscard]] Told tell_chief(cluster::Communicator& comm, DescriptionMessage mine, bool same_facts,
                              std::string_view what);

}  // namespace reprieve::storage
