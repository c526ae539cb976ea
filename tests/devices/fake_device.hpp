// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Two devices that are none, behind the interface of a driver. Their memory cannot be reached by the host: a touch
/// ends the process. Copies are made when they are waited for, and not before, and so is the work of the program.

#include <cstddef>
#include <cstdint>

extern "C" {

enum FakeMemory { FAKE_DEVICE = 0, FAKE_MANAGED = 1, FAKE_POOL = 2 };

/// What the driver saw since the last `reset`.
struct FakeCounts {
  std::uint64_t bytes_out;     ///< from a device to the host
  std::uint64_t bytes_in;      ///< from the host to a device
  std::uint64_t copies;        ///< calls
  std::uint64_t largest_copy;  ///< bytes
  std::uint64_t not_pinned;    ///< copies from or to memory that was not pinned
  std::uint64_t pinned;        ///< bytes at the moment; not reset
  std::uint64_t most_pinned;   ///< bytes
  std::uint64_t while_busy;    ///< copies of memory of a device that still worked
  std::uint64_t calls;         ///< of functions that can fail
  std::int64_t contexts;       ///< that were made current and are so still; not reset
};

struct FakeDevices {
  void* (*allocate)(std::size_t bytes, FakeMemory kind, int device);
  void (*release)(void* memory);
  /// Where the bytes of device memory are for the test.
  unsigned char* (*bytes_of)(void* memory);
  /// Work of the program, which is not done yet: sets bytes when somebody waits for the device, or for that stream.
  void (*launch)(void* memory, std::size_t bytes, int value);
  /// The @p nth call of a function from now on fails (1: the next one); of any function if @p function is null.
  void (*fail)(const char* function, std::uint64_t nth);
  void (*reset)();
  const FakeCounts* counts;
  /// Every call of that function has this result, 0: as ever.
  void (*answer)(const char* function, int result);
  /// Memory of the host that is pinned still is so no more.
  void (*unpin_all)();
};

/// Each of the two libraries has it.
const FakeDevices* fake_devices();
}
