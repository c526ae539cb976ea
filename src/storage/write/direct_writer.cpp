#include <algorithm>

#include "storage/write/data_stream.hpp"
#include "storage/write/transfer.hpp"

namespace reprieve::storage {

std::uint64_t WritePlan::own_bytes() const {
  std::uint64_t bytes = 0;
  for (const WriteItem& item : items) {
    bytes += item.bytes();
  }
  return bytes;
}

std::uint64_t WritePlan::end_in_file() const {
  std::uint64_t end = 0;
  for (const Variable& variable : variables) {
    end = std::max(end, variable.file_offset + variable.bytes);
  }
  return end;
}

WrittenPart write_direct(const WritePlan& plan) {
  WrittenPart part;
  if (plan.items.empty()) {
    return part;
  }
  check_file_size_limit(plan.file, plan.end_in_file());  // this rank may have another one than the chief
  part.file.emplace(PosixFile::open_to_write(plan.file));
  DataStream stream(*part.file, plan.io, plan.own_bytes());
  part.checksums = write_items(stream, plan.items);
  stream.finish();
  return part;
}

}  // namespace reprieve::storage
