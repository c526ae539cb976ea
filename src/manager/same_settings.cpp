// SPDX-License-Identifier: BSD-3-Clause
#include "manager/same_settings.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

#include "cluster/json_exchange.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

using core::Json;

/// "rank 2", "ranks 1, 3-5"
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1) {
    for (last = first; last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1;) {
      ++last;
    }
    text += (first > 0 ? ", " : "") +
            (last > first ? fmt::format("{}-{}", ranks[first], ranks[last]) : fmt::format("{}", ranks[first]));
  }
  return text;
}

/// A line for each setting that is not the same everywhere: "io: "auto" on rank 0, "direct" on ranks 1-3".
std::string differences_text(const Json& chiefs, const Json& differences) {
  std::map<std::string, std::map<std::string, std::vector<std::size_t>>> ranks;  // by key and value
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    for (const auto& [key, value] : differences.at(rank).items()) {
      ranks[key][value.dump()].push_back(rank);
    }
  }
  std::string lines;
  for (const auto& [key, values] : ranks) {
    lines += fmt::format("\n  {}: {} on rank 0", key, chiefs.at(key).dump());
    for (const auto& [value, where] : values) {
      lines += fmt::format(", {} on {}", value, ranks_text(where));
    }
  }
  return lines;
}

}  // namespace

void check_same_on_all_ranks(cluster::Communicator& comm, const Json& mine, std::string_view what) {
  const Json chiefs = cluster::broadcast(comm, mine, 0, what);
  const Json own = cluster::as_received(mine);
  Json different = Json::object();
  for (const auto& [key, value] : own.items()) {
    if (value != chiefs.at(key)) {
      different[key] = value;
    }
  }
  if (comm.max(different.empty() ? 0 : 1, what) == 0) {
    return;
  }
  const Json differences = cluster::gather(comm, different, what);
  comm.on_chief(
      [&] {
        throw UsageError("the ranks were given different settings; they must be the same on all ranks:" +
                         differences_text(chiefs, differences));
      },
      what);
}

}  // namespace reprieve::manager
