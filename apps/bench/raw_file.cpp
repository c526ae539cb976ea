// SPDX-License-Identifier: BSD-3-Clause
#include "raw_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "cluster/communicator.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::bench {

namespace {

constexpr std::size_t kChunk = std::size_t{4} << 20U;
constexpr unsigned kThreads = 4;
constexpr int kDontCache = 0x80;  ///< RWF_DONTCACHE, which older headers do not name

[[noreturn]] void fail(const std::string& action, const std::filesystem::path& path, int error_number) {
  throw std::system_error(error_number, std::generic_category(), "cannot " + action + " " + path.string());
}

off_t at(std::uint64_t offset) { return static_cast<off_t>(offset); }

/// Without a name; below 0 if there cannot be one.
core::Descriptor temporary_file(const std::filesystem::path& directory, int flags) {
  return core::Descriptor(  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
      ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
}

ssize_t write_with(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset, int flags) {
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: pwritev2 only reads it
  return ::pwritev2(descriptor, &piece, 1, at(offset), flags);
}

bool uncached_works(const std::filesystem::path& directory) {
  const core::Descriptor file = temporary_file(directory, 0);
  const std::array<std::byte, 1> byte{};
  return file.get() >= 0 && write_with(file.get(), byte, 0, kDontCache) == 1;
}

/// @param transfer  of one piece: from its offset and its size to what the system returns
template <class Transfer>
void by_threads(const char* action, const std::filesystem::path& path, std::size_t bytes, Transfer&& transfer) {
  std::atomic<std::size_t> next{0};
  std::atomic<int> error{0};
  const auto work = [&] {
    for (std::size_t begin = next.fetch_add(kChunk); begin < bytes && error == 0; begin = next.fetch_add(kChunk)) {
      const std::size_t size = std::min(kChunk, bytes - begin);
      errno = 0;
      if (transfer(begin, size) != static_cast<ssize_t>(size)) {
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
    fail(action, path, error);
  }
}

using storage::check_hdf5;
using storage::Hdf5Handle;
using storage::make_property_list;

/// MPI counts in int, and not every MPI-IO below HDF5 takes 2 GiB at once.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 26U;

enum class Direction { write, read };

class Hdf5Transfer {
 public:
  Hdf5Transfer(MPI_Comm comm, Workload& workload, Direction direction)
      : comm_(comm), workload_(workload), direction_(direction), properties_(make_property_list(H5P_DATASET_XFER)) {
    check_hdf5(H5Pset_dxpl_mpio(properties_.get(), H5FD_MPIO_COLLECTIVE), "set up transfers");
  }

  void run(const std::filesystem::path& path) {
    const Hdf5Handle access = make_property_list(H5P_FILE_ACCESS);
    check_hdf5(H5Pset_fapl_mpio(access.get(), comm_, MPI_INFO_NULL), "set up MPI-IO");
    const hid_t id = direction_ == Direction::write ? H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get())
                                                    : H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
    Hdf5Handle file(id, H5Fclose, "open " + path.string());
    transfer_variable(file, "large", workload_.large_part(), workload_.large());
    for (std::uint64_t i = 0; i < workload_.small_count(); ++i) {
      transfer_variable(file, fmt::format("small_{:05}", i), workload_.small_part(), workload_.small(i));
    }
    if (direction_ == Direction::write) {
      check_hdf5(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush");
    }
    file.close("close " + path.string());
  }

 private:
  void transfer_variable(const Hdf5Handle& file, const std::string& name, const ArrayPart& part,
                         std::span<double> values) {
    const std::vector<hsize_t> shape(part.shape.begin(), part.shape.end());
    const Hdf5Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose,
                           "make a dataspace");
    const hid_t id = direction_ == Direction::write ? H5Dcreate2(file.get(), name.c_str(), H5T_NATIVE_DOUBLE,
                                                                 space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)
                                                    : H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT);
    const Hdf5Handle dataset(id, H5Dclose, "open the dataset " + name);
    std::vector<hsize_t> offset(part.offset.begin(), part.offset.end());
    std::vector<hsize_t> extent(part.extent.begin(), part.extent.end());
    const std::uint64_t row = values.empty() ? 1 : values.size() / part.extent[0];
    const std::uint64_t most_rows = std::max<std::uint64_t>(1, kMostElements / row);
    for (std::uint64_t pieces = most_pieces(part, most_rows); pieces > 0; --pieces) {
      extent[0] = std::min<std::uint64_t>(values.size() / row, most_rows);
      transfer_piece(dataset, space, offset, extent, values.first(extent[0] * row));
      offset[0] += extent[0];
      values = values.subspan(extent[0] * row);
    }
  }

  /// Every rank takes part in as many transfers as the one with the most values.
  [[nodiscard]] std::uint64_t most_pieces(const ArrayPart& part, std::uint64_t most_rows) const {
    const std::uint64_t mine = (part.extent[0] + most_rows - 1) / most_rows;
    if (mine <= 1 && part.shape[0] <= most_rows) {
      return 1;  // no rank can have more
    }
    std::uint64_t most = 0;
    cluster::check_mpi(MPI_Allreduce(&mine, &most, 1, MPI_UINT64_T, MPI_MAX, comm_), "MPI_Allreduce");
    return most;
  }

  void transfer_piece(const Hdf5Handle& dataset, const Hdf5Handle& space, const std::vector<hsize_t>& offset,
                      const std::vector<hsize_t>& extent, std::span<double> piece) {
    const hsize_t count = piece.size();
    const Hdf5Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose, "make a dataspace");
    if (count > 0) {
      check_hdf5(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, offset.data(), nullptr, extent.data(), nullptr),
                 "select");
    } else {
      check_hdf5(H5Sselect_none(space.get()), "select");
    }
    if (direction_ == Direction::write) {
      check_hdf5(H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, memory.get(), space.get(), properties_.get(), piece.data()),
                 "write");
    } else {
      check_hdf5(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, memory.get(), space.get(), properties_.get(), piece.data()),
                 "read");
    }
  }

  MPI_Comm comm_;
  Workload& workload_;
  Direction direction_;
  Hdf5Handle properties_;
};

}  // namespace

bool goes_past_cache(RawMethod method) { return method == RawMethod::direct_threads; }

int open_flags(RawMethod method) { return goes_past_cache(method) ? O_RDWR | O_DIRECT : O_RDWR; }

bool is_available(RawMethod method, const std::filesystem::path& directory) {
  if (method == RawMethod::uncached) {
    return uncached_works(directory);
  }
  return !goes_past_cache(method) || temporary_file(directory, O_DIRECT).is_open();
}

RawFile::RawFile(std::filesystem::path path, int flags)
    : path_(std::move(path)),
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
      descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0600)) {
  if (!descriptor_.is_open()) {
    fail("open", path_, errno);
  }
}

void RawFile::allocate(std::uint64_t size) const {
  if (::fallocate(descriptor_.get(), 0, 0, at(size)) != 0 && ::ftruncate(descriptor_.get(), at(size)) != 0) {
    fail("allocate", path_, errno);
  }
}

void RawFile::write(std::span<const std::byte> bytes, std::uint64_t offset, RawMethod method) const {
  if (goes_past_cache(method)) {
    return by_threads("write", path_, bytes.size(), [&](std::size_t begin, std::size_t size) {
      return ::pwrite(descriptor(), &bytes[begin], size, at(offset + begin));
    });
  }
  const int flags = method == RawMethod::uncached ? kDontCache : 0;
  while (!bytes.empty()) {
    const ssize_t written = write_with(descriptor(), bytes.first(std::min(bytes.size(), kChunk)), offset, flags);
    if (written <= 0) {
      fail("write", path_, written < 0 ? errno : EIO);
    }
    if (method == RawMethod::started &&
        ::sync_file_range(descriptor(), at(offset), at(static_cast<std::uint64_t>(written)), SYNC_FILE_RANGE_WRITE) !=
            0) {
      fail("begin to write", path_, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void RawFile::read(std::span<std::byte> bytes, std::uint64_t offset, RawMethod method) const {
  if (goes_past_cache(method)) {
    return by_threads("read", path_, bytes.size(), [&](std::size_t begin, std::size_t size) {
      return ::pread(descriptor(), &bytes[begin], size, at(offset + begin));
    });
  }
  if (method == RawMethod::mapped && !bytes.empty()) {
    void* const place = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, descriptor(), at(offset));
    if (place == MAP_FAILED) {
      fail("map", path_, errno);
    }
    std::memcpy(bytes.data(), place, bytes.size());
    ::munmap(place, bytes.size());
    return;
  }
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor(), bytes.data(), std::min(bytes.size(), kChunk), at(offset));
    if (got <= 0) {
      fail("read", path_, got < 0 ? errno : EIO);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void RawFile::sync() const {
  if (::fsync(descriptor_.get()) != 0) {
    fail("make durable", path_, errno);
  }
}

void drop_from_cache(const std::filesystem::path& file) {
  const RawFile opened(file, O_RDONLY);
  opened.sync();
  if (const int error = ::posix_fadvise(opened.descriptor(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    fail("drop from the page cache", file, error);
  }
}

void read_into_cache(const std::filesystem::path& file) {
  std::vector<std::byte> bytes(kChunk);
  const RawFile opened(file, O_RDONLY);
  for (std::uint64_t offset = 0, size = std::filesystem::file_size(file); offset < size; offset += kChunk) {
    const auto part = std::min<std::uint64_t>(kChunk, size - offset);
    opened.read(std::span(bytes).first(static_cast<std::size_t>(part)), offset, RawMethod::buffered);
  }
}

void sync_file_system(const std::filesystem::path& directory) {
  const RawFile opened(directory, O_RDONLY | O_DIRECTORY);
  if (::syncfs(opened.descriptor()) != 0) {
    fail("sync", directory, errno);
  }
}

void save_hdf5(MPI_Comm comm, Workload& workload, const std::filesystem::path& file) {
  Hdf5Transfer(comm, workload, Direction::write).run(file);
}

void restore_hdf5(MPI_Comm comm, Workload& workload, const std::filesystem::path& file) {
  Hdf5Transfer(comm, workload, Direction::read).run(file);
}

}  // namespace reprieve::bench
