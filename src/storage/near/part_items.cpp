// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/part_items.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "storage/format/tiles.hpp"

namespace reprieve::storage {

namespace {

[[noreturn]] void reject(const Part& part, const char* why) {
  throw CorruptError("the part of rank " + std::to_string(part.name().rank) + " of a near copy " + why);
}

/// Calls @p visit(variable, row, offset) for each row of the part that is not empty.
template <class Visit>
void for_each_row(const Part& part, const FileIndex& index, Visit&& visit) {
  const auto rank = static_cast<std::uint64_t>(part.name().rank);
  const std::vector<std::uint64_t>& places = part.tables().rows;
  std::size_t next = 0;
  for (const StoredVariable& variable : index.variables) {
    const RowRange rows = index.rows_of(variable, rank, rank + 1);
    for (std::size_t b = rows.begin; b < rows.end; ++b) {
      const BoxRow row = index.row(variable, b);
      const std::uint64_t bytes = volume(row.extent) * variable.type.size_bytes;
      if (bytes == 0) {
        continue;
      }
      if (next == places.size() || places[next] > part.data_bytes() || bytes > part.data_bytes() - places[next]) {
        reject(part, "does not hold what the table of boxes says");
      }
      visit(variable, row, places[next++]);
    }
  }
  if (next != places.size()) {
    reject(part, "holds more than the table of boxes says");
  }
}

void add_item(std::vector<WriteItem>& items, Dataset dataset, Box box, const std::byte* data, bool is_all) {
  Strides dense = dense_strides(box.extent, dataset.element_size);
  items.push_back({std::move(dataset), {data, std::move(box), std::move(dense)}, is_all});
}

/// @param buffer  for a piece at a time, so small that it stays in the processor's cache
std::uint64_t digest_of(const Part& part, std::uint64_t offset, std::size_t size, std::span<std::byte> buffer,
                        Xxh3Stream& digest) {
  digest.reset();
  while (size > 0) {
    const std::span piece = buffer.first(std::min(size, buffer.size()));
    part.read(offset, piece);
    digest.update(piece);
    offset += piece.size();
    size -= piece.size();
  }
  return digest.digest();
}

}  // namespace

std::vector<PartRow> rows_of(const Part& part, const FileIndex& index) {
  std::vector<PartRow> rows;
  rows.reserve(part.tables().rows.size());
  for_each_row(part, index, [&](const StoredVariable&, const BoxRow& row, std::uint64_t offset) {
    rows.push_back({row.first_checksum, offset});
  });
  return rows;
}

std::vector<WriteItem> items_of(const Part& part, std::span<const std::byte> data, const FileIndex& index) {
  std::vector<WriteItem> items;
  for_each_row(part, index, [&](const StoredVariable& variable, const BoxRow& row, std::uint64_t offset) {
    const Box box = FileIndex::dataset_box(variable, row);
    if (variable.tile.empty()) {
      add_item(items, variable.dataset(), box, data.data() + offset, false);
      return;
    }
    for (TilePart& tile : tile_parts(variable.dataset(), box)) {
      const std::size_t bytes = bytes_of(tile.within, variable.type.size_bytes);
      add_item(items, std::move(tile.dataset), std::move(tile.within), data.data() + offset, tile.is_all);
      offset += bytes;
    }
  });
  return items;
}

void check_tables(const Part& part, const FileIndex& index) {
  std::uint64_t blocks = 0;
  for_each_row(part, index, [&](const StoredVariable& variable, const BoxRow& row, std::uint64_t) {
    blocks += FileIndex::blocks_of(variable, row).count();
  });
  if (blocks != part.tables().checksums.size()) {
    reject(part, "holds another number of checksums than the table of boxes says");
  }
}

void check_part(const Part& part, const FileIndex& index) {
  const std::vector<std::uint64_t>& checksums = part.tables().checksums;
  Bytes buffer(kCachedBytes);
  Xxh3Stream digest;
  std::size_t next = 0;
  for_each_row(part, index, [&](const StoredVariable& variable, const BoxRow& row, std::uint64_t offset) {
    const TiledSplit blocks = FileIndex::blocks_of(variable, row);
    for (std::uint64_t i = 0; i < blocks.count(); ++i) {
      const std::size_t bytes = bytes_of(blocks.block(i), variable.type.size_bytes);
      if (next == checksums.size() || digest_of(part, offset, bytes, buffer, digest) != checksums[next++]) {
        reject(part, "is damaged (checksum differs)");
      }
      offset += bytes;
    }
  });
  if (next != checksums.size()) {
    reject(part, "holds more checksums than the table of boxes says");
  }
}

}  // namespace reprieve::storage
