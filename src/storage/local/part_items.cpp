// SPDX-License-Identifier: BSD-3-Clause
#include "storage/local/part_items.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/failpoint.hpp"
#include "storage/format/dataset.hpp"
#include "storage/write/data_stream.hpp"

namespace reprieve::storage {

namespace {

[[noreturn]] void reject(const Part& part, const char* why) {
  throw CorruptError("the part of rank " + std::to_string(part.name().rank) + " of a node-local copy " + why);
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

/// The rows of a part, ascending. @throws CorruptError if it is not of that file
std::vector<PartRow> rows_of(const Part& part, const FileIndex& index) {
  std::vector<PartRow> rows;
  rows.reserve(part.tables().rows.size());
  std::uint64_t blocks = 0;
  for_each_row(part, index, [&](const StoredVariable& variable, const BoxRow& row, std::uint64_t offset) {
    rows.push_back({row.first_checksum, offset});
    blocks += FileIndex::blocks_of(variable, row).count();
  });
  if (blocks != part.tables().checksums.size()) {
    reject(part, "holds another number of checksums than the table of boxes says");
  }
  return rows;
}

/// The same as items that can be written into the file. @param data  of the part, to which the items refer
std::vector<WriteItem> items_of(const Part& part, std::span<const std::byte> data, const FileIndex& index) {
  std::vector<WriteItem> items;
  for_each_row(part, index, [&](const StoredVariable& variable, const BoxRow& row, std::uint64_t offset) {
    const Box box = FileIndex::dataset_box(variable, row);
    if (variable.chunk.empty()) {
      add_item(items, variable.dataset(), box, data.data() + offset, false);
      return;
    }
    for (ChunkPart& chunk : chunk_parts(variable.dataset(), box)) {
      const std::size_t bytes = bytes_of(chunk.within, variable.type.size_bytes);
      add_item(items, std::move(chunk.dataset), std::move(chunk.within), data.data() + offset, chunk.is_all);
      offset += bytes;
    }
  });
  return items;
}

}  // namespace

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
  const auto shared = std::make_shared<const Read>(std::move(data));
  for (const PartRow& row : rows) {
    rows_.insert_or_assign(row.first_checksum, Row{shared, row.offset});
  }
}

bool PartsSource::has(const StoredVariable& variable, const BoxRow& row) const {
  return volume(row.extent) * variable.type.size_bytes == 0 || rows_.contains(row.first_checksum);
}

/// Blocks lie one after the other.
std::uint64_t PartsSource::place_in_row(const StoredVariable& variable, const BoxRow& row, std::uint64_t number) const {
  if (number == 0) {
    return 0;
  }
  if (row_of_places_ != row.first_checksum) {
    const ChunkedSplit split = FileIndex::blocks_of(variable, row);
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
  const auto found = rows_.find(row.first_checksum);
  if (found == rows_.end()) {
    throw CorruptError("the part of rank " + std::to_string(row.rank) + " of a node-local copy is not on this host");
  }
  (*found->second.data)(found->second.offset + place_in_row(variable, row, number), content, digest);
}

void begin_assembly(const core::FileAddress& file, const StructureImage& image) {
  check_file_size_limit(file, image.commit_record.file_size);
  PosixFile made = PosixFile::create(file);
  image.put_into(made);
  made.close();
  core::failpoint(core::Failpoint::drain_begun);
}

void add_part(const core::FileAddress& file, const Part& part, std::span<const std::byte> data, const FileIndex& index,
              bool durable) {
  const std::vector<WriteItem> items = items_of(part, data, index);
  PosixFile target = PosixFile::open_to_write(file);
  DataStream stream(target, durable ? FileIo::automatic : FileIo::page_cache, data.size());
  const std::vector<std::uint64_t> checksums = write_items(stream, items);
  stream.finish();
  if (checksums != part.tables().checksums) {
    reject(part, "is corrupt (checksum differs)");
  }
  if (durable) {
    target.sync();
  }
  target.close();
  core::failpoint(core::Failpoint::drain_part_written);
}

void end_assembly(const core::FileAddress& file, const StructureImage& image, const FileIndex& index, bool durable) {
  PosixFile target = PosixFile::open_to_write(file);
  complete_file(target, image.commit_record, index.checksums.span());
  if (durable) {
    target.sync();
  }
  target.close();
  core::failpoint(core::Failpoint::drain_completed);
}

}  // namespace reprieve::storage
