// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The ways in which the ranks' data reach a file that has been laid out. All leave the same bytes.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/directory.hpp"
#include "reprieve/save.hpp"
#include "storage/write/write_item.hpp"

namespace reprieve::storage {

// What a writer is given and what it gives back.

/// Everything a rank needs to write its part of a file: offsets from rank 0, and the memory that goes there.
/// Made collectively; from then on the direct writer needs neither MPI nor HDF5.
struct WritePlan {
  /// One variable, as much as all ranks must know of it to write it together.
  struct Variable {
    std::string name;
    ElementType type;
    std::uint64_t file_offset = 0;  ///< of the dataset
    std::uint64_t bytes = 0;        ///< of the whole dataset
    std::uint64_t most_pieces = 0;  ///< where the ranks write it together: the greatest number that any has
    bool scattered = false;         ///< some rank has it in pieces too small for a write of their own
    std::size_t first_item = 0;     ///< this rank's boxes of it
    std::size_t item_count = 0;
  };

  core::FileAddress file;
  FileIo io = FileIo::automatic;  ///< how bytes go to the file system
  std::vector<Variable> variables;
  std::vector<WriteItem> items;  ///< by variable
  /// What the file holds already, of this rank; null: nothing is known of that.
  std::shared_ptr<WrittenRanges> ranges;
  std::uint64_t state_bytes = 0;  ///< of all ranks

  /// For the stream: with ranges that are left out, the pieces between them are shorter.
  [[nodiscard]] std::uint64_t least_direct_bytes() const {
    return ranges && ranges->leaves_out() ? kRangeBytes : kLeastDirectBytes;
  }
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

}  // namespace reprieve::storage

namespace reprieve::cluster {
class Communicator;
}

namespace reprieve::storage {

/// Writes one file.
class Writer {
 public:
  Writer() = default;
  virtual ~Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Writes this rank's part; the checksums are those of all blocks of the plan. Called once.
  /// Collective, unless it was made by `make_alone`: then it needs neither MPI nor HDF5, on any thread.
  /// @throws StorageError, CorruptError (on this rank alone: the caller agrees); UnresponsiveError
  [[nodiscard]] virtual WrittenPart write(const WritePlan& plan) = 0;
};

/// Every rank its own items at their offsets.
[[nodiscard]] std::unique_ptr<Writer> make_direct_writer();

/// The ranks exchange what some of them have in small pieces, window by window of the file, so that each
/// writes a large piece. (Two-phase I/O: Thakur, Gropp, Lusk, "Data sieving and collective I/O in ROMIO", 1999.) A
/// window is 4 to 16 MiB of the file by how much is exchanged, or all of it if that is less, or 1 MiB for each rank
/// that collects if that is more. Takes the memory of what a rank has of a window and of what it collects of it, the
/// latter twice; and twice that where the pieces are a few bytes.
[[nodiscard]] std::unique_ptr<Writer> make_two_phase_writer(cluster::Communicator& comm, std::string what);
/// Whether the small pieces of a plan are worth it. The same on all ranks.
[[nodiscard]] bool exchange_is_worth_it(const WritePlan& plan, int ranks);

/// One of these two.
[[nodiscard]] std::unique_ptr<Writer> make_direct_or_two_phase_writer(cluster::Communicator& comm,
                                                                      const WritePlan& plan, const std::string& what);

/// Collective HDF5 transfers through MPI-IO; then this rank's items are read back and compared.
///
/// A failing rank can leave the others inside of an MPI-IO call from which nothing returns. If one stage takes longer
/// than the communicator's time limit, a line on stderr names the rank, the file and the stage, and the process is
/// aborted: there is no other way out of such a call.
[[nodiscard]] std::unique_ptr<Writer> make_mpio_writer(cluster::Communicator& comm, const WritePlan& plan,
                                                       const std::string& what);
/// The largest piece of one transfer there. MPI-IO counts in int; far below that, buffers stay small as well.
inline constexpr std::uint64_t kMpioPieceBytes = std::uint64_t{64} << 20U;

/// A kind of writer, and how one is made. Its name in settings stands in the table of reprieve/save.hpp.
struct WriterRow {
  WriterKind kind;
  /// For all ranks together. @param plan  is known by then: how it is written may depend on it @param what  for
  /// messages
  std::unique_ptr<Writer> (*make)(cluster::Communicator& comm, const WritePlan& plan, const std::string& what);
  /// For one rank by itself, in the background; null if it cannot do that.
  std::unique_ptr<Writer> (*make_alone)();
  /// If it makes collective transfers, the same number on every rank: at most that much in each.
  std::uint64_t piece_bytes;
  /// It opens the file by HDF5, which may change the structure that was laid out.
  bool opens_structure;
  /// It can write arrays in chunks.
  bool in_chunks;
};

inline constexpr std::array<WriterRow, detail::kWriters.size()> kWriterRows{{
    {WriterKind::direct, make_direct_or_two_phase_writer, make_direct_writer, 0, false, true},
    {WriterKind::mpio, make_mpio_writer, nullptr, kMpioPieceBytes, true, false},
}};

/// Whether both tables have the same kinds, and agree on what can be done in the background. (Tested, and not asserted
/// here: under UndefinedBehaviorSanitizer g++ 12 takes the address of a function for no constant.)
inline bool tables_of_writers_agree() {
  for (std::size_t i = 0; i < kWriterRows.size(); ++i) {
    const detail::WriterTraits& traits = detail::kWriters[i];
    if (kWriterRows[i].kind != traits.kind || (kWriterRows[i].make_alone != nullptr) != traits.in_background) {
      return false;
    }
  }
  return true;
}

/// @throws Error (internal) if there is no row
[[nodiscard]] const WriterRow& row_of(WriterKind kind);

}  // namespace reprieve::storage
