// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The ways in which the ranks' data reach a file that has been laid out. All leave the same bytes, and the checksums
/// of all blocks. Collective, once for each plan; @p what is for messages.
/// @throws StorageError, CorruptError (on this rank alone: the caller agrees); UnresponsiveError

#include <array>
#include <string>

#include "cluster/communicator.hpp"
#include "reprieve/save.hpp"
#include "storage/write/write_item.hpp"

namespace reprieve::storage {

/// Every rank its own items (`write_directly`), unless some of them have so much in small pieces that an exchange is
/// worth it: then the ranks exchange these, window by window of the file, so that each writes a large piece. (Two-phase
/// I/O: Thakur, Gropp, Lusk, "Data sieving and collective I/O in ROMIO", 1999.) A window is 4 to 16 MiB of the file by
/// how much is exchanged, or all of it if that is less, or 1 MiB for each rank that collects if that is more. Takes the
/// memory of what a rank has of a window and of what it collects of it, the latter twice; and twice that where the
/// pieces are a few bytes.
[[nodiscard]] WrittenPart write_directly_or_exchange(cluster::Communicator& comm, const WritePlan& plan,
                                                     const std::string& what);
/// Whether that is an exchange. The same on all ranks.
[[nodiscard]] bool is_exchanged(const cluster::Communicator& comm, const WritePlan& plan);

/// Collective HDF5 transfers through MPI-IO; then this rank's items are read back and compared.
///
/// A failing rank can leave the others inside of an MPI-IO call from which nothing returns. If one stage takes longer
/// than the communicator's time limit, a line on stderr names the rank, the file and the stage, and the process is
/// aborted: there is no other way out of such a call.
[[nodiscard]] WrittenPart write_by_mpio(cluster::Communicator& comm, const WritePlan& plan, const std::string& what);

/// A kind of writer. Its name in settings, and whether it can write in the background (then by `write_directly`), stand
/// in the table of reprieve/save.hpp.
struct WriterRow {
  WriterKind kind;
  /// For all ranks together.
  WrittenPart (*write)(cluster::Communicator& comm, const WritePlan& plan, const std::string& what);
  /// It opens the file by HDF5, which may change the structure that was laid out.
  bool opens_structure;
  /// It can write arrays in chunks.
  bool in_chunks;
};

/// In the order of that table.
inline constexpr std::array<WriterRow, detail::kWriters.size()> kWriterRows{{
    {WriterKind::direct, write_directly_or_exchange, false, true},
    {WriterKind::mpio, write_by_mpio, true, false},
}};

}  // namespace reprieve::storage
