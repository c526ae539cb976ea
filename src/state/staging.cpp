// SPDX-License-Identifier: BSD-3-Clause
#include "state/staging.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::state {

namespace {

constexpr std::size_t kHostPage = 4096;
/// For a few small values.
constexpr std::size_t kSmallBuffer = std::size_t{64} << 10U;
/// Of a copy of rows: what all drivers take.
constexpr std::ptrdiff_t kMostPitch = std::numeric_limits<std::int32_t>::max();

/// Calls @p copy(bytes from the first element on the device, the same on the host, rows) for all of a box, in as few
/// calls as two dimensions allow.
template <class Copy>
void for_each_rows(const Strides& device, const Strides& host, const Extents& extent, std::size_t element_size,
                   Copy&& copy) {
  const std::size_t outer =
      std::max(outer_dimensions(extent, device, element_size), outer_dimensions(extent, host, element_size));
  CopiedRows rows{inner_bytes(extent, outer, element_size)};
  rows.host_pitch = rows.device_pitch = rows.row_bytes;
  std::size_t stepped = outer;
  const auto is_pitch = [&](std::ptrdiff_t stride) {
    return stride >= static_cast<std::ptrdiff_t>(rows.row_bytes) && stride <= kMostPitch;
  };
  if (outer > 0 && is_pitch(device[outer - 1]) && is_pitch(host[outer - 1])) {
    --stepped;
    rows.rows = extent[stepped];
    rows.device_pitch = static_cast<std::size_t>(device[stepped]);
    rows.host_pitch = static_cast<std::size_t>(host[stepped]);
  }
  Extents index(stepped, 0);
  do {
    copy(distance(index, device, stepped), distance(index, host, stepped), rows);
  } while (next_index(index, extent, stepped));
}

}  // namespace

MemorySpace* space_of(const devices::Spaces& spaces, const std::byte* data, const Extents& extent,
                      const Strides& strides, std::size_t element_size, MemorySpace* named) {
  if (volume(extent) == 0) {
    return nullptr;
  }
  const Reach reach = reach_of(extent, strides.empty() ? dense_strides(extent, element_size) : strides, element_size);
  MemorySpace* const space = spaces.find(data + reach.begin, static_cast<std::size_t>(reach.end - reach.begin), named);
  if (space != nullptr && reach.begin < 0) {
    throw UsageError("it lies in the memory space '" + space->name() +
                     "' with negative strides, which are not supported there");
  }
  return space;
}

void Staging::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

Staging::~Staging() {
  for (Buffer& buffer : buffers_) {
    if (is_at_rest(buffer)) {
      unpin(buffer);
    } else {
      static_cast<void>(buffer.memory.release());  // the device may still write there
    }
  }
}

/// Another error may be under way, and the wait itself may have been what failed: so once more.
bool Staging::is_at_rest(Buffer& buffer) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      wait_for(buffer);
      return true;
    } catch (const std::exception& error) {
      core::log::debug("{}", error.what());
    }
  }
  return false;
}

void Staging::wait_for(Buffer& buffer) {
  if (buffer.under_way != nullptr) {
    buffer.under_way->wait(buffer.address);
    buffer.under_way = nullptr;
  }
}

void Staging::unpin(Buffer& buffer) noexcept {
  MemorySpace* const space = std::exchange(buffer.pinned_for, nullptr);
  if (space != nullptr && !space->unpin(buffer.memory.get(), buffer.pinned_with)) {
    static_cast<void>(buffer.memory.release());  // the driver still takes it for pinned, whoever had it next
    buffer.size = 0;
  }
}

/// The next buffer, with nothing under way.
Staging::Buffer& Staging::prepare(MemorySpace& space, const std::byte* address, std::size_t bytes) {
  Buffer& buffer = buffers_.at(next_);
  wait_for(buffer);
  if (buffer.size < bytes || buffer.pinned_for != &space) {
    unpin(buffer);
  }
  if (buffer.size < bytes) {
    const std::size_t size =
        (std::max(bytes, bytes <= kSmallBuffer ? kSmallBuffer : kBufferBytes) + kHostPage - 1) / kHostPage * kHostPage;
    buffer.memory.reset();
    buffer.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kHostPage, size)));
    buffer.size = buffer.memory ? size : 0;
    if (!buffer.memory) {
      throw std::bad_alloc();
    }
  }
  if (buffer.pinned_for != &space) {
    try {
      space.pin(buffer.memory.get(), buffer.size, address);
      buffer.pinned_for = &space;
      buffer.pinned_with = address;
    } catch (const std::exception& error) {
      core::log::debug("{}; copies continue without", error.what());
    }
  }
  return buffer;
}

void Staging::begin(MemorySpace& space, const std::byte* from, const Strides& strides, const Extents& extent,
                    std::size_t element_size) {
  bytes_ = static_cast<std::size_t>(volume(extent)) * element_size;
  Buffer& buffer = prepare(space, from, bytes_);
  buffer.under_way = &space;
  buffer.address = from;
  for_each_rows(strides, dense_strides(extent, element_size), extent, element_size,
                [&](std::ptrdiff_t device, std::ptrdiff_t host, const CopiedRows& rows) {
                  space.copy_out(buffer.memory.get() + host, from + device, rows);
                });
  begun_ = next_;
  next_ = 1 - next_;
}

std::span<const std::byte> Staging::take() {
  Buffer& buffer = buffers_.at(begun_);
  wait_for(buffer);
  return {buffer.memory.get(), bytes_};
}

std::span<std::byte> Staging::buffer_for(MemorySpace& space, const std::byte* address, std::size_t bytes) {
  return {prepare(space, address, bytes).memory.get(), bytes};
}

void Staging::send(MemorySpace& space, std::byte* to, const Strides& to_strides, const std::byte* from,
                   const Strides& from_strides, const Extents& extent, std::size_t element_size) {
  Buffer& buffer = buffers_.at(next_);
  buffer.under_way = &space;
  buffer.address = to;
  for_each_rows(to_strides, from_strides, extent, element_size,
                [&](std::ptrdiff_t device, std::ptrdiff_t host, const CopiedRows& rows) {
                  space.copy_in(to + device, from + host, rows);
                });
  next_ = 1 - next_;
}

void Staging::finish() {
  for (Buffer& buffer : buffers_) {
    wait_for(buffer);
  }
}

void Staging::copy_out(MemorySpace& space, std::byte* to, const Strides& to_strides, const std::byte* from,
                       const Strides& from_strides, const Extents& extent, std::size_t element_size) {
  const BlockSplit parts(whole(extent), element_size);
  if (parts.count() == 0) {
    return;
  }
  std::byte* before = nullptr;  // where the part goes that is on its way
  Extents part_before;
  const auto put = [&](std::span<const std::byte> part) {
    copy_box(before, to_strides, part.data(), dense_strides(part_before, element_size), part_before, element_size);
  };
  for (std::uint64_t i = 0; i < parts.count(); ++i) {
    const auto [index, part] = parts.block(i);
    const std::span<const std::byte> taken = before == nullptr ? std::span<const std::byte>() : take();
    begin(space, from + distance(index, from_strides, index.size()), from_strides, part, element_size);
    if (before != nullptr) {
      put(taken);
    }
    before = to + distance(index, to_strides, index.size());
    part_before = part;
  }
  put(take());
}

void Staging::copy_in(MemorySpace& space, std::byte* to, const Strides& to_strides, const std::byte* from,
                      const Strides& from_strides, const Extents& extent, std::size_t element_size) {
  const BlockSplit parts(whole(extent), element_size);
  for (std::uint64_t i = 0; i < parts.count(); ++i) {
    const auto [index, part] = parts.block(i);
    std::byte* const target = to + distance(index, to_strides, index.size());
    const Strides dense = dense_strides(part, element_size);
    const auto buffer = buffer_for(space, target, static_cast<std::size_t>(volume(part)) * element_size);
    copy_box(buffer.data(), dense, from + distance(index, from_strides, index.size()), from_strides, part,
             element_size);
    send(space, target, to_strides, buffer.data(), dense, part, element_size);
  }
  finish();
}

void Staging::zero(MemorySpace& space, std::byte* to, const Strides& strides, const Extents& extent,
                   std::size_t element_size) {
  const BlockSplit parts(whole(extent), element_size);
  for (std::uint64_t i = 0; i < parts.count(); ++i) {
    const auto [index, part] = parts.block(i);
    std::byte* const target = to + distance(index, strides, index.size());
    const auto buffer = buffer_for(space, target, static_cast<std::size_t>(volume(part)) * element_size);
    std::memset(buffer.data(), 0, buffer.size());
    send(space, target, strides, buffer.data(), dense_strides(part, element_size), part, element_size);
  }
  finish();
}

}  // namespace reprieve::state
