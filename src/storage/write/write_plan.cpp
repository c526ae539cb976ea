// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/write_plan.hpp"

#include <algorithm>

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

}  // namespace reprieve::storage
