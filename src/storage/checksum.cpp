#include "storage/checksum.hpp"

// With this header the library chooses the instruction set at run time; xxhash.h alone means SSE2.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <new>

namespace reprieve::storage {

std::uint64_t xxh3(std::span<const std::byte> bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  if (state_ == nullptr) {
    throw std::bad_alloc();
  }
  reset();
}

void Xxh3Stream::reset() noexcept { XXH3_64bits_reset(state_.get()); }

void Xxh3Stream::update(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t Xxh3Stream::digest() const noexcept { return XXH3_64bits_digest(state_.get()); }

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const noexcept { XXH3_freeState(state); }

}  // namespace reprieve::storage
