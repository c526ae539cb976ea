// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/received_part.hpp"

#include <algorithm>
#include <new>

#include "core/available_memory.hpp"
#include "core/kill_point.hpp"
#include "core/signals_blocked.hpp"

namespace reprieve::storage {

namespace {

/// Memory that the job's control group cannot give ends the process.
void check_there_is_room(std::uint64_t bytes) {
  constexpr std::uint64_t kStaysFree = 16;  // one part in so many
  const core::AvailableMemory memory = core::available_memory();
  const std::uint64_t available = std::min(memory.of_node, memory.of_group);
  if (bytes > available - available / kStaysFree) {
    throw std::bad_alloc();
  }
}

}  // namespace

ReceivedPart::ReceivedPart(const core::Directory& directory, const std::string& name)
    : file_(make_part_file(directory, name)) {}

/// The space is taken before it is mapped: a write to a page that the system cannot give would end the process.
void ReceivedPart::begin(std::size_t size) {
  void_part(file_);
  size_ = size - kPartDataOffset;
  if (size_ > memory_.bytes().size()) {
    check_there_is_room(size - std::min<std::uint64_t>(size, file_.size()));
    memory_ = PartMemory();
    {
      const core::SignalsBlocked blocked;  // a signal would undo it, and a timer's never let it end
      file_.allocate(size);
    }
    memory_ = PartMemory::of_file(file_, kPartDataOffset, size_);
  }
}

void ReceivedPart::seal(std::span<const std::byte> seal) {
  core::kill_point(core::KillPoint::near_received);
  file_.write_all(seal, 0);
  core::kill_point(core::KillPoint::near_partner_sealed);
}

}  // namespace reprieve::storage
