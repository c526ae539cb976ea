// SPDX-License-Identifier: BSD-3-Clause
#include "faults/file_systems.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <system_error>

namespace reprieve::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kLimit = 60s;

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// The request of ext4, xfs and others that ends all writing (their header is not part of the kernel's interface).
constexpr unsigned long kShutDown = _IOR('X', 125, std::uint32_t);

bool is_program(const std::string& name) {
  for (const char* folder : {"/usr/sbin", "/sbin", "/usr/bin", "/bin"}) {
    if (fs::exists(fs::path(folder) / name)) {
      return true;
    }
  }
  return false;
}

bool has_private_mounts() {
  static const bool done =
      ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return done;
}

}  // namespace

std::string why_no_mounts(const std::vector<std::string>& programs) {
  if (::geteuid() != 0) {
    return "only root can mount";
  }
  for (const std::string& name : programs) {
    if (!is_program(name)) {
      return "no " + name + " here (apps/install-packages.sh tests)";
    }
  }
  if (::access("/dev/loop-control", R_OK | W_OK) != 0) {
    return "no loop devices here";
  }
  return has_private_mounts() ? "" : "no mount namespace can be made here";
}

std::string run_program(const std::vector<std::string>& arguments) {
  Process process({.arguments = arguments});
  if (process.wait(kLimit) != 0) {
    throw std::runtime_error(arguments.front() + " failed: " + process.out() + process.err());
  }
  return process.out();
}

Mount::Mount(const std::string& type, const fs::path& what, const std::string& options)
    : type_(type), what_(what), options_(options) {
  mount();
}

Mount::~Mount() {
  try {
    unmount();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    ::umount2(path().c_str(), MNT_DETACH);
  }
}

void Mount::mount() { run_program({"mount", "-t", type_, "-o", options_, what_.string(), path().string()}); }

void Mount::unmount() {
  // A process that was killed may have files open for a moment.
  if (!wait_until([this] { return ::umount2(path().c_str(), 0) == 0 || errno != EBUSY; }, kLimit)) {
    throw_errno("cannot unmount " + path().string());
  }
}

void Mount::again() {
  unmount();
  mount();
}

Image::Image(const std::string& type, std::size_t size_mb, const std::vector<std::string>& mkfs_options) : type_(type) {
  std::ofstream(file_).close();
  fs::resize_file(file_, size_mb << 20U);
  std::vector<std::string> command{"mkfs." + type, "-q"};
  command.insert(command.end(), mkfs_options.begin(), mkfs_options.end());
  command.push_back(file_.string());
  run_program(command);
}

std::size_t least_size_mb(const std::string& type) { return type == "xfs" ? 320 : (type == "btrfs" ? 128 : 64); }

void cut_power(const fs::path& mounted, Cut how) {
  const int descriptor = ::open(mounted.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    throw_errno("cannot open " + mounted.string());
  }
  auto mode = static_cast<std::uint32_t>(how);
  const int result = ::ioctl(descriptor, kShutDown, &mode);
  const int error_number = errno;
  ::close(descriptor);
  if (result != 0) {
    errno = error_number;
    throw_errno("cannot shut " + mounted.string() + " down");
  }
}

FaultyDisk::FaultyDisk(const std::string& type) {
  daemon_ = std::make_unique<Process>(
      Command{.arguments = {program("faults_disk"), std::to_string(least_size_mb(type)), point_.path().string()}});
  const fs::path disk = point_ / "disk";
  if (!wait_until([&] { return fs::exists(disk) || !daemon_->running(); }, kLimit) || !daemon_->running()) {
    throw std::runtime_error("faults_disk does not start: " + daemon_->err());
  }
  run_program({"mkfs." + type, "-q", disk.string()});
  mounted_ = std::make_unique<Mount>(type, disk, "loop");
}

FaultyDisk::~FaultyDisk() {
  mounted_.reset();
  if (!wait_until([this] { return ::umount2(point_.path().c_str(), 0) == 0 || errno != EBUSY; }, kLimit)) {
    ::umount2(point_.path().c_str(), MNT_DETACH);
  }
  static_cast<void>(daemon_->wait(kLimit));
}

void FaultyDisk::cut(unsigned seed, int percent, const fs::path& file) const {
  const std::string line = "cut " + std::to_string(seed) + " " + std::to_string(percent) + " " + file.string();
  const int control = ::open((point_ / "control").c_str(), O_WRONLY | O_CLOEXEC);
  const ssize_t written = control < 0 ? -1 : ::write(control, line.data(), line.size());
  const int error_number = errno;
  ::close(control);
  if (written != static_cast<ssize_t>(line.size())) {
    throw std::system_error(error_number, std::generic_category(), "cannot cut the power of the disk");
  }
}

}  // namespace reprieve::test
