// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/row_cursor.hpp"

#include <algorithm>

namespace reprieve::storage {

RowCursor::RowCursor(const WriteItem& item, state::Staging& staging)
    : item_(&item),
      file_strides_(dense_strides(item.dataset.shape, item.dataset.element_size)),
      outer_(state::outer_dimensions(item.source.box.extent, file_strides_, item.dataset.element_size)),
      row_extent_(item.source.box.extent.begin() + static_cast<std::ptrdiff_t>(outer_), item.source.box.extent.end()),
      row_strides_(item.source.strides_bytes.begin() + static_cast<std::ptrdiff_t>(outer_),
                   item.source.strides_bytes.end()),
      row_bytes_(volume(row_extent_) * item.dataset.element_size),
      dense_(item.source.space == nullptr && is_dense(row_extent_, row_strides_, item.dataset.element_size)),
      index_(outer_, 0),
      rows_left_(item.bytes() == 0 ? 0 : item.bytes() / row_bytes_),
      staging_(&staging) {
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
  taken_ = 0;
  if (copied_rows_ > 1) {
    --copied_rows_;
    row_ += row_bytes_;
  } else {
    copied_rows_ = 0;
    row_ = source.data + state::distance(index_, source.strides_bytes, outer_);
  }
}

void RowCursor::copy_row() {
  const std::size_t element_size = item_->dataset.element_size;
  copy_.resize(row_bytes_);
  copy_box(copy_.data(), dense_strides(row_extent_, element_size), row_, row_strides_, row_extent_, element_size);
  row_ = copy_.data();
  copied_rows_ = 1;
}

/// Those that begin before @p end in the file, as far as they are neighbours in the last dimension that is stepped
/// through: one copy from the device brings them all.
void RowCursor::copy_rows(std::uint64_t end) {
  const BoxView<const std::byte>& source = item_->source;
  Extents extent = row_extent_;
  Strides strides = row_strides_;
  copied_rows_ = 1;
  if (outer_ > 0) {
    const std::size_t last = outer_ - 1;
    const auto apart = static_cast<std::uint64_t>(file_strides_[last]);
    copied_rows_ = std::min(source.box.extent[last] - index_[last], (end - row_offset_ - 1) / apart + 1);
    extent.insert(extent.begin(), copied_rows_);
    strides.insert(strides.begin(), source.strides_bytes[last]);
  }
  copy_.resize(copied_rows_ * row_bytes_);
  const std::size_t element_size = item_->dataset.element_size;
  copy_from({row_, {Extents(extent.size(), 0), extent}, strides, source.space}, row_, extent, element_size,
            copy_.data(), dense_strides(extent, element_size), *staging_);
  row_ = copy_.data();
}

std::span<const std::byte> RowCursor::piece(std::uint64_t end) {
  if (!dense_ && !has_copy()) {
    if (item_->source.space != nullptr) {
      copy_rows(end);
    } else {
      copy_row();
    }
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
