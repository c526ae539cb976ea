// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a checkpoint holds, for functions that make a program's state from it by themselves.

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "reprieve/error.hpp"
#include "reprieve/export.h"
#include "reprieve/layout.hpp"
#include "reprieve/value_access.hpp"

namespace reprieve {

/// The values that a per-rank variable had on each of the ranks that saved it. Not collective; on the thread that
/// restores, while it calls the function that got this.
class REPRIEVE_EXPORT PerRankPieces {
 public:
  virtual ~PerRankPieces() = default;
  /// Number of ranks that saved.
  [[nodiscard]] virtual int count() const = 0;
  [[nodiscard]] virtual ElementType type() const = 0;
  /// The shape that the value had on @p saved_rank; empty for a scalar. Reads nothing, but for texts.
  /// @throws UsageError (no such rank)
  [[nodiscard]] virtual Extents shape(int saved_rank) const = 0;
  /// The bytes that rank @p saved_rank wrote. Reads and verifies that piece alone.
  /// @throws CorruptError, StorageError, UsageError (no such rank)
  [[nodiscard]] virtual std::vector<std::byte> bytes(int saved_rank) const = 0;
  /// The values of another per-rank variable of the same checkpoint, by its stored name.
  /// @throws UsageError if there is none
  [[nodiscard]] virtual const PerRankPieces& of(const std::string& name) const = 0;
};

/// The elements that rank @p saved_rank wrote. @throws as PerRankPieces::bytes; MismatchError if they are of another
/// type
template <Element T>
std::vector<T> values_of(const PerRankPieces& pieces, int saved_rank) {
  if (pieces.type() != element_type_of<T>()) {
    throw MismatchError("the stored elements are of type " + to_string(pieces.type()) + ", not " +
                        to_string(element_type_of<T>()));
  }
  const std::vector<std::byte> bytes = pieces.bytes(saved_rank);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
  }
  return values;
}

/// A checkpoint that is being restored, by the names that are stored. Not collective; on the thread that restores,
/// while it calls the function that got this.
class REPRIEVE_EXPORT StoredState {
 public:
  virtual ~StoredState() = default;
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;
  [[nodiscard]] virtual bool contains(const std::string& name) const = 0;
  /// @throws UsageError if there is no such variable, as all members below
  [[nodiscard]] virtual ElementType type(const std::string& name) const = 0;
  /// Shape of a replicated variable's value, or the global shape of a distributed one.
  /// @throws UsageError for per-rank variables, whose shapes `pieces` has
  [[nodiscard]] virtual Extents shape(const std::string& name) const = 0;
  /// The values of a per-rank variable; valid as long as this. @throws UsageError if it is not per-rank
  [[nodiscard]] virtual const PerRankPieces& pieces(const std::string& name) const = 0;

  /// Reads a replicated value, as a restore would. @throws MismatchError (type, shape), CorruptError, StorageError
  template <Storable T>
  void read(const std::string& name, T& value) const {
    read_value(name, *detail::make_access(value));
  }
  virtual void read_value(const std::string& name, ValueAccess& value) const = 0;

  /// Fills boxes of a distributed variable. @throws MismatchError (type, shape), CorruptError, StorageError
  virtual void read_distributed(const std::string& name, const DistributedArray& array) const = 0;
};

}  // namespace reprieve
