// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/state_copy.hpp"

#include <sys/mman.h>

#include <new>

namespace reprieve::storage {

namespace {

/// So that the parts can be handed to direct I/O as they are, and copied with full cache lines.
constexpr std::size_t kAlignment = 4096;
/// What is smaller than a page is packed more closely.
constexpr std::size_t kSmallAlignment = 64;

std::size_t round_up(std::size_t size, std::size_t alignment) { return (size + alignment - 1) / alignment * alignment; }

/// Calls @p visit(item, place) with the place of each item in the copy; returns the size of the whole.
template <class Visit>
std::size_t for_each_place(std::span<WriteItem> items, Visit&& visit) {
  std::size_t next = 0;
  for (WriteItem& item : items) {
    const std::size_t size = item.bytes();
    next = round_up(next, size < kAlignment ? kSmallAlignment : kAlignment);
    visit(item, next);
    next += size;
  }
  return next;
}

}  // namespace

StateCopy::~StateCopy() { release(); }

void StateCopy::release() noexcept {
  if (memory_ != nullptr) {
    ::munmap(memory_, capacity_);
  }
  memory_ = nullptr;
  capacity_ = 0;
}

/// From the system itself, not from the heap: what is given back is free for others, and the pages can be large ones.
void StateCopy::reserve(std::size_t size) {
  if (size <= capacity_) {
    return;
  }
  release();
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  ::madvise(memory, size, MADV_HUGEPAGE);  // a hint: where the kernel does not follow it the copy is only slower
  memory_ = static_cast<std::byte*>(memory);
  capacity_ = size;
}

void StateCopy::take(std::span<WriteItem> items) {
  reserve(for_each_place(items, [](const WriteItem&, std::size_t) {}));
  state::Staging staging;
  for_each_place(items, [&](WriteItem& item, std::size_t place) {
    BoxView<const std::byte>& source = item.source;
    const Strides dense = dense_strides(source.box.extent, item.dataset.element_size);
    copy_from(source, source.data, source.box.extent, item.dataset.element_size, memory_ + place, dense, staging);
  });
  // Only now: if a device fails, the items are as they were.
  for_each_place(items, [this](WriteItem& item, std::size_t place) {
    item.source.data = memory_ + place;
    item.source.strides_bytes = dense_strides(item.source.box.extent, item.dataset.element_size);
    item.source.space = nullptr;
  });
}

}  // namespace reprieve::storage
