#pragma once

/// @file
/// The two ways in which the ranks' data reach a file that has been laid out. Both leave the same bytes.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/file_address.hpp"
#include "storage/write/write_item.hpp"

namespace reprieve::cluster {
class Communicator;
}

namespace reprieve::storage {

/// Everything a rank needs to write its part of a file: places that the chief laid out, and the memory that goes there.
/// Made collectively; from then on the direct writer needs neither MPI nor HDF5.
struct WritePlan {
  /// One variable, as much as all ranks must know of it to write it together.
  struct Variable {
    std::string name;
    ElementType type;
    std::uint64_t file_offset = 0;  ///< of the dataset
    std::uint64_t bytes = 0;        ///< of the whole dataset
    std::uint64_t most_pieces = 0;  ///< mpio: the greatest number of pieces that any rank writes
    bool scattered = false;         ///< some rank has it in pieces too small for a write of their own
    std::size_t first_item = 0;     ///< this rank's boxes of it
    std::size_t item_count = 0;
  };

  core::FileAddress file;
  FileIo io = FileIo::automatic;  ///< how the direct writer goes to the file system
  std::vector<Variable> variables;
  std::vector<WriteItem> items;   ///< by variable
  std::uint64_t state_bytes = 0;  ///< of all ranks

  /// What this rank writes.
  [[nodiscard]] std::uint64_t own_bytes() const;
  /// Where the last dataset ends.
  [[nodiscard]] std::uint64_t end_in_file() const;
};

/// This rank's part of a file, written but not yet durable.
struct WrittenPart {
  std::vector<std::uint64_t> checksums;  ///< of the blocks of the plan's items
  /// The file, if this rank wrote anything. It stays open until it is synced: the kernel reports a failed write-back to
  /// those who had the file open.
  std::optional<PosixFile> file;
};

/// Writes this rank's items at their places. Not collective; any thread. @throws StorageError
[[nodiscard]] WrittenPart write_direct(const WritePlan& plan);

/// The same for all ranks together: what some of them have in small pieces is brought together by the ranks, window by
/// window of the file, so that each writes a large piece. (Two-phase I/O: Thakur, Gropp, Lusk, "Data sieving and
/// collective I/O in ROMIO", 1999.) Collective. Takes 16 to 24 MiB of memory more, and
/// twice that where the pieces are a few bytes.
/// @throws StorageError (on this rank alone: the caller agrees); UnresponsiveError
[[nodiscard]] WrittenPart write_two_phase(cluster::Communicator& comm, const WritePlan& plan, const std::string& what);

/// Writes all ranks' items with collective HDF5 transfers through MPI-IO, reads this rank's back and compares them.
/// Collective.
///
/// A failing rank can leave the others inside of an MPI-IO call from which nothing returns. If one stage takes longer
/// than the communicator's time limit, a line on stderr names the rank, the file and the stage, and the process is
/// aborted: there is no other way out of such a call.
/// @throws StorageError, CorruptError (on this rank alone: the caller agrees)
[[nodiscard]] WrittenPart write_mpio(cluster::Communicator& comm, const WritePlan& plan);

/// The largest piece of one collective transfer. MPI-IO counts in int; far below that, buffers stay small as well.
inline constexpr std::uint64_t kMpioPieceBytes = std::uint64_t{64} << 20U;

}  // namespace reprieve::storage
