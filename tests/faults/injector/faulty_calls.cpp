// SPDX-License-Identifier: BSD-3-Clause
// The calls themselves, in the place of those of the C library. A close that fails has closed all the same, as in
// Linux.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <vector>

#include "faults/injector/fault_decision.hpp"

namespace {

using namespace reprieve::test;

/// The next definition of a function in the order in which libraries are searched: the C library's, or a sanitizer's.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

using Open = int(const char*, int, ...);
using OpenAt = int(int, const char*, int, ...);

/// The first half of a vector, at least one byte.
std::vector<iovec> half_of(const iovec* parts, int count, std::size_t size) {
  std::vector<iovec> half;
  for (int i = 0; i < count && size > 0; ++i) {
    half.push_back({parts[i].iov_base, std::min(parts[i].iov_len, size)});
    size -= half.back().iov_len;
  }
  return half;
}

std::size_t size_of(const iovec* parts, int count) {
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) {
    size += parts[i].iov_len;
  }
  return size;
}

template <class Real>
ssize_t write_vector(int descriptor, const iovec* parts, int count, Real&& real) {
  return transfer(Call::write, descriptor, size_of(parts, count), [&](std::size_t size) {
    const std::vector<iovec> some = half_of(parts, count, size);
    return real(some.data(), static_cast<int>(some.size()));
  });
}

std::atomic<time_t> passed{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

void reprieve::test::pass_time(std::chrono::seconds time) { passed += time.count(); }

// What a family of equal functions has in common; `auto real` is the function that they replace.
#define FAULTY_OPEN(name)                                                          \
  int name(const char* path, int flags, ...) {                                     \
    static auto* real = next<Open>(#name);                                         \
    va_list arguments;                                                             \
    va_start(arguments, flags);                                                    \
    const mode_t mode = mode_of(flags, arguments);                                 \
    va_end(arguments);                                                             \
    return attempt(Call::open, path, -1, [&] { return real(path, flags, mode); }); \
  }
#define FAULTY_OPENAT(name)                                                                          \
  int name(int directory, const char* path, int flags, ...) {                                        \
    static auto* real = next<OpenAt>(#name);                                                         \
    va_list arguments;                                                                               \
    va_start(arguments, flags);                                                                      \
    const mode_t mode = mode_of(flags, arguments);                                                   \
    va_end(arguments);                                                                               \
    return attempt(Call::open, path, directory, [&] { return real(directory, path, flags, mode); }); \
  }
#define FAULTY_PREAD(name, Offset)                                                                                \
  ssize_t name(int descriptor, void* bytes, size_t size, Offset offset) {                                         \
    static auto* real = next<ssize_t(int, void*, size_t, Offset)>(#name);                                         \
    return transfer(                                                                                              \
        Call::read, descriptor, size, [&](size_t part) { return real(descriptor, bytes, part, offset); }, bytes); \
  }
#define FAULTY_PWRITE(name, Offset)                                                      \
  ssize_t name(int descriptor, const void* bytes, size_t size, Offset offset) {          \
    static auto* real = next<ssize_t(int, const void*, size_t, Offset)>(#name);          \
    return transfer(Call::write, descriptor, size,                                       \
                    [&](size_t part) { return real(descriptor, bytes, part, offset); }); \
  }
#define FAULTY_PWRITEV(name, Offset)                                                       \
  ssize_t name(int descriptor, const iovec* parts, int count, Offset offset) {             \
    static auto* real = next<ssize_t(int, const iovec*, int, Offset)>(#name);              \
    return write_vector(descriptor, parts, count, [&](const iovec* some, int some_count) { \
      return real(descriptor, some, some_count, offset);                                   \
    });                                                                                    \
  }
#define FAULTY_ON_DESCRIPTOR(name, call)                                         \
  int name(int descriptor) {                                                     \
    static auto* real = next<int(int)>(#name);                                   \
    return attempt(call, nullptr, descriptor, [&] { return real(descriptor); }); \
  }
#define FAULTY_STAT(name)                                                     \
  int name(const char* path, struct stat* status) noexcept {                  \
    static auto* real = next<int(const char*, struct stat*)>(#name);          \
    return attempt(Call::stat, path, -1, [&] { return real(path, status); }); \
  }
#define FAULTY_UNLINK(name)                                             \
  int name(const char* path) noexcept {                                 \
    static auto* real = next<int(const char*)>(#name);                  \
    return attempt(Call::unlink, path, -1, [&] { return real(path); }); \
  }
#define FAULTY_TRUNCATE(name, Offset)                                                            \
  int name(int descriptor, Offset size) noexcept {                                               \
    static auto* real = next<int(int, Offset)>(#name);                                           \
    return attempt(Call::truncate, nullptr, descriptor, [&] { return real(descriptor, size); }); \
  }
#define FAULTY_ALLOCATE(name, Offset)                                                                          \
  int name(int descriptor, int mode, Offset offset, Offset size) {                                             \
    static auto* real = next<int(int, int, Offset, Offset)>(#name);                                            \
    return attempt(Call::allocate, nullptr, descriptor, [&] { return real(descriptor, mode, offset, size); }); \
  }

extern "C" {

FAULTY_OPEN(open)
FAULTY_OPEN(open64)
FAULTY_OPENAT(openat)
FAULTY_OPENAT(openat64)
FAULTY_PREAD(pread, off_t)
FAULTY_PREAD(pread64, off64_t)
FAULTY_PWRITE(pwrite, off_t)
FAULTY_PWRITE(pwrite64, off64_t)
FAULTY_PWRITEV(pwritev, off_t)
FAULTY_PWRITEV(pwritev64, off64_t)
FAULTY_ON_DESCRIPTOR(fsync, Call::fsync)
FAULTY_ON_DESCRIPTOR(fdatasync, Call::fsync)
FAULTY_STAT(stat)
FAULTY_STAT(lstat)
FAULTY_UNLINK(unlink)
FAULTY_UNLINK(rmdir)
FAULTY_UNLINK(remove)
FAULTY_TRUNCATE(ftruncate, off_t)
FAULTY_TRUNCATE(ftruncate64, off64_t)
FAULTY_ALLOCATE(fallocate, off_t)
FAULTY_ALLOCATE(fallocate64, off64_t)

ssize_t read(int descriptor, void* bytes, size_t size) {
  static auto* real = next<ssize_t(int, void*, size_t)>("read");
  return transfer(
      Call::read, descriptor, size, [&](size_t part) { return real(descriptor, bytes, part); }, bytes);
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  static auto* real = next<ssize_t(int, const void*, size_t)>("write");
  return transfer(Call::write, descriptor, size, [&](size_t part) { return real(descriptor, bytes, part); });
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  static auto* real = next<ssize_t(int, const iovec*, int)>("writev");
  return write_vector(descriptor, parts, count,
                      [&](const iovec* some, int some_count) { return real(descriptor, some, some_count); });
}

int fstat(int descriptor, struct stat* status) noexcept {
  static auto* real = next<int(int, struct stat*)>("fstat");
  return attempt(Call::stat, nullptr, descriptor, [&] { return real(descriptor, status); });
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) noexcept {
  static auto* real = next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  const int decision = decide(Call::thread, nullptr, -1);
  return decision > 0 ? decision : real(thread, attributes, work, argument);
}

int close(int descriptor) {
  static auto* real = next<int(int)>("close");
  const int decision = decide(Call::close, nullptr, descriptor);
  const int result = real(descriptor);
  if (decision > 0) {
    errno = decision;
    return -1;
  }
  return result;
}

int rename(const char* from, const char* to) noexcept {
  static auto* real = next<int(const char*, const char*)>("rename");
  return attempt(Call::rename, from, -1, [&] { return real(from, to); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* real = next<int(const char*, mode_t)>("mkdir");
  return attempt(Call::mkdir, path, -1, [&] { return real(path, mode); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  static auto* real = next<int(int, const char*, int)>("unlinkat");
  return attempt(Call::unlink, path, directory, [&] { return real(directory, path, flags); });
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  static auto* real = next<int(int, const char*, int, const char*)>("renameat");
  return attempt(Call::rename, from, from_directory, [&] { return real(from_directory, from, to_directory, to); });
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  static auto* real = next<int(int, const char*, mode_t)>("mkdirat");
  return attempt(Call::mkdir, path, directory, [&] { return real(directory, path, mode); });
}

int fstatat(int directory, const char* path, struct stat* status, int flags) noexcept {
  static auto* real = next<int(int, const char*, struct stat*, int)>("fstatat");
  return attempt(Call::stat, path, directory, [&] { return real(directory, path, status, flags); });
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* real = next<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (clock == CLOCK_MONOTONIC) {
    time->tv_sec += passed;
  }
  return result;
}

DIR* opendir(const char* path) {
  static auto* real = next<DIR*(const char*)>("opendir");
  const int decision = decide(Call::list, path, -1);
  if (decision > 0) {
    errno = decision;
    return nullptr;
  }
  return real(path);
}

dirent* readdir(DIR* directory) {
  static auto* real = next<dirent*(DIR*)>("readdir");
  const int decision = decide(Call::list, nullptr, ::dirfd(directory));
  if (decision > 0) {
    errno = decision;
    return nullptr;
  }
  return real(directory);
}

}  // extern "C"
