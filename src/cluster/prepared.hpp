// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Memory of a communicator that is taken when it is made. Internal to it.

#include <array>
#include <cstdint>
#include <vector>

#include "cluster/communicator.hpp"

namespace reprieve::cluster {

/// What a rank came for. With it, ranks that are in different operations find out.
enum class Communicator::Kind : std::int64_t {
  agree,
  barrier,
  broadcast,
  gather,
  scatter,
  exchange,
  max,
  compare,
  end
};

struct Communicator::Prepared {
  /// A failure on its way to all ranks. Longer texts follow in parts.
  struct Note {
    std::int32_t code = 0;
    std::int32_t origin_rank = -1;
    std::uint64_t asked_bytes = 0;
    std::uint64_t text_size = 0;
    std::array<char, 1000> text{};
  };
  enum Slot : std::size_t { kFailing, kKind, kNegatedKind, kValue, kDigest, kDigestComplement, kSlots };

  std::array<std::int64_t, kSlots> mine{};
  std::array<std::int64_t, kSlots> all{};
  Note note;
  std::vector<std::uint64_t> sizes_out;  ///< one for each rank
  std::vector<std::uint64_t> sizes_in;
  std::vector<char> hosts;
};

}  // namespace reprieve::cluster
