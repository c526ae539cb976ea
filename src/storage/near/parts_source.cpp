// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/parts_source.hpp"

#include <algorithm>
#include <utility>

namespace reprieve::storage {

void PartsSource::add(std::shared_ptr<const Part> part, const FileIndex& index) {
  const std::vector<PartRow> rows = rows_of(*part, index);
  add(rows, [this, part = std::move(part)](std::uint64_t offset, std::span<std::byte> into, Xxh3Stream* digest) {
    part->read(offset, into, digest, staged_);
  });
}

void PartsSource::add(const std::vector<PartRow>& rows, std::span<const std::byte> data,
                      std::shared_ptr<const void> owner) {
  add(rows, [data, owner = std::move(owner)](std::uint64_t offset, std::span<std::byte> into, Xxh3Stream* digest) {
    const auto found = data.subspan(static_cast<std::size_t>(offset), into.size());
    std::ranges::copy(found, into.begin());
    if (digest != nullptr) {
      digest->update(found);
    }
  });
}

void PartsSource::add(const std::vector<PartRow>& rows, Read data) {
  const auto middle = static_cast<std::ptrdiff_t>(rows_.size());
  for (const PartRow& row : rows) {
    rows_.push_back({row, data_.size()});
  }
  std::inplace_merge(rows_.begin(), rows_.begin() + middle, rows_.end(),
                     [](const Row& a, const Row& b) { return a.at.first_checksum < b.at.first_checksum; });
  data_.push_back(std::move(data));
}

const PartsSource::Row* PartsSource::find(std::uint64_t first_checksum) const {
  const auto found = std::lower_bound(rows_.begin(), rows_.end(), first_checksum,
                                      [](const Row& row, std::uint64_t key) { return row.at.first_checksum < key; });
  return found != rows_.end() && found->at.first_checksum == first_checksum ? &*found : nullptr;
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
  const Row* const found = find(row.first_checksum);
  if (found == nullptr) {
    throw CorruptError("the part of rank " + std::to_string(row.rank) + " of a near copy is not on this host");
  }
  data_[found->data](found->at.offset + place_in_row(variable, row, number), content, digest);
}

}  // namespace reprieve::storage
