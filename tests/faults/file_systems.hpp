// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Small file systems of a test's own, which it fills, breaks and cuts off.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace reprieve::test {

/// Why file systems cannot be mounted here; empty if they can. From then on mounts of this process and of those that it
/// starts are seen by nobody else, and vanish with it.
std::string why_no_mounts(const std::vector<std::string>& programs);

/// Runs a program to its end, and returns what it printed. @throws std::runtime_error if it fails
std::string run_program(const std::vector<std::string>& arguments);

/// Something that is mounted while this lives.
class Mount {
 public:
  /// @param options  as for mount(8)
  Mount(const std::string& type, const std::filesystem::path& what, const std::string& options);
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return point_.path(); }

  /// Unmounts and mounts again, as at the next boot.
  void again();

 private:
  void mount();
  void unmount();

  std::string type_;
  std::filesystem::path what_;
  std::string options_;
  TemporaryDirectory point_{"/var/tmp"};
};

/// A file with an empty file system in it.
class Image {
 public:
  /// @param type  ext4, xfs, btrfs
  Image(const std::string& type, std::size_t size_mb, const std::vector<std::string>& mkfs_options = {});

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }
  [[nodiscard]] const std::string& type() const noexcept { return type_; }

 private:
  std::string type_;
  TemporaryDirectory directory_{"/var/tmp"};
  std::filesystem::path file_ = directory_ / "image";
};

/// Least size, in MB, for a file system of that type.
std::size_t least_size_mb(const std::string& type);

enum class Cut : std::uint32_t {
  keep_log = 1,  ///< what is in the log of the file system is written out first
  drop_all = 2,  ///< nothing more is written
};

/// The power goes: the file system does not write any more.
void cut_power(const std::filesystem::path& mounted, Cut how);

/// A disk that loses what was not flushed (faults_disk), with a file system that is mounted.
class FaultyDisk {
 public:
  explicit FaultyDisk(const std::string& type);
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return mounted_->path(); }

  /// What the disk would hold if the power went now, in @p file.
  void cut(unsigned seed, int percent, const std::filesystem::path& file) const;

 private:
  TemporaryDirectory point_{"/var/tmp"};
  std::unique_ptr<Process> daemon_;
  std::unique_ptr<Mount> mounted_;
};

}  // namespace reprieve::test
