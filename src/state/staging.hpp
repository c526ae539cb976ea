// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Elements in the memory of a device: which memory that is, and how they come to the host and back.

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "devices/spaces.hpp"
#include "state/strided.hpp"

namespace reprieve::state {

/// The space in which a box of elements lies; null if the host reaches it. Nothing is touched, and the work of the
/// device has come to its end. @param strides  empty: side by side @param named  see devices::Spaces::find
/// @throws UsageError if the box lies there in part only, or backwards; StorageError if the device fails
[[nodiscard]] MemorySpace* space_of(const devices::Spaces& spaces, const std::byte* data, const Extents& extent,
                                    const Strides& strides, std::size_t element_size, MemorySpace* named = nullptr);

/// Two buffers on the host, through which elements come from a device and go there: while one is used, the other is on
/// its way. They are made when they are needed, and their memory is pinned. For one thread.
class Staging {
 public:
  /// Of each buffer, unless a single element is larger.
  static constexpr std::size_t kBufferBytes = kMaxBlockBytes;

  Staging() = default;
  /// Waits for what is on its way.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Begins to copy elements to the host, side by side. Not more than a buffer holds. What `take` gave last stays as
  /// it is. @throws what the space throws, as all here
  void begin(MemorySpace& space, const std::byte* from, const Strides& strides, const Extents& extent,
             std::size_t element_size);
  /// Waits for what was begun last.
  [[nodiscard]] std::span<const std::byte> take();

  /// A buffer to be filled, from which elements then go to the device of @p address.
  [[nodiscard]] std::span<std::byte> buffer_for(MemorySpace& space, const std::byte* address, std::size_t bytes);
  /// Begins to copy elements of the buffer that `buffer_for` gave to a box on the device.
  void send(MemorySpace& space, std::byte* to, const Strides& to_strides, const std::byte* from,
            const Strides& from_strides, const Extents& extent, std::size_t element_size);
  /// Waits for all that is on its way. Must be called where elements were sent.
  void finish();

  /// The same for boxes of any size. They are there when these return.
  void copy_out(MemorySpace& space, std::byte* to, const Strides& to_strides, const std::byte* from,
                const Strides& from_strides, const Extents& extent, std::size_t element_size);
  void copy_in(MemorySpace& space, std::byte* to, const Strides& to_strides, const std::byte* from,
               const Strides& from_strides, const Extents& extent, std::size_t element_size);
  /// Sets the elements of a box to zero bytes.
  void zero(MemorySpace& space, std::byte* to, const Strides& strides, const Extents& extent, std::size_t element_size);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Buffer {
    std::unique_ptr<std::byte, Free> memory{};
    std::size_t size = 0;
    MemorySpace* pinned_for = nullptr;
    const std::byte* pinned_with = nullptr;  ///< an address of its device
    MemorySpace* under_way = nullptr;        ///< copies from or to this buffer
    const std::byte* address = nullptr;      ///< of them, on the device
  };

  Buffer& prepare(MemorySpace& space, const std::byte* address, std::size_t bytes);
  static void wait_for(Buffer& buffer);
  [[nodiscard]] static bool is_at_rest(Buffer& buffer) noexcept;
  static void unpin(Buffer& buffer) noexcept;

  std::array<Buffer, 2> buffers_;
  std::size_t next_ = 0;   ///< the buffer that is used next
  std::size_t begun_ = 0;  ///< the one that `begin` used last
  std::size_t bytes_ = 0;  ///< that it brings
};

}  // namespace reprieve::state
