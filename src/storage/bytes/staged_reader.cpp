// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/staged_reader.hpp"

#include <algorithm>

#include "storage/bytes/streaming_copy.hpp"

namespace reprieve::storage {

namespace {

constexpr std::size_t kStagePage = 4096;
constexpr std::size_t kCacheLine = 64;

std::uintptr_t address_of(const std::byte* place) noexcept {
  return reinterpret_cast<std::uintptr_t>(place);
}  // NOLINT

}  // namespace

bool StagedReader::is_faster(const std::byte* to, std::uint64_t offset) noexcept {
  return address_of(to) % kCacheLine != offset % kCacheLine;
}

/// It lies to pages as the bytes in the file do.
std::span<std::byte> StagedReader::piece(std::uint64_t offset, std::size_t wanted) {
  if (!memory_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(kPieceBytes + 2 * kStagePage);
  }
  const std::size_t to_page = kStagePage - address_of(memory_.get()) % kStagePage;
  return {memory_.get() + to_page + offset % kStagePage, std::min(wanted, kPieceBytes)};
}

void StagedReader::read(const PosixFile& file, std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest) {
  while (!to.empty()) {
    const auto bytes = piece(offset, to.size());
    file.read_all(bytes, offset);
    if (digest != nullptr) {
      digest->update(bytes);
    }
    streaming_copy(bytes, to.first(bytes.size()));
    to = to.subspan(bytes.size());
    offset += bytes.size();
  }
}

}  // namespace reprieve::storage
