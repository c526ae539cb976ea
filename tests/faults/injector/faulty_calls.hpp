// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Makes calls to the file system, and for threads fail, in the process that loads this library before the C library:
/// one that is linked with it, or any other with LD_PRELOAD. Calls of all threads and libraries are seen, but not what
/// the C library calls itself (fopen).

#include <chrono>
#include <cstdint>
#include <string>

namespace reprieve::test {

/// Families of calls: `write` stands for write, pwrite, writev and pwritev, `unlink` also for rmdir, and so on.
enum class Call {
  open,
  read,
  write,
  fsync,
  rename,
  mkdir,
  unlink,
  truncate,
  allocate,
  close,
  stat,
  list,
  thread,  ///< pthread_create; has no path
  count,
};

const char* to_string(Call call) noexcept;
/// @throws std::invalid_argument
Call call_of(const std::string& name);

/// In place of an error number: half of the bytes are read or written.
inline constexpr int kShort = -1;
/// In place of an error number: nothing is done, and it is said to have worked.
inline constexpr int kSkip = -2;
/// In place of an error number: one bit of what is read is wrong. Reads only.
inline constexpr int kFlip = -3;
/// In place of an error number: the call waits for `disarm`, then works.
inline constexpr int kHold = -4;
inline constexpr std::uint64_t kAlways = UINT64_MAX;

struct Fault {
  Call call = Call::open;
  int error = 0;                 ///< errno, kShort, kSkip, kFlip or kHold
  std::uint64_t occurrence = 1;  ///< the first call that fails, of those that match
  std::uint64_t count = 1;       ///< so many fail from there on
  std::string path{};            ///< only calls on paths that contain it; empty: all
};

/// From now on, in this process.
void arm(const Fault& fault);

/// What the fault did.
struct Hits {
  std::uint64_t seen = 0;    ///< calls that matched
  std::uint64_t failed = 0;  ///< calls that were made to fail
  std::string path{};        ///< of the first of those
};

/// What it has done so far.
Hits hits();

/// All calls work again.
Hits disarm();

/// From now on the monotonic clock of this process is that much ahead. Waits that begin after it take longer by as
/// much.
void pass_time(std::chrono::seconds time);

}  // namespace reprieve::test
