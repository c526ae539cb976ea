// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/telling.hpp"

#include <utility>

#include "storage/bytes/checksum.hpp"

namespace reprieve::storage {

Agreement compare_facts(cluster::Communicator& comm, const Bytes& facts, bool differs, std::string_view what) {
  const auto compared = comm.compare(xxh3(facts), differs ? 1 : 0, what);
  return {compared.is_equal, compared.greatest != 0};
}

Told tell_chief(cluster::Communicator& comm, DescriptionMessage mine, bool same_facts, std::string_view what) {
  Told told;
  if (!same_facts) {
    told.facts = comm.gather(mine.facts, what);
  } else if (comm.is_chief()) {
    told.facts.push_back(std::move(mine.facts));
  }
  told.numbers = comm.gather(mine.numbers, what);
  return told;
}

}  // namespace reprieve::storage
