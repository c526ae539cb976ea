// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/assembly.hpp"

#include "core/kill_point.hpp"
#include "storage/write/data_stream.hpp"

namespace reprieve::storage {

void begin_assembly(const core::FileAddress& file, const StructureImage& image) {
  check_file_size_limit(file, image.seal.file_size);
  PosixFile made = PosixFile::create(file);
  image.put_into(made);
  made.close();
  core::kill_point(core::KillPoint::drain_begun);
}

void add_part(const core::FileAddress& file, const Part& part, const FileIndex& index, bool durable) {
  const PartMemory data = part.data();
  const std::vector<WriteItem> items = items_of(part, data.bytes(), index);
  PosixFile target = PosixFile::open_to_write(file);
  DataStream stream(target, durable ? FileIo::automatic : FileIo::page_cache, data.bytes().size());
  const std::vector<std::uint64_t> checksums = write_items(stream, items);
  stream.finish();
  if (checksums != part.tables().checksums) {
    throw CorruptError("the part of rank " + std::to_string(part.name().rank) +
                       " of a near copy is damaged (checksum differs)");
  }
  if (durable) {
    target.sync();
  }
  target.close();
  core::kill_point(core::KillPoint::drain_part_written);
}

void end_assembly(const core::FileAddress& file, const StructureImage& image, const FileIndex& index, bool durable) {
  PosixFile target = PosixFile::open_to_write(file);
  complete_file(target, image.seal, index.checksums.span());
  if (durable) {
    target.sync();
  }
  target.close();
  core::kill_point(core::KillPoint::drain_sealed);
}

}  // namespace reprieve::storage
