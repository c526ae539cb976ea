// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the rank that reads the metadata of a checkpoint file tells the others. The tables of boxes and of checksums
/// come to them in another way, since they can be large.

#include <array>
#include <cstdint>

#include "cluster/communicator.hpp"
#include "storage/bytes/codec.hpp"
#include "storage/format/file_index.hpp"
#include "storage/format/seal.hpp"

namespace reprieve::storage {

/// What one seal has and no other one: the manifest says who saved the file, and when.
[[nodiscard]] std::array<std::uint64_t, 2> mark_of(const Seal& seal);

/// What all ranks need to know of the seal.
struct SealFacts {
  std::array<std::uint64_t, 2> mark{};
  std::uint64_t file_size = 0;
  std::array<Region, 3> tables;  ///< manifest, boxes, checksums

  /// What the tables of boxes and of checksums take.
  [[nodiscard]] std::size_t table_bytes() const noexcept;
};

[[nodiscard]] Bytes encode(const Seal& seal, const Bytes& manifest);
[[nodiscard]] SealFacts decode_facts(const Bytes& message);
/// @param tables  of boxes and of checksums, that all ranks of a node look at
[[nodiscard]] IndexBytes decode(const Bytes& message, const cluster::CommonBytes& tables);

}  // namespace reprieve::storage
