// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How one checkpoint file is restored, in parts, so that whoever has several files can decide between them:
///  1. `read_structure`: rank 0 reads what the file says about itself, verifies it, and broadcasts it; every rank
///     compares it with its registered variables, and all differences make one error. No variable is touched.
///  2. `verify_first`: the ranks together verify the whole file. No variable is touched.
///  3. `restore`, in this order, whatever is registered: the replicated and the per-rank values are read; serializers
///     take theirs over; redistribution functions; `when_values_restored`; arrays are described and read; functions
///     that take over the state of older versions of the program.
/// All of them are collective, and throw the same error on every rank.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "state/registry.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/format/file_index.hpp"
#include "storage/read/block_reader.hpp"
#include "storage/read/comparison.hpp"
#include "storage/read/stored_checkpoint.hpp"

namespace reprieve::storage {

class [[gnu::visibility("hidden")]] Restorer {
 public:
  /// Keeps references to the communicator and the registry. @param verify  compare checksums
  Restorer(cluster::Communicator & comm, const Checkpoint::Registry& registry, core::FileAddress file, bool verify);
  /// Restores what lies elsewhere than in a file, on as many ranks as saved it: `read_structure` reads nothing, and in
  /// `verify_first` each rank verifies what it saved itself. What is corrupt there is an error that names the rank.
  /// @param index  what a file of it would say about itself; @param source  of all that the ranks read, lives as long
  Restorer(cluster::Communicator & comm, const Checkpoint::Registry& registry, core::FileAddress name, FileIndex index,
           const BlockSource& source, bool verify);
  Restorer(const Restorer&) = delete;
  Restorer& operator=(const Restorer&) = delete;

  /// @throws CorruptError if neither rank 0 nor another rank can read the tables right; MismatchError; StorageError
  void read_structure();

  /// @throws CorruptError if a block is wrong on every rank that reads it; StorageError if a rank cannot read, or reads
  /// wrong what others read right
  void verify_first();

  /// @throws as `verify_first` (after a block that was read wrong the ranks verify the file, and read again if it is
  /// valid), MismatchError (arrays that the user describes), and what the user's functions throw
  /// @param check_arrays  collective; called when the arrays are described, and none of them has been read
  void restore(const std::function<void()>& check_arrays = {});

  /// For a file that a living run may own: its data must be of this checkpoint. Collective.
  /// @throws StorageError if the file was removed or replaced since it was opened
  void check_not_retired();

  /// Variables may have been overwritten.
  [[nodiscard]] bool touched() const noexcept { return touched_; }
  /// Whether this rank reads nothing but rows for which @p has is true. After `read_structure`. Local. Not known where
  /// functions of the user's run, or the values of several ranks are put together.
  [[nodiscard]] bool reads_only(const std::function<bool(const StoredVariable&, const BoxRow&)>& has) const;
  /// The registered variables that this file overwrites, after `read_structure`.
  [[nodiscard]] std::set<std::string> overwritten() const;
  /// Whether every older checkpoint overwrites the same variables before a function of the user's sees them, so that
  /// verifying this one first can be left out. True if nothing optional is registered (may be missing, dropped, former
  /// names, migrations) and no function of the user's runs between the first and the last read. After `read_structure`.
  /// Local.
  [[nodiscard]] bool is_plain() const;
  /// What the file says about itself, as soon as `read_structure` has read it.
  [[nodiscard]] const std::optional<FileIndex>& index() const noexcept { return index_; }
  /// The same for whoever continues with it; after `restore`. Then the restorer is good for nothing else.
  [[nodiscard]] FileIndex take_index() { return std::move(*index_); }

 private:
  template <class Operation>
  void agreed(const char* stage, Operation&& operation);
  template <class Operation>
  void compare(Operation && operation);

  void load_index();
  void load_index_from(int root);
  [[nodiscard]] int second_reader() const;
  void check_is_the_same(const PosixFile& opened) const;
  void open();
  void check_own_blocks();
  [[nodiscard]] bool runs_functions() const;
  void report_about(const char* what, std::uint64_t bytes_of_rank);
  void add_differences(Differences more);
  void read_values();
  [[nodiscard]] std::size_t own_box(const RestoreTarget& target) const;
  void expect_small_values();
  void take_over_values();
  void find_same_splits();
  void synchronize_arrays();
  void fill_arrays();
  void read_twice(const char* stage, const std::function<void()>& read);
  [[nodiscard]] bool reads_array_only(const RestoreTarget& target,
                                      const std::function<bool(const StoredVariable&, const BoxRow&)>& has) const;
  [[nodiscard]] bool redistributed(const RestoreTarget& target) const;
  void warn() const;
  void migrate();

  cluster::Communicator& comm_;
  const Checkpoint::Registry& registry_;
  core::FileAddress file_;
  bool verify_;
  std::string what_;
  bool touched_ = false;
  std::optional<FileIndex> index_;
  CommitRecord committed_;  ///< of the file that the index is of
  Bytes commit_record_;     ///< as it was when the file was opened
  Comparison comparison_;
  std::vector<const RestoreTarget*> same_splits_;  ///< every rank gets its own copies of shared elements back
  const BlockSource* source_ = nullptr;            ///< instead of the file
  std::optional<PosixFile> opened_;
  std::optional<ProgressLogger> news_;
  std::optional<BlockReader> reader_;
  std::optional<StoredCheckpoint> stored_;
};

/// The rank that verifies a block. A saving rank's blocks: the rank that replaces it now, or several in turn.
/// Replicated variables: all in turn. Pure.
/// @param saver  the rank that wrote it
[[nodiscard]] int verifier_of(const StoredVariable& variable, std::uint64_t saver, std::uint64_t block, int saved_by,
                              int ranks);

/// The saving ranks from the first to before the second: a rank now may have to verify blocks of their boxes, and no
/// blocks of others. Pure.
[[nodiscard]] std::pair<std::uint64_t, std::uint64_t> savers_verified_by(int rank, int saved_by, int ranks);

/// Every rank reads its share of the file and compares the checksums. Blocks that differ are read by other ranks too:
/// what one of them reads right is not corrupt, however often the first one reads it wrong. Collective.
/// @param reader  one that verifies, of this file
/// @throws CorruptError that names the corruption, if a block is wrong for all who read it; StorageError (io) that
/// names the rank and its host, if others read right what it does not; StorageError if a rank cannot read
void verify_first(cluster::Communicator& comm, BlockReader& reader, const FileIndex& index, const std::string& file);

}  // namespace reprieve::storage
