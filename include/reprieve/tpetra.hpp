// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Vectors and multivectors of Trilinos' Tpetra (13.2 and later) as state. Only for programs that use Tpetra: this
/// header includes it.
///
///     reprieve::tpetra::add(state, "solution", *solution);   // a Tpetra::Vector or Tpetra::MultiVector

#include <Tpetra_MultiVector.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"

namespace reprieve::tpetra {

namespace detail {

/// One box for each run of consecutive global indexes, with all columns.
template <class Scalar, class Local, class Global, class Node>
DistributedArray array_of(Tpetra::MultiVector<Scalar, Local, Global, Node>& vectors) {
  if (!vectors.isConstantStride()) {
    throw UsageError(
        "the multivector was made of chosen columns of another one: register that one, or each column by itself");
  }
  const auto& map = *vectors.getMap();
  const Global base = map.getIndexBase();
  const auto columns = static_cast<std::uint64_t>(vectors.getNumVectors());
  const auto rows = map.getGlobalNumElements() == 0 ? 0 : map.getMaxAllGlobalIndex() - base + 1;
  // From now on the host has the newest values, for Tpetra, and a device gets them at its next use of the vectors.
  const auto view = vectors.getLocalViewHost(Tpetra::Access::ReadWrite);
  auto* const memory = reinterpret_cast<std::byte*>(view.data());
  const auto size = static_cast<std::ptrdiff_t>(sizeof(Scalar));
  const auto next_column = static_cast<std::ptrdiff_t>(vectors.getStride()) * size;
  DistributedArray array{element_type_of<Scalar>(), {static_cast<std::uint64_t>(rows), columns}, {}};
  const auto count = static_cast<Local>(vectors.getLocalLength());
  for (Local first = 0, end = 0; first < count; first = end) {
    const Global index = map.getGlobalElement(first);
    for (++end; end < count && map.getGlobalElement(end) == index + static_cast<Global>(end - first);) {
      ++end;
    }
    array.boxes.push_back({memory + static_cast<std::ptrdiff_t>(first) * size,
                           {static_cast<std::uint64_t>(index - base), 0},
                           {static_cast<std::uint64_t>(end - first), columns},
                           {size, next_column}});
  }
  return array;
}

}  // namespace detail

/// Registers a vector or a multivector as a distributed array of rows and columns. The row of an element is its global
/// index less the index base of the map. It is restored on any number of ranks, also by another map of the same
/// indexes. Indexes that no rank has are stored as zero. For a map in which ranks share indexes call
/// `state.allow_shared(name)`.
///
/// Each run of consecutive global indexes on a rank is a box, which costs about 50 bytes in the file and 10 us at a
/// save. So a contiguous map costs least. Copy the vectors to one before a save if a cyclic map has millions of
/// indexes.
///
/// The vectors must outlive @p state. They are read and written on the host: no view of them on a device may be alive
/// at a save or a restore. A save counts as a change on the host: Tpetra copies the values to a device at their next
/// use. Not collective. A save and a restore are a UsageError on all ranks for vectors that are chosen columns of
/// others, and where ranks share indexes without `allow_shared`.
template <class Scalar, class Local, class Global, class Node>
requires(Element<Scalar>) void add(Checkpoint& state, std::string name,
                                   Tpetra::MultiVector<Scalar, Local, Global, Node>& vectors) {
  state.add_distributed(std::move(name), [&vectors] { return detail::array_of(vectors); });
}

}  // namespace reprieve::tpetra
