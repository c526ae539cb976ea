// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Memory of a GPU for a benchmark, by the driver of CUDA, if this machine has one.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace reprieve::bench {

struct CudaCalls;

/// A device of this process. Every failure is a std::runtime_error.
class Gpu {
 public:
  /// Null if there is no driver or no device; @p why then says which. @param number  of the process among those of its
  /// host
  [[nodiscard]] static std::unique_ptr<Gpu> open(int number, std::string& why);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Freed with the device.
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes);
  /// Memory of the host that the system does not move. Freed with the device.
  [[nodiscard]] std::span<std::byte> allocate_pinned(std::size_t bytes);
  void copy_out(std::span<std::byte> host, std::span<const std::byte> device) const;
  void copy_in(std::span<std::byte> device, std::span<const std::byte> host) const;

 private:
  Gpu() = default;

  std::unique_ptr<CudaCalls> calls_;
  void* memory_ = nullptr;
  void* pinned_ = nullptr;
};

}  // namespace reprieve::bench
