// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether all ranks were given the same settings.

#include <filesystem>

#include "cluster/communicator.hpp"
#include "core/setting.hpp"

namespace reprieve::manager {

/// The settings of @p table that must be the same on all ranks, with their values, by key.
template <class Options>
core::Json shared_values(const core::Table<Options>& table, const Options& options) {
  core::Json values = core::Json::object();
  for (const auto& row : table) {
    if (row.same_on_all_ranks) {
      values[row.key] = row.get(options);
    }
  }
  return values;
}

/// Collective. @p mine has the same keys on every rank.
/// @throws UsageError on every rank that names each setting that differs from the chief's, the ranks and their values
void check_same_on_all_ranks(cluster::Communicator& comm, const core::Json& mine, std::string_view what);

}  // namespace reprieve::manager
