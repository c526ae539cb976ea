// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Memory that belongs to a device: how the library copies it to the host and back. Memory of CUDA and HIP is known by
/// itself, without a word of the program's (apps/guide/devices.md); other devices are added by `add_memory_space`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "reprieve/export.h"

namespace reprieve {

/// Whose memory an address is, as a memory space sees it.
enum class MemoryOwner : std::uint8_t {
  other,    ///< not of this space: the host's, or unknown
  device,   ///< of this space; the host cannot reach it
  unified,  ///< of this space; the host reaches it too, once the work of the device has come to its end
};

/// A copy of rows of bytes. What lies side by side is one row.
struct CopiedRows {
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t host_pitch = 0;    ///< from one row to the next on the host, in bytes; at least `row_bytes`
  std::size_t device_pitch = 0;  ///< the same on the device
};

/// A kind of device memory. The library calls it on the thread that saves or restores, which need not be the one that
/// made the memory. What it throws is an error on all ranks, and no checkpoint is made; a StorageError with the code
/// `io` is what the built-in spaces throw.
class REPRIEVE_EXPORT MemorySpace {
 public:
  MemorySpace() = default;
  virtual ~MemorySpace();
  MemorySpace(const MemorySpace&) = delete;
  MemorySpace& operator=(const MemorySpace&) = delete;

  /// For messages: "cuda".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Must not touch the memory: it may be anybody's.
  [[nodiscard]] virtual MemoryOwner owner_of(const void* address) const = 0;
  /// Returns when the work that the program gave to the device of @p address has come to its end. CUDA: the work of the
  /// context in which the memory was made; not that of other devices, which may write to unified memory or to a peer.
  virtual void synchronize(const void* address) = 0;
  /// Begins a copy; it may be there only after `wait`. The memory on the host stays as it is until then.
  virtual void copy_out(void* host, const void* device, const CopiedRows& rows) = 0;
  virtual void copy_in(void* device, const void* host, const CopiedRows& rows) = 0;
  /// Returns when the copies that were begun from or to the device of @p address are there.
  virtual void wait(const void* address) = 0;
  /// Memory of the host is about to be used for copies from and to the device of @p address, again and again: copies
  /// may be faster if the system does not move it. Without it they must work too.
  virtual void pin(void* host, std::size_t bytes, const void* address);
  /// No more. @p address  as given to `pin`; the program may have freed that memory since
  /// @return false if it did not work: the memory of the host is then never freed
  [[nodiscard]] virtual bool unpin(void* host, const void* address) noexcept;
};

/// From now on every address that is saved or restored is shown to this space too, after the built-in ones, until the
/// process ends. On any thread, but not while a save or a restore runs. @throws UsageError if there is one of that name
REPRIEVE_EXPORT void add_memory_space(std::shared_ptr<MemorySpace> space);

/// The memory of CUDA, by the driver that the program has loaded; for `Checkpoint::set_memory_space`.
/// @param stream  a CUstream or cudaStream_t, which must live as long as the Checkpoint: the work in it is waited for
/// before each save and restore. Copies go through the default stream all the same, and that one waits for other
/// streams of its context, unless they were made as non-blocking ones. Null: all work of the context in which the
/// memory was made
/// @throws UsageError if the program has not loaded libcuda.so.1
REPRIEVE_EXPORT std::shared_ptr<MemorySpace> cuda_memory(void* stream = nullptr);
/// The same for HIP: a hipStream_t, libamdhip64.so.
REPRIEVE_EXPORT std::shared_ptr<MemorySpace> hip_memory(void* stream = nullptr);

/// A space by its name: "cuda", "hip", or one that was added. @param stream  of the first two
/// @throws UsageError if there is none
REPRIEVE_EXPORT std::shared_ptr<MemorySpace> memory_space(std::string_view name, void* stream = nullptr);

}  // namespace reprieve
