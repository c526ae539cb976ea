// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/part_slot.hpp"

#include <utility>

#include "core/kill_point.hpp"
#include "core/signals_blocked.hpp"

namespace reprieve::storage {

namespace {

/// Copied with full cache lines; and large rows so that they can be handed to direct I/O as they are.
constexpr std::size_t kRowAlignment = 64;
constexpr std::size_t kLargeRow = std::size_t{64} << 10U;
constexpr std::size_t kLargeRowAlignment = 4096;

std::size_t aligned(std::size_t place, std::size_t alignment) {
  return (place + alignment - 1) / alignment * alignment;
}

/// Calls @p visit(item, place) for each item that is not empty; returns the size of the whole.
template <class Items, class Visit>
std::size_t for_each_place(Items& items, Visit&& visit) {
  std::size_t next = 0;
  for (auto& item : items) {
    const std::size_t size = item.bytes();
    if (size == 0) {
      continue;
    }
    if (!item.continues_row) {
      next = aligned(next, size < kLargeRow ? kRowAlignment : kLargeRowAlignment);
    }
    visit(item, next);
    next += size;
  }
  return next;
}

}  // namespace

PartSlot::PartSlot(const core::Directory& directory, const std::string& name)
    : file_(make_part_file(directory, name)), in_memory_(file_.is_in_memory()) {}

std::size_t PartSlot::bytes_for(std::span<const WriteItem> items) {
  return for_each_place(items, [](const WriteItem&, std::size_t) {});
}

/// Of a file in memory the space is taken before it is mapped: a write to a page that the system cannot give would end
/// the process.
void PartSlot::make_room(std::size_t size) {
  if (size <= capacity()) {
    return;
  }
  memory_ = PartMemory();
  if (in_memory_) {
    {
      const core::SignalsBlocked blocked;  // a signal would undo it, and a timer's never let it end
      file_.allocate(kPartDataOffset + size);
    }
    memory_ = PartMemory::of_file(file_, kPartDataOffset, size);
  } else {
    memory_ = PartMemory::beside(size);
  }
}

void PartSlot::copy(std::span<WriteItem> items) {
  void_part(file_);
  make_room(bytes_for(items));
  rows_.clear();
  std::byte* const memory = memory_.bytes().data();
  state::Staging staging;
  used_ = for_each_place(items, [&](WriteItem& item, std::size_t place) {
    BoxView<const std::byte>& source = item.source;
    const Strides dense = dense_strides(source.box.extent, item.dataset.element_size);
    copy_from(source, source.data, source.box.extent, item.dataset.element_size, memory + place, dense, staging);
    source.data = memory + place;
    source.strides_bytes = dense;
    source.space = nullptr;
    if (!item.continues_row) {
      rows_.push_back(place);
    }
  });
  core::kill_point(core::KillPoint::near_copied);
}

std::span<std::byte> PartSlot::whole() {
  const auto size = static_cast<std::size_t>(file_.size());
  if (whole_.bytes().size() < size) {
    whole_ = PartMemory::read(file_, 0, size);
  }
  return whole_.bytes();
}

void PartSlot::complete(std::span<const WriteItem> items, const PartName& name, std::optional<StructureImage> image) {
  const PartTables tables{rows_, checksums_of(items), std::move(image)};
  core::kill_point(core::KillPoint::near_checksums_known);
  if (!in_memory_) {
    file_.write_all(memory_.bytes().first(used_), kPartDataOffset);
  }
  complete_part(file_, used_, name, tables);
  core::kill_point(core::KillPoint::near_sealed);
}

}  // namespace reprieve::storage
