// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/row_cursor.hpp"

#include <algorithm>

namespace reprieve::storage {

RowCursor::RowCursor(const WriteItem& item)
    : item_(&item),
      file_strides_(dense_strides(item.dataset.shape, item.dataset.element_size)),
      outer_(state::outer_dimensions(item.source.box.extent, file_strides_, item.dataset.element_size)),
      row_extent_(item.source.box.extent.begin() + static_cast<std::ptrdiff_t>(outer_), item.source.box.extent.end()),
      row_strides_(item.source.strides_bytes.begin() + static_cast<std::ptrdiff_t>(outer_),
                   item.source.strides_bytes.end()),
      row_bytes_(volume(row_extent_) * item.dataset.element_size),
      dense_(is_dense(row_extent_, row_strides_, item.dataset.element_size)),
      index_(outer_, 0),
      rows_left_(item.bytes() == 0 ? 0 : item.bytes() / row_bytes_) {
  if (!done()) {
    enter_row();
  }
}

std::uint64_t RowCursor::first_offset(const WriteItem& item) {
  std::uint64_t elements = 0;
  for (std::size_t d = 0; d < item.dataset.shape.size(); ++d) {
    elements = elements * item.dataset.shape[d] + item.source.box.offset[d];
  }
  return item.dataset.file_offset + elements * item.dataset.element_size;
}

void RowCursor::enter_row() {
  const BoxView<const std::byte>& source = item_->source;
  const std::ptrdiff_t first = state::distance(source.box.offset, file_strides_, file_strides_.size());
  row_offset_ =
      item_->dataset.file_offset + static_cast<std::uint64_t>(first + state::distance(index_, file_strides_, outer_));
  row_ = source.data + state::distance(index_, source.strides_bytes, outer_);
  taken_ = 0;
  is_copied_ = false;
}

void RowCursor::copy_row() {
  const std::size_t element_size = item_->dataset.element_size;
  copy_.resize(row_bytes_);
  copy_box(copy_.data(), dense_strides(row_extent_, element_size), row_, row_strides_, row_extent_, element_size);
  row_ = copy_.data();
  is_copied_ = true;
}

std::span<const std::byte> RowCursor::piece(std::uint64_t end) {
  if (!dense_ && !is_copied_) {
    copy_row();
  }
  return {row_ + taken_, static_cast<std::size_t>(std::min(row_bytes_ - taken_, end - offset()))};
}

void RowCursor::advance(std::uint64_t bytes) {
  taken_ += bytes;
  if (taken_ < row_bytes_) {
    return;
  }
  if (--rows_left_ > 0) {
    static_cast<void>(state::next_index(index_, item_->source.box.extent, outer_));
    enter_row();
  } else {
    Bytes().swap(copy_);  // there may be very many cursors
  }
}

}  // namespace reprieve::storage
