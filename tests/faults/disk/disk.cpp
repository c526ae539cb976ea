// SPDX-License-Identifier: BSD-3-Clause
// faults_disk SIZE_MB MOUNT_POINT: a disk in memory that can lose power. MOUNT_POINT/disk is its content, for a loop
// device; what is written there is safe only once it has been flushed (fsync), as in a disk with a volatile cache. The
// program ends when it is unmounted.
//
// A line written to MOUNT_POINT/control:
//   cut SEED PERCENT FILE   writes to FILE what would be left if the power went now: all that was flushed, and of what
//                           was written since then each sector with that probability, so that pages can be torn
//   fail ERRNO              all writes fail from now on
//   slow MICROSECONDS       every write and flush takes so long
// MOUNT_POINT/control tells, when it is read, how many writes have not been flushed.

#define FUSE_USE_VERSION 31
#include <fcntl.h>
#include <fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kSector = 512;
constexpr std::size_t kPage = 4096;
constexpr std::string_view kDisk = "/disk";
constexpr std::string_view kControl = "/control";

class Disk {
 public:
  explicit Disk(std::size_t size) : now_(size), flushed_(size) {}

  [[nodiscard]] std::size_t size() const { return now_.size(); }

  int read(char* bytes, std::size_t size, std::size_t offset) const {
    size = offset >= now_.size() ? 0 : std::min(size, now_.size() - offset);
    std::memcpy(bytes, now_.data() + offset, size);
    return static_cast<int>(size);
  }

  int write(const char* bytes, std::size_t size, std::size_t offset) {
    std::this_thread::sleep_for(delay_);
    if (error_ != 0 || offset + size > now_.size()) {
      return error_ != 0 ? -error_ : -ENOSPC;
    }
    std::memcpy(now_.data() + offset, bytes, size);
    pending_.push_back({offset, {bytes, bytes + size}});
    return static_cast<int>(size);
  }

  int flush() {
    std::this_thread::sleep_for(delay_);
    for (const Write& write : pending_) {
      std::memcpy(flushed_.data() + write.offset, write.bytes.data(), write.bytes.size());
    }
    pending_.clear();
    return 0;
  }

  int obey(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "cut") {
      unsigned seed = 0;
      int percent = 0;
      std::string file;
      words >> seed >> percent >> file;
      return words ? cut(seed, percent, file) : -EINVAL;
    }
    long number = 0;
    words >> number;
    if (word == "fail") {
      error_ = static_cast<int>(number);
    } else if (word == "slow") {
      delay_ = std::chrono::microseconds(number);
    } else {
      return -EINVAL;
    }
    return words ? 0 : -EINVAL;
  }

  [[nodiscard]] std::string report() const { return std::to_string(pending_.size()) + " writes not flushed\n"; }

 private:
  struct Write {
    std::size_t offset;
    std::vector<char> bytes;
  };

  [[nodiscard]] int cut(unsigned seed, int percent, const std::string& file) const {
    std::vector<char> left = flushed_;
    std::mt19937 random(seed);
    for (const Write& write : pending_) {
      for (std::size_t done = 0; done < write.bytes.size(); done += kSector) {
        if (std::uniform_int_distribution(0, 99)(random) < percent) {
          std::memcpy(left.data() + write.offset + done, write.bytes.data() + done,
                      std::min(kSector, write.bytes.size() - done));
        }
      }
    }
    return save(left, file);
  }

  /// As a file with holes.
  static int save(const std::vector<char>& bytes, const std::string& file) {
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0) {
      return -errno;
    }
    bool ok = ::ftruncate(descriptor, static_cast<off_t>(bytes.size())) == 0;
    static const std::vector<char> zeros(kPage);
    for (std::size_t at = 0; ok && at < bytes.size(); at += kPage) {
      const std::size_t size = std::min(kPage, bytes.size() - at);
      if (std::memcmp(bytes.data() + at, zeros.data(), size) != 0) {
        ok = ::pwrite(descriptor, bytes.data() + at, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
      }
    }
    return ::close(descriptor) == 0 && ok ? 0 : -EIO;
  }

  std::vector<char> now_;
  std::vector<char> flushed_;
  std::vector<Write> pending_;  ///< in the order in which they came
  int error_ = 0;
  std::chrono::microseconds delay_{0};
};

Disk& disk() { return *static_cast<Disk*>(fuse_get_context()->private_data); }

int get_attributes(const char* path, struct stat* status, fuse_file_info* /*file*/) {
  *status = {};
  if (std::string_view(path) == "/") {
    status->st_mode = S_IFDIR | 0700;
    status->st_nlink = 2;
  } else if (path == kDisk || path == kControl) {
    status->st_mode = S_IFREG | 0600;
    status->st_nlink = 1;
    status->st_size = path == kDisk ? static_cast<off_t>(disk().size()) : static_cast<off_t>(kPage);
  } else {
    return -ENOENT;
  }
  return 0;
}

int open_file(const char* /*path*/, fuse_file_info* file) {
  file->direct_io = 1;  // nothing is kept back by the kernel
  return 0;
}

int read_file(const char* path, char* bytes, std::size_t size, off_t offset, fuse_file_info* /*file*/) {
  const auto at = static_cast<std::size_t>(offset);
  if (path == kDisk) {
    return disk().read(bytes, size, at);
  }
  const std::string report = disk().report();
  const std::size_t part = at >= report.size() ? 0 : std::min(size, report.size() - at);
  std::copy_n(report.data() + std::min(at, report.size()), part, bytes);
  return static_cast<int>(part);
}

int write_file(const char* path, const char* bytes, std::size_t size, off_t offset, fuse_file_info* /*file*/) {
  if (path == kDisk) {
    return disk().write(bytes, size, static_cast<std::size_t>(offset));
  }
  const int result = disk().obey(std::string(bytes, size));
  return result == 0 ? static_cast<int>(size) : result;
}

int sync_file(const char* path, int /*only_data*/, fuse_file_info* /*file*/) {
  return path == kDisk ? disk().flush() : 0;
}

int truncate_file(const char* /*path*/, off_t /*size*/, fuse_file_info* /*file*/) { return 0; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: faults_disk SIZE_MB MOUNT_POINT\n";
    return 2;
  }
  Disk one(std::stoul(argv[1]) << 20U);
  fuse_operations operations = {};
  operations.getattr = get_attributes;
  operations.open = open_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.fsync = sync_file;
  operations.truncate = truncate_file;
  // In the foreground, one request at a time.
  std::string foreground = "-f";
  std::string single = "-s";
  std::vector<char*> arguments{argv[0], foreground.data(), single.data(), argv[2]};
  return fuse_main(static_cast<int>(arguments.size()), arguments.data(), &operations, &one);
}
