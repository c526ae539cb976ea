// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The bytes of an item in the order in which they lie in the file, taken piece by piece.

#include <cstddef>
#include <cstdint>
#include <span>

#include "storage/write/write_item.hpp"

namespace reprieve::storage {

/// Steps through the rows of an item: the ranges that lie side by side in the file.
class RowCursor {
 public:
  /// @param item  must outlive the cursor. A row that does not lie side by side in memory is copied while the cursor is
  /// in it; of rows on a device those up to the end of a piece are copied together.
  /// @param staging  for these; must outlive the cursor too
  RowCursor(const WriteItem& item, state::Staging& staging);

  /// Where in the file the first byte of an item belongs.
  [[nodiscard]] static std::uint64_t first_offset(const WriteItem& item);

  [[nodiscard]] bool done() const noexcept { return rows_left_ == 0; }
  /// Where in the file the next byte belongs.
  [[nodiscard]] std::uint64_t offset() const noexcept { return row_offset_ + taken_; }
  /// The rest of the row, or what of it lies before @p end in the file; `offset()` must. Valid until `advance`.
  [[nodiscard]] std::span<const std::byte> piece(std::uint64_t end);
  /// Continues behind the next @p bytes, at most the rest of the row.
  void advance(std::uint64_t bytes);

 private:
  void enter_row();
  void copy_row();
  void copy_rows(std::uint64_t end);
  [[nodiscard]] bool has_copy() const noexcept { return copied_rows_ > 0; }

  const WriteItem* item_;
  Strides file_strides_;  ///< in bytes
  std::size_t outer_;     ///< dimensions that are stepped through from row to row
  Extents row_extent_;    ///< of the other dimensions
  Strides row_strides_;   ///< in memory
  std::uint64_t row_bytes_;
  bool dense_;     ///< a row lies side by side in memory
  Extents index_;  ///< of the row
  std::uint64_t rows_left_;
  std::uint64_t row_offset_ = 0;
  const std::byte* row_ = nullptr;
  std::uint64_t taken_ = 0;  ///< bytes of the row
  Bytes copy_;
  std::uint64_t copied_rows_ = 0;  ///< that lie there, from `row_` on
  state::Staging* staging_;
};

}  // namespace reprieve::storage
