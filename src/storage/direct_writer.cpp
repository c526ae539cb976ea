#include "storage/transfer.hpp"

namespace reprieve::storage {

std::vector<std::uint64_t> write_direct(const WritePlan& plan, bool durable) {
  if (plan.items.empty()) {
    return {};
  }
  PosixFile file = PosixFile::open_to_write(plan.file);
  std::vector<std::uint64_t> checksums = write_items(file, plan.items);
  if (durable) {
    file.sync();
  }
  file.close();
  return checksums;
}

}  // namespace reprieve::storage
