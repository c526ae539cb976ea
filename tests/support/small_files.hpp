// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A limit on the size of files, which stands for a full disk.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace reprieve::test {

/// While it lives, files of this process cannot have more than so many bytes.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t most_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{most_bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~SmallFiles() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace reprieve::test
