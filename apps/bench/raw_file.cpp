#include "raw_file.hpp"

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#ifdef REPRIEVE_HAVE_LIBURING
#include <liburing.h>
#endif

namespace reprieve::bench {

namespace {

constexpr std::size_t kChunk = std::size_t{4} << 20U;
constexpr unsigned kInFlight = 8;
constexpr unsigned kThreads = 4;

[[noreturn]] void fail(const std::string& action, const std::filesystem::path& path, int error_number) {
  throw std::system_error(error_number, std::generic_category(), "cannot " + action + " " + path.string());
}

off_t at(std::uint64_t offset) { return static_cast<off_t>(offset); }

#ifdef REPRIEVE_HAVE_LIBURING
class Ring {
 public:
  Ring() : error_(io_uring_queue_init(kInFlight, &ring_, 0)) {}
  ~Ring() {
    if (error_ == 0) {
      io_uring_queue_exit(&ring_);
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  [[nodiscard]] int error() const { return -error_; }
  io_uring* get() { return &ring_; }

 private:
  io_uring ring_ = {};
  int error_;
};

bool ring_works() { return Ring().error() == 0; }
#else
bool ring_works() { return false; }
#endif

}  // namespace

int open_flags(RawMethod method) { return method == RawMethod::buffered ? O_RDWR : O_RDWR | O_DIRECT; }

bool is_available(RawMethod method, const std::filesystem::path& directory) {
  if (method == RawMethod::buffered) {
    return true;
  }
  const int descriptor =  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
      ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return false;
  }
  ::close(descriptor);
  return method == RawMethod::direct_threads || ring_works();
}

RawFile::RawFile(std::filesystem::path path, int flags)
    : path_(std::move(path)),
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
      descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0600)) {
  if (descriptor_ < 0) {
    fail("open", path_, errno);
  }
}

RawFile::~RawFile() { ::close(descriptor_); }

void RawFile::allocate(std::uint64_t size) const {
  if (::fallocate(descriptor_, 0, 0, at(size)) != 0 && ::ftruncate(descriptor_, at(size)) != 0) {
    fail("allocate", path_, errno);
  }
}

void RawFile::write(std::span<const std::byte> bytes, std::uint64_t offset, RawMethod method) const {
  switch (method) {
    case RawMethod::buffered:
      return write_buffered(bytes, offset);
    case RawMethod::direct_threads:
      return write_by_threads(bytes, offset);
    case RawMethod::io_uring:
      return write_by_ring(bytes, offset);
  }
}

void RawFile::write_buffered(std::span<const std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kChunk), at(offset));
    if (written <= 0) {
      fail("write", path_, written < 0 ? errno : EIO);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void RawFile::write_by_threads(std::span<const std::byte> bytes, std::uint64_t offset) const {
  std::atomic<std::size_t> next{0};
  std::atomic<int> error{0};
  const auto work = [&] {
    for (std::size_t begin = next.fetch_add(kChunk); begin < bytes.size() && error == 0;
         begin = next.fetch_add(kChunk)) {
      const auto part = bytes.subspan(begin, std::min(kChunk, bytes.size() - begin));
      if (::pwrite(descriptor_, part.data(), part.size(), at(offset + begin)) != static_cast<ssize_t>(part.size())) {
        error = errno == 0 ? EIO : errno;
      }
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back(work);
  }
  threads.clear();
  if (error != 0) {
    fail("write", path_, error);
  }
}

#ifdef REPRIEVE_HAVE_LIBURING
void RawFile::write_by_ring(std::span<const std::byte> bytes, std::uint64_t offset) const {
  Ring ring;
  if (ring.error() != 0) {
    fail("make a ring for", path_, ring.error());
  }
  std::size_t begun = 0;
  for (unsigned in_flight = 0; begun < bytes.size() || in_flight > 0;) {
    while (begun < bytes.size() && in_flight < kInFlight) {
      const auto part = bytes.subspan(begun, std::min(kChunk, bytes.size() - begun));
      io_uring_sqe* entry = io_uring_get_sqe(ring.get());
      io_uring_prep_write(entry, descriptor_, part.data(), static_cast<unsigned>(part.size()), offset + begun);
      io_uring_sqe_set_data64(entry, part.size());
      begun += part.size();
      ++in_flight;
    }
    io_uring_cqe* done = nullptr;
    const int result = io_uring_submit_and_wait(ring.get(), 1);
    if (result < 0 || io_uring_peek_cqe(ring.get(), &done) != 0) {
      fail("write", path_, result < 0 ? -result : EIO);
    }
    if (done->res < 0 || static_cast<std::uint64_t>(done->res) != io_uring_cqe_get_data64(done)) {
      fail("write", path_, done->res < 0 ? -done->res : EIO);
    }
    io_uring_cqe_seen(ring.get(), done);
    --in_flight;
  }
}
#else
void RawFile::write_by_ring(std::span<const std::byte> /*bytes*/, std::uint64_t /*offset*/) const {
  fail("use io_uring, which this build has not, for", path_, ENOSYS);
}
#endif

void RawFile::read(std::span<std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), std::min(bytes.size(), kChunk), at(offset));
    if (got <= 0) {
      fail("read", path_, got < 0 ? errno : EIO);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void RawFile::sync() const {
  if (::fsync(descriptor_) != 0) {
    fail("make durable", path_, errno);
  }
}

void RawFile::drop_from_cache() const {
  if (const int error = ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    fail("drop from the page cache", path_, error);
  }
}

void settle(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // NOLINT
  if (descriptor < 0) {
    fail("open", directory, errno);
  }
  const int result = ::syncfs(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (result != 0) {
    fail("sync", directory, error);
  }
}

}  // namespace reprieve::bench
