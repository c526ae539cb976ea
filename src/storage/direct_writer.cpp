#include "storage/data_stream.hpp"
#include "storage/transfer.hpp"

namespace reprieve::storage {

namespace {

/// What this rank writes.
std::uint64_t bytes_of(const WritePlan& plan) {
  std::uint64_t bytes = 0;
  for (const WriteItem& item : plan.items) {
    bytes += volume(item.source.box.extent) * item.dataset.element_size;
  }
  return bytes;
}

}  // namespace

WrittenPart write_direct(const WritePlan& plan) {
  WrittenPart part;
  if (plan.items.empty()) {
    return part;
  }
  part.file.emplace(PosixFile::open_to_write(plan.file));
  DataStream stream(*part.file, plan.io, bytes_of(plan));
  part.checksums = write_items(stream, plan.items);
  stream.finish();
  return part;
}

}  // namespace reprieve::storage
