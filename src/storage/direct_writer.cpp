#include "storage/transfer.hpp"

namespace reprieve::storage {

WrittenPart write_direct(const WritePlan& plan) {
  WrittenPart part;
  if (!plan.items.empty()) {
    part.file.emplace(PosixFile::open_to_write(plan.file));
    part.checksums = write_items(*part.file, plan.items);
  }
  return part;
}

}  // namespace reprieve::storage
