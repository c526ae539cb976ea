// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a child that the application forks (without exec) must not take part in. It has copies of all objects, but MPI,
/// the lock of the directory and the checkpoint are its parent's.

#include <sys/types.h>
#include <unistd.h>

namespace reprieve::core {

/// The process in which it was made.
class OwnerProcess {
 public:
  [[nodiscard]] bool is_here() const noexcept { return ::getpid() == pid_; }

 private:
  pid_t pid_ = ::getpid();
};

/// While it lives, children that are forked close their copy of the descriptor at once. There is no flag of the kernel
/// for that, as O_CLOEXEC is for programs that are started.
class ClosedOnFork {
 public:
  ClosedOnFork() = default;
  explicit ClosedOnFork(int descriptor);
  ~ClosedOnFork();
  ClosedOnFork(ClosedOnFork&& other) noexcept;
  ClosedOnFork& operator=(ClosedOnFork&& other) noexcept;

 private:
  int slot_ = -1;
};

}  // namespace reprieve::core
