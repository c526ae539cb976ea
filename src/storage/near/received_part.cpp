// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/received_part.hpp"

#include "core/kill_point.hpp"

namespace reprieve::storage {

ReceivedPart::ReceivedPart(const core::Directory& directory, const std::string& name)
    : file_(make_part_file(directory, name)) {}

/// The space is taken before it is mapped: a write to a page that the system cannot give would end the process.
void ReceivedPart::begin(std::size_t size) {
  void_part(file_);
  size_ = size - kPartDataOffset;
  if (size_ > memory_.bytes().size()) {
    memory_ = PartMemory();
    file_.allocate(size);
    memory_ = PartMemory::of_file(file_, kPartDataOffset, size_);
  }
}

void ReceivedPart::seal(std::span<const std::byte> seal) {
  core::kill_point(core::KillPoint::near_received);
  file_.write_all(seal, 0);
  core::kill_point(core::KillPoint::near_partner_sealed);
}

}  // namespace reprieve::storage
