// SPDX-License-Identifier: BSD-3-Clause
#include "parallel_files.hpp"

#include <hdf5.h>
#include <fmt/format.h>

#include <algorithm>

#include "cluster/communicator.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::bench {

namespace {

using cluster::check_mpi;
using storage::check_hdf5;
using storage::Hdf5Handle;
using storage::make_property_list;

/// MPI counts in int, and not every MPI-IO below HDF5 takes 2 GiB at once.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 26U;

enum class Direction { write, read };

class Hdf5Transfer {
 public:
  Hdf5Transfer(MPI_Comm comm, Workload& workload, Transfer transfer, Direction direction)
      : comm_(comm), workload_(workload), direction_(direction), properties_(make_property_list(H5P_DATASET_XFER)) {
    const auto mode = transfer == Transfer::collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT;
    check_hdf5(H5Pset_dxpl_mpio(properties_.get(), mode), "set up transfers");
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
    check_mpi(MPI_Allreduce(&mine, &most, 1, MPI_UINT64_T, MPI_MAX, comm_), "MPI_Allreduce");
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

/// A communicator's file that is closed in any case.
class MpiFile {
 public:
  MpiFile(MPI_Comm comm, const std::filesystem::path& path) {
    check_mpi(MPI_File_open(comm, path.c_str(), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file_),
              "MPI_File_open");
  }
  ~MpiFile() { MPI_File_close(&file_); }
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;
  [[nodiscard]] MPI_File get() const { return file_; }

 private:
  MPI_File file_ = MPI_FILE_NULL;
};

}  // namespace

void save_hdf5(MPI_Comm comm, Workload& workload, const std::filesystem::path& file, Transfer transfer) {
  Hdf5Transfer(comm, workload, transfer, Direction::write).run(file);
}

void restore_hdf5(MPI_Comm comm, Workload& workload, const std::filesystem::path& file, Transfer transfer) {
  Hdf5Transfer(comm, workload, transfer, Direction::read).run(file);
}

void save_mpi_io(MPI_Comm comm, Workload& workload, const std::filesystem::path& file) {
  const MpiFile open(comm, file);
  std::span<std::byte> rest = workload.padded_bytes();
  auto offset = static_cast<MPI_Offset>(workload.padded_offset());
  constexpr std::size_t most = std::size_t{1} << 29U;
  std::uint64_t pieces = (rest.size() + most - 1) / most;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &pieces, 1, MPI_UINT64_T, MPI_MAX, comm), "MPI_Allreduce");
  for (; pieces > 0; --pieces) {
    const auto piece = rest.first(std::min(rest.size(), most));
    check_mpi(MPI_File_write_at_all(open.get(), offset, piece.data(), static_cast<int>(piece.size()), MPI_BYTE,
                                    MPI_STATUS_IGNORE),
              "MPI_File_write_at_all");
    offset += static_cast<MPI_Offset>(piece.size());
    rest = rest.subspan(piece.size());
  }
  check_mpi(MPI_File_sync(open.get()), "MPI_File_sync");
}

}  // namespace reprieve::bench
