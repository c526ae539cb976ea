// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cluster/communicator.hpp"
#include "core/directory.hpp"
#include "core/log.hpp"
#include "core/threads.hpp"
#include "storage/hdf5/hdf5_handle.hpp"
#include "storage/write/writers.hpp"

namespace reprieve::storage {

namespace {

/// The largest piece of one transfer. MPI-IO counts in int; far below that, buffers stay small as well.
constexpr std::uint64_t kMpioPieceBytes = std::uint64_t{64} << 20U;

class MpiInfo {
 public:
  MpiInfo() {
    cluster::check_mpi(MPI_Info_create(&info_), "MPI_Info_create");
    // Data sieving rewrites bytes of the neighbours between two of a rank's runs.
    cluster::check_mpi(MPI_Info_set(info_, "romio_ds_write", "disable"), "MPI_Info_set");
  }
  ~MpiInfo() {
    if (MPI_Info_free(&info_) != MPI_SUCCESS) {
      core::log::error("MPI_Info_free failed");
    }
  }
  MpiInfo(const MpiInfo&) = delete;
  MpiInfo& operator=(const MpiInfo&) = delete;
  [[nodiscard]] MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

/// One open file in the middle of collective transfers. A rank that fails continues taking part, with nothing to write,
/// so that the others are not left alone in a collective call as far as that is in our hands.
class CollectiveTransfer {
 public:
  CollectiveTransfer(cluster::Communicator& comm, const WritePlan& plan)
      : comm_(comm),
        plan_(plan),
        watchdog_("rank " + std::to_string(comm.rank()) + " on " + comm.host() + ", " + plan.file.string(),
                  comm.timeout()),
        transfer_(make_property_list(H5P_DATASET_XFER)),
        file_(open(comm)) {
    check_hdf5(H5Pset_dxpl_mpio(transfer_.get(), H5FD_MPIO_COLLECTIVE), "set up collective transfers");
  }

  void run() {
    for (const WritePlan::Variable& variable : plan_.variables) {
      if (variable.bytes > 0) {
        write_variable(variable);
      }
    }
    watchdog_.enter("closing the file");
    file_.close("close " + plan_.file.string());
    if (failure_) {
      core::throw_failure(*failure_);
    }
  }

 private:
  Hdf5Handle open(const cluster::Communicator& comm) {
    watchdog_.enter("opening the file");
    const std::string action = "open " + plan_.file.string() + " through MPI-IO";
    const MpiInfo info;
    const Hdf5Handle access = make_property_list(H5P_FILE_ACCESS);
    check_hdf5(H5Pset_fapl_mpio(access.get(), comm.handle(), info.get()), action);
    check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), action);
    // One rank reads HDF5's structures and broadcasts them.
    check_hdf5(H5Pset_all_coll_metadata_ops(access.get(), true), action);
    const core::StandardDescriptors taken;
    return {H5Fopen(plan_.file.c_str(), H5F_ACC_RDWR, access.get()), H5Fclose, action};
  }

  void write_variable(const WritePlan::Variable& variable) {
    watchdog_.enter("writing variable '" + variable.name + "'");
    const Hdf5Handle dataset(H5Dopen2(file_.get(), ("state/" + variable.name).c_str(), H5P_DEFAULT), H5Dclose,
                             "open the dataset " + variable.name);
    const Hdf5Handle type(H5Dget_type(dataset.get()), H5Tclose, "get a dataset's type");
    const auto items = std::span(plan_.items).subspan(variable.first_item, variable.item_count);
    const auto pieces_of = [](const WriteItem& item) {
      return BlockSplit(item.source.box, item.dataset.element_size, kMpioPieceBytes);
    };
    const auto own =
        static_cast<std::int64_t>(sum_of(items, [&](const WriteItem& item) { return pieces_of(item).count(); }));
    const std::int64_t most = comm_.max(own, "writing through MPI-IO");
    for (const WriteItem& item : items) {
      const BlockSplit split = pieces_of(item);
      for (std::uint64_t p = 0; p < split.count(); ++p) {
        const Box piece = split.block(p);
        write_piece(dataset, type, &piece, feed_.take(item.source, piece, item.dataset.element_size));
      }
    }
    for (std::int64_t lacking = most - own; lacking > 0; --lacking) {
      write_piece(dataset, type, nullptr, {});
    }
  }

  /// One collective transfer. Without a piece this rank only takes part.
  void write_piece(const Hdf5Handle& dataset, const Hdf5Handle& type, const Box* piece,
                   std::span<const std::byte> content) {
    const core::Outcome outcome = core::capture([&] {
      const Hdf5Handle file_space(H5Dget_space(dataset.get()), H5Sclose, "get a dataset's space");
      const hsize_t elements = piece == nullptr ? 1 : volume(piece->extent);
      // A text is one string in its dataset, but a row of bytes in the plan.
      const bool one_string = H5Sget_simple_extent_type(file_space.get()) == H5S_SCALAR && elements != 1;
      const Hdf5Handle memory_space = make_hdf5_space({one_string ? 1 : elements});
      select(file_space, memory_space, piece);
      const std::byte nothing{};
      check_hdf5(H5Dwrite(dataset.get(), type.get(), memory_space.get(), file_space.get(), transfer_.get(),
                          content.empty() ? &nothing : content.data()),
                 "write into " + plan_.file.string());
    });
    if (outcome && !failure_) {
      failure_ = outcome;
    }
  }

  static void select(const Hdf5Handle& file_space, const Hdf5Handle& memory_space, const Box* piece) {
    if (piece == nullptr) {
      check_hdf5(H5Sselect_none(file_space.get()), "select nothing");
      check_hdf5(H5Sselect_none(memory_space.get()), "select nothing");
      return;
    }
    if (H5Sget_simple_extent_type(file_space.get()) == H5S_SCALAR) {
      return;  // the one element is selected already
    }
    const std::vector<hsize_t> offset(piece->offset.begin(), piece->offset.end());
    const std::vector<hsize_t> extent(piece->extent.begin(), piece->extent.end());
    check_hdf5(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, offset.data(), nullptr, extent.data(), nullptr),
               "select a piece");
  }

  cluster::Communicator& comm_;
  const WritePlan& plan_;
  core::Watchdog watchdog_;
  Hdf5Handle transfer_;
  Hdf5Handle file_;
  BlockFeed feed_;
  core::Outcome failure_;
};

}  // namespace

WrittenPart write_by_mpio(cluster::Communicator& comm, const WritePlan& plan, const std::string& /*what*/) {
  const QuietHdf5 quiet;
  comm.agree(core::capture([&] { CollectiveTransfer(comm, plan).run(); }), "writing through MPI-IO");
  // MPI-IO can lose data without a word: what counts is what can be read back. Any rank may have written for others,
  // so every rank keeps the file open to make it durable.
  WrittenPart part{{checksums_of(plan.items)}, PosixFile::open_to_write(plan.file)};
  check_items(*part.file, plan.items, part.blocks.checksums);
  return part;
}

}  // namespace reprieve::storage
