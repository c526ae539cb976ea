// SPDX-License-Identifier: BSD-3-Clause
#include "storage/near/part_memory.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace reprieve::storage {

PartMemory::~PartMemory() {
  if (memory_ != nullptr) {
    ::munmap(memory_, size_);
  }
}

PartMemory::PartMemory(PartMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PartMemory& PartMemory::operator=(PartMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

PartMemory PartMemory::map(int protection, int flags, int descriptor, std::uint64_t offset, std::size_t size) {
  if (size == 0) {
    return {};
  }
  void* const memory = ::mmap(nullptr, size, protection, flags, descriptor, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  return {static_cast<std::byte*>(memory), size};
}

PartMemory PartMemory::of_file(const PosixFile& file, std::uint64_t offset, std::size_t size) {
  return map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.descriptor(), offset, size);
}

PartMemory PartMemory::beside(std::size_t size) {
  PartMemory made = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, size);
  if (size > 0) {
    ::madvise(made.memory_, size,
              MADV_HUGEPAGE);  // a hint: where the kernel does not follow it the copy is only slower
  }
  return made;
}

PartMemory PartMemory::read(const PosixFile& file, std::uint64_t offset, std::size_t size) {
  if (offset > file.size() || size > file.size() - offset) {
    throw CorruptError(file.path().string() + ": its data end too early");
  }
  if (file.is_in_memory()) {
    return map(PROT_READ, MAP_SHARED, file.descriptor(), offset, size);
  }
  PartMemory made = beside(size);
  file.read_all(made.bytes(), offset);
  return made;
}

}  // namespace reprieve::storage
