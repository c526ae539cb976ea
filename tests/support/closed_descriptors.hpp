// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace reprieve::test {

/// While it lives, 0, 1 and 2 are closed, as in a program that has left its terminal.
class ClosedDescriptors {
 public:
  ClosedDescriptors() {
    for (int number = 0; number < 3; ++number) {
      kept_.at(static_cast<std::size_t>(number)) = ::fcntl(number, F_DUPFD_CLOEXEC, 100);
    }
    for (int number = 0; number < 3; ++number) {
      ::close(number);
    }
  }
  ~ClosedDescriptors() {
    for (int number = 0; number < 3; ++number) {
      const int kept = kept_.at(static_cast<std::size_t>(number));
      if (kept >= 0) {
        ::dup2(kept, number);
        ::close(kept);
      }
    }
  }
  ClosedDescriptors(const ClosedDescriptors&) = delete;
  ClosedDescriptors& operator=(const ClosedDescriptors&) = delete;

 private:
  std::array<int, 3> kept_{};
};

}  // namespace reprieve::test
