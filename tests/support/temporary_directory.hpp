// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A directory that lives as long as a test.

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

namespace reprieve::test {

/// A new, empty directory that is removed with its content at the end.
class TemporaryDirectory {
 public:
  /// @param parent  where to make it
  explicit TemporaryDirectory(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "reprieve-test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "cannot make a directory in " + parent.string());
    }
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    if (error) {
      std::cerr << "cannot remove " << path_ << ": " << error.message() << '\n';
    }
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace reprieve::test
