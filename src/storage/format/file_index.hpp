// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a checkpoint file says about itself: the metadata, where each variable lies, which rank wrote which box, and
/// the checksum of every block. Pure: in memory and as bytes, without files.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "reprieve/save.hpp"
#include "state/registry.hpp"
#include "storage/format/blocks.hpp"
#include "storage/format/dataset.hpp"

namespace reprieve::storage {

/// 64-bit words that are only read. Copies share the same words, which live as long as the last of them: in memory of
/// this process alone, or in memory that all ranks of a node share.
class SharedWords {
 public:
  SharedWords() = default;
  explicit SharedWords(std::vector<std::uint64_t> words) {
    auto own = std::make_shared<const std::vector<std::uint64_t>>(std::move(words));
    words_ = *own;
    owner_ = std::move(own);
  }
  /// @param owner  keeps the memory of the words
  SharedWords(std::span<const std::uint64_t> words, std::shared_ptr<const void> owner)
      : words_(words), owner_(std::move(owner)) {}

  /// Some of the words, in the same memory.
  [[nodiscard]] SharedWords part(std::size_t first, std::size_t count) const {
    return {words_.subspan(first, count), owner_};
  }

  [[nodiscard]] std::span<const std::uint64_t> span() const noexcept { return words_; }
  [[nodiscard]] std::size_t size() const noexcept { return words_.size(); }
  [[nodiscard]] std::uint64_t operator[](std::size_t index) const { return words_[index]; }
  [[nodiscard]] auto begin() const noexcept { return words_.begin(); }
  [[nodiscard]] auto end() const noexcept { return words_.end(); }

 private:
  std::span<const std::uint64_t> words_;
  std::shared_ptr<const void> owner_;
};

/// The save and the directory of a file. The newest of a directory is the greatest by run, then by save.
struct SaveIdentity {
  std::string directory_id;
  std::uint64_t run = 0;   ///< the start in this directory, counted from 1
  std::uint64_t save = 0;  ///< the save in this directory, counted from 1 over all runs and prefixes

  friend bool operator==(const SaveIdentity&, const SaveIdentity&) = default;
};

/// Metadata of a checkpoint file besides its variables.
struct FileMetadata {
  int format_version = 0;
  std::uint64_t number = 0;
  std::optional<std::uint64_t> run_calls;  ///< nothing if no handler lived when it was saved
  std::optional<SaveIdentity> identity;    ///< nothing in files of versions that did not have it
  int world_size = 0;
  std::int64_t time_us = 0;  ///< wall clock, microseconds since 1970
  SaveReason reason;
  /// What must be the same in the run that restores it, by name (`Checkpoint::add_constant`).
  std::map<std::string, std::string> constants;
  bool has_files = false;  ///< rank 0's save function left files beside the checkpoint
  std::string library_version;
  std::string mpi_version;
  std::string hdf5_version;
};

/// What is said of a variable wherever it is spoken of: by a rank that has it, in the file, and to those who ask the
/// file.
struct VariableFacts {
  std::string name{};
  state::Distribution distribution = state::Distribution::replicated;
  ElementType type{};
  Extents shape{};
  bool is_shared = false;  ///< distributed: boxes may overlap
  bool is_copy = false;    ///< not registered by a program: it stands beside a shared variable (shared_copies.hpp)
  core::Rare<Annotation> annotation{};
  Members members{};  ///< of elements that are structs, if they are known

  [[nodiscard]] VariableFacts& facts() noexcept { return *this; }
  [[nodiscard]] const VariableFacts& facts() const noexcept { return *this; }
};

/// The newest version of the format. A file has the oldest that knows all that is in it: without chunks, 1; without
/// compressed ones, 2.
inline constexpr int kFormatVersion = 3;
/// What the commit record takes at the start of the file.
inline constexpr std::uint64_t kCommitRecordBytes = 4096;

/// One dataset of the file, and its shape. The elements of a per-rank variable lie one rank after the other in one
/// dimension. `is_shared` is of interest only while a file is written; it is not stored.
struct StoredVariable : VariableFacts {
  std::uint64_t file_offset = 0;       ///< of the first element, in bytes from the start of the file
  std::uint64_t piece_dimensions = 0;  ///< per-rank: number of dimensions of each rank's value
  std::size_t first_box = 0;           ///< the variable's rows in the table of boxes
  std::size_t box_count = 0;
  Extents chunk{};          ///< the shape of its chunks in the file (dataset.hpp); empty: none
  bool compressed = false;  ///< whole chunks may be
  /// One of those that lie side by side at the start of the file. Of interest only while a file is written; not stored.
  bool small = false;

  /// Size of the elements; the shape has been checked not to overflow.
  [[nodiscard]] std::uint64_t bytes() const { return volume(shape) * type.size_bytes; }
  /// What it takes in the file: more, where chunks have padding.
  [[nodiscard]] std::uint64_t stored_bytes() const { return storage::stored_bytes(dataset()); }
  [[nodiscard]] Dataset dataset() const { return {file_offset, shape, type.size_bytes, chunk, compressed}; }
};

/// One row of the table of boxes: a box that one rank wrote. Looks at the memory of the table.
struct BoxRow {
  std::uint64_t variable = 0;
  std::uint64_t rank = 0;
  std::uint64_t first_checksum = 0;       ///< index of the box's first block in the table of checksums
  std::span<const std::uint64_t> offset;  ///< per-rank: one number, the position of the piece in the dataset
  std::span<const std::uint64_t> extent;  ///< per-rank: the shape of the piece
};

/// The table of boxes as it lies in the file: rows of 64-bit words, sorted by variable, then by rank. Every row has
/// room for `dimensions()` offsets and extents.
class BoxTable {
 public:
  explicit BoxTable(std::size_t dimensions = 1, SharedWords words = {})
      : dimensions_(dimensions), words_(std::move(words)) {}

  /// Row @p index, with as many offsets and extents as asked for.
  [[nodiscard]] BoxRow row(std::size_t index, std::size_t offsets, std::size_t extents) const;
  /// True if the room for more offsets and extents than asked for holds zeros.
  [[nodiscard]] bool padded_with_zeros(std::size_t index, std::size_t offsets, std::size_t extents) const;
  [[nodiscard]] std::uint64_t variable_of(std::size_t index) const { return words_[index * row_words()]; }
  [[nodiscard]] std::uint64_t rank_of(std::size_t index) const { return words_[index * row_words() + 1]; }
  [[nodiscard]] std::size_t size() const noexcept { return words_.size() / row_words(); }
  [[nodiscard]] std::size_t dimensions() const noexcept { return dimensions_; }
  [[nodiscard]] std::size_t row_words() const noexcept { return words_per_row(dimensions_); }
  [[nodiscard]] std::span<const std::uint64_t> words() const noexcept { return words_.span(); }

  static constexpr std::size_t kFixedWords = 3;
  [[nodiscard]] static constexpr std::size_t words_per_row(std::size_t dimensions) {
    return kFixedWords + 2 * dimensions;
  }

 private:
  std::size_t dimensions_;
  SharedWords words_;
};

/// A table of boxes that grows row by row.
class BoxTableBuilder {
 public:
  explicit BoxTableBuilder(std::size_t dimensions) : dimensions_(dimensions) {}

  void reserve(std::size_t rows) { words_.reserve(rows * BoxTable::words_per_row(dimensions_)); }
  void add(const BoxRow& row);
  [[nodiscard]] std::size_t size() const noexcept { return words_.size() / BoxTable::words_per_row(dimensions_); }
  [[nodiscard]] BoxTable take() { return BoxTable(dimensions_, SharedWords(std::move(words_))); }

 private:
  std::size_t dimensions_;
  std::vector<std::uint64_t> words_;
};

/// Rows of a variable, counted from its first one.
struct RowRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct FileIndex {
  FileMetadata metadata;
  std::uint64_t file_size = 0;
  std::vector<StoredVariable> variables;  ///< sorted by name
  BoxTable boxes;
  SharedWords checksums;  ///< of every block of every box, in the order of the table of boxes
  /// Of each of these blocks that is compressed, the bytes in the file; of others 0. Empty: the file has none.
  SharedWords compressed_sizes{};

  /// The row of one of a variable's boxes, counted from 0.
  [[nodiscard]] BoxRow row(const StoredVariable& variable, std::size_t box) const&;
  BoxRow row(const StoredVariable& variable, std::size_t box) const&& = delete;  // it reads the index's memory
  /// The rows that the ranks from @p first to before @p end wrote, found by halving: rows are in the order of ranks.
  [[nodiscard]] RowRange rows_of(const StoredVariable& variable, std::uint64_t first, std::uint64_t end) const;
  /// Dimensions of the extents in a variable's rows.
  [[nodiscard]] static std::size_t row_dimensions(const StoredVariable& variable);
  /// How many blocks the box of a row has.
  [[nodiscard]] static std::uint64_t block_count(const StoredVariable& variable, const BoxRow& row);
  /// That box in the dataset.
  [[nodiscard]] static Box dataset_box(const StoredVariable& variable, const BoxRow& row);
  /// Those of some rows.
  [[nodiscard]] std::vector<Box> dataset_boxes(const StoredVariable& variable, RowRange rows) const;
  /// Those of all rows.
  [[nodiscard]] std::vector<Box> dataset_boxes(const StoredVariable& variable) const {
    return dataset_boxes(variable, {0, variable.box_count});
  }
  /// Whether two variables have the same boxes. Many often lie on one grid.
  [[nodiscard]] bool have_same_boxes(const StoredVariable& a, const StoredVariable& b) const;
  /// The blocks of that row, each with a checksum of its own.
  [[nodiscard]] static ChunkedSplit blocks_of(const StoredVariable& variable, const BoxRow& row);
  /// The version that @p variables need.
  [[nodiscard]] int format_version() const;
  /// Whether some variable may have compressed chunks.
  [[nodiscard]] bool may_be_compressed() const;
  /// Nothing if there is no such variable.
  [[nodiscard]] const StoredVariable* find(const std::string& name) const;
  /// Bytes of all variables.
  [[nodiscard]] std::uint64_t state_bytes() const;
};

/// What a manifest says of the file, without the list of variables: how it begins.
[[nodiscard]] std::string encode_fields(const FileIndex& index);
/// These and the list of variables as JSON, the content of `/reprieve/manifest`. @param room  spaces before the list:
/// other fields can replace these without a change to the rest
[[nodiscard]] std::string encode_manifest(const FileIndex& index, std::size_t room = 0);
/// Where the list begins, so what the fields can take. @throws CorruptError if no `encode_manifest` made it
[[nodiscard]] std::size_t list_offset(std::span<const std::byte> manifest);

/// A range of bytes in the file.
struct Region {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  [[nodiscard]] constexpr bool lies_before(std::uint64_t end) const { return offset <= end && size <= end - offset; }
};
constexpr auto fields_of(const SaveIdentity*) {
  using T = SaveIdentity;
  return std::tuple(&T::directory_id, &T::run, &T::save);
}
constexpr auto fields_of(const Region*) { return std::tuple(&Region::offset, &Region::size); }

/// The same with its checksum.
struct GuardedRegion {
  Region region;
  std::uint64_t digest = 0;
};
constexpr auto fields_of(const GuardedRegion*) { return std::tuple(&GuardedRegion::region, &GuardedRegion::digest); }

/// What the start of a file says (commit_record.hpp).
struct CommitRecord {
  std::uint64_t file_size = 0;
  GuardedRegion manifest;
  GuardedRegion boxes;
  GuardedRegion checksums;
  /// Of all bytes that belong neither to the commit record nor to a variable nor to the table of checksums: HDF5's own
  /// structures, the manifest, the table of boxes and what is unused.
  std::uint64_t structure_digest = 0;
  int format_version = 1;
};
constexpr auto fields_of(const CommitRecord*) {
  return std::tuple(&CommitRecord::file_size, &CommitRecord::manifest, &CommitRecord::boxes, &CommitRecord::checksums,
                    &CommitRecord::structure_digest, &CommitRecord::format_version);
}

/// The parts of an index as they lie in a file.
struct IndexBytes {
  CommitRecord commit_record;
  SharedWords boxes;
  SharedWords checksums;                ///< and after them the sizes of compressed blocks, if variables may have such
  std::span<const std::byte> manifest;  ///< somebody else owns its memory
};

/// Whether somebody else has checked the rows of a table that this process reads.
enum class Rows : std::uint8_t { unknown, checked };

/// Puts an index together and checks everything that reading relies on: numbers in range, boxes inside of datasets,
/// datasets inside of the file and apart from each other and from the tables, boxes apart, one checksum per block.
/// With checked rows, it reads few of them: as many as it takes to find those of each variable by halving.
/// @throws CorruptError, with @p file_name in the message
[[nodiscard]] FileIndex parse_index(const IndexBytes& bytes, const std::string& file_name, Rows rows = Rows::unknown);

/// The metadata of a manifest, without what it says about the variables. @throws CorruptError
[[nodiscard]] FileMetadata parse_metadata(std::span<const std::byte> manifest, const std::string& file_name);

/// Makes sure that no two boxes of a variable overlap: a restore counts their elements to see whether all were stored.
/// Apart from `parse_index`, since it takes longer. One reader of a file is enough, or several with a share of the
/// variables each: number @p reader of @p readers. @throws CorruptError
void check_boxes_apart(const FileIndex& index, const std::string& file_name, int reader = 0, int readers = 1);

/// What is left of [@p begin, @p end) without @p taken, in ascending order. The taken regions do not overlap.
[[nodiscard]] std::vector<Region> gaps_between(std::vector<Region> taken, std::uint64_t begin, std::uint64_t end);

/// Names every member of a struct that is not the same in both lists, and says how; empty if there is none.
/// @param others  who has the other list: "rank 0"
[[nodiscard]] std::string members_difference(const Members& own, const Members& other, const std::string& others);

/// No less than all lists of members take in the file.
[[nodiscard]] std::uint64_t most_member_bytes(const FileIndex& index);

}  // namespace reprieve::storage
