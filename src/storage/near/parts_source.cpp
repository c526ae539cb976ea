// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/parts_source.hpp"

#include <algorithm>
#include <utility>

#include "storage/bytes/streaming_copy.hpp"

namespace reprieve::storage {

void PartsSource::add(std::shared_ptr<const Part> part, const FileIndex& index) {
  std::vector<PartRow> rows = rows_of(*part, index);
  add(std::move(rows), std::move(part));
}

void PartsSource::add(std::vector<PartRow> rows, std::shared_ptr<const void> owner) {
  const auto ascending = [](const PartRow& a, const PartRow& b) { return a.first_checksum < b.first_checksum; };
  const auto middle = static_cast<std::ptrdiff_t>(rows_.size());
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  std::inplace_merge(rows_.begin(), rows_.begin() + middle, rows_.end(), ascending);
  owners_.push_back(std::move(owner));
}

const PartRow* PartsSource::find(std::uint64_t first_checksum) const {
  const auto found = std::lower_bound(rows_.begin(), rows_.end(), first_checksum,
                                      [](const PartRow& row, std::uint64_t key) { return row.first_checksum < key; });
  return found != rows_.end() && found->first_checksum == first_checksum ? &*found : nullptr;
}

bool PartsSource::has(const StoredVariable& variable, const BoxRow& row) const {
  return volume(row.extent) * variable.type.size_bytes == 0 || find(row.first_checksum) != nullptr;
}

/// Blocks lie one after the other.
std::uint64_t PartsSource::place_in_row(const StoredVariable& variable, const BoxRow& row, std::uint64_t number) const {
  if (number == 0) {
    return 0;
  }
  if (row_of_places_ != row.first_checksum) {
    const TiledSplit split = FileIndex::blocks_of(variable, row);
    places_.clear();
    std::uint64_t next = 0;
    for (std::uint64_t i = 0; i < split.count(); ++i) {
      places_.push_back(next);
      next += bytes_of(split.block(i), variable.type.size_bytes);
    }
    row_of_places_ = row.first_checksum;
  }
  return places_.at(static_cast<std::size_t>(number));
}

void PartsSource::read(const StoredVariable& variable, const BoxRow& row, std::uint64_t number,
                       std::span<std::byte> content, Xxh3Stream* digest) const {
  const PartRow* const found = find(row.first_checksum);
  if (found == nullptr) {
    throw CorruptError("the part of rank " + std::to_string(row.rank) + " of a near copy is not on this host");
  }
  const std::byte* from = found->data + place_in_row(variable, row, number);
  while (!content.empty()) {
    const std::span piece(from, std::min(content.size(), kCachedBytes));
    if (digest != nullptr) {
      digest->update(piece);
    }
    streaming_copy(piece, content.first(piece.size()));
    from += piece.size();
    content = content.subspan(piece.size());
  }
}

}  // namespace reprieve::storage
