// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One checkpoint file on its way from the registered variables to a complete file.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/directory.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/format/description.hpp"
#include "storage/format/file_index.hpp"
#include "storage/write/write_item.hpp"
#include "storage/write/writers.hpp"

namespace reprieve::storage {

class LaidOutFile;

/// What a rank keeps from one save to the next. As long as no rank registers other variables or shapes than before, the
/// file is not laid out again, and the ranks exchange no descriptions.
struct LayoutCache {
  struct Content {
    WriterKind writer;
    /// Digests of what this rank said of its variables, for which the layout was made: of the facts, and of the
    /// numbers.
    std::pair<Digest128, Digest128> described;
    Bytes common;                       ///< what rank 0 sent to all ranks
    Bytes offsets;                      ///< what it sent to this one
    std::shared_ptr<LaidOutFile> file;  ///< rank 0's
  };
  /// A file that is complete, as one that has just been restored, and what it says about itself.
  struct Model {
    core::FileAddress file;
    FileIndex index;
  };

  std::optional<Content> content;  ///< nothing before the first save
  /// Rank 0's: if the first save has the same variables, it takes the structure from there.
  std::optional<Model> model;
  bool has_reported_no_compression = false;  ///< rank 0's: why `compress` has no effect
  WriteHistory history;                      ///< what this rank has written before, into files that may be written over
};

/// Warns on rank 0 of the replicated variables that have another value on some rank: only those of rank 0 are saved,
/// and all ranks would continue with them. Looks at the first 4 MiB of each variable, and at 64 MiB in all; at numbers
/// and texts alone, since equal objects may have different bytes, and not at the memory of devices. Collective: one
/// small reduction if all are equal. Returns whether they are, the same on all ranks.
/// @param variables  the same ones on all ranks @throws as any collective call
bool compare_replicated(cluster::Communicator& comm, const std::vector<LocalVariable>& variables,
                        const std::string& what);

struct WriteOptions {
  WriterKind writer = WriterKind::direct;
  bool durable = true;
  FileIo io = FileIo::automatic;
  CompressItems compress{};
  bool recycle = false;  ///< the file is there, and its blocks may be written over
  /// Rank 0's: the save that has left the file as it is, if it was one of this run; 0: not known.
  std::uint64_t left_by_save = 0;
  std::uint64_t save = 0;      ///< the number of this one, which no other save of the run has; 0: not to be remembered
  bool in_background = false;  ///< the ranks write alone (`write_alone`)
  bool compare_replicated = false;  ///< warn if replicated values are not equal; the same on all ranks
};

/// Writes all variables and metadata into a new file, complete, checksummed, marked complete and durable, but under its
/// temporary name: the commit (rename) is the caller's. An existing file of that name is replaced, or with
/// `options.recycle` rewritten: it is void as a checkpoint before anything else in it changes. The versions and the
/// world size in the metadata are filled in here.
///
/// The stages are for callers that let time pass between them. Each is called once, in this order.
/// All of them throw StorageError, MismatchError (ranks registered different variables or shapes), MpiError and
/// UnresponsiveError, the same on every rank. The file is left for the caller to remove.
class CheckpointWriter {
 public:
  /// @param comm  must outlive the writer, but not a thread in `write_alone`; the same for @p cache
  CheckpointWriter(cluster::Communicator& comm, core::FileAddress file, const WriteOptions& options,
                   LayoutCache& cache);

  /// Describes the variables, lays the file out and gets this rank's offsets in it. Collective.
  void plan(const Checkpoint::Registry& registry, const FileMetadata& metadata);

  /// Lays out what `plan` will find laid out already, if the variables and boxes are the same by then. It replaces all
  /// other stages. Collective. Touches no file.
  void plan_ahead(const Checkpoint::Registry& registry, const FileMetadata& metadata);

  /// Instead of `plan` where no file is made. Afterwards this rank's items are known, and on rank 0 the structure of
  /// the file. Collective.
  void plan_in_memory(const Checkpoint::Registry& registry, const FileMetadata& metadata);
  /// This rank's items, which the caller may take away.
  [[nodiscard]] std::vector<WriteItem>& items() noexcept { return plan_.items; }
  /// Rank 0's: the file without its data.
  [[nodiscard]] StructureImage image() const;

  /// Copies this rank's part of the state: from then on the variables may change. Not collective.
  /// @throws std::bad_alloc
  void copy_state(StateCopy& copy) { copy.take(plan_.items); }

  /// Bytes of state that this rank writes.
  [[nodiscard]] std::uint64_t own_bytes() const;

  /// Writes this rank's part and makes it durable. Needs neither MPI nor HDF5, and can be called on another thread.
  /// @throws StorageError; UsageError for a writer that cannot
  void write_alone();

  /// Writes the state: every rank its part, or all together. Collective.
  void write_together();

  /// Gathers the checksums and completes the file; then it is durable. Collective.
  void complete();

  /// Bytes of state of all ranks, known after `plan`.
  [[nodiscard]] std::uint64_t state_bytes() const noexcept { return plan_.state_bytes; }

 private:
  void collect(const Checkpoint::Registry& registry, const std::string& what);
  [[nodiscard]] DescriptionMessage describe(const std::string& what) const;
  void find_layout(DescriptionMessage description, FileMetadata metadata, const std::string& what);
  [[nodiscard]] bool kept_layout_takes(const FileMetadata& metadata, const std::string& what);
  void lay_out(DescriptionMessage description, bool same_facts, const FileMetadata& metadata, const std::string& what);
  [[nodiscard]] std::unique_ptr<LaidOutFile> laid_out_as_before(FileIndex& index);
  void find_unchanged(bool rewrites, const FileMetadata& metadata, const std::string& what);
  void apply_offsets(const Bytes& common, const Bytes& own);
  void forget_descriptions();
  void add_items(LocalVariable& variable, const Dataset& dataset, std::uint64_t position);
  void add_chunks(const BoxView<const std::byte>& view, const Dataset& dataset);
  void report_no_compression() const;
  void gather_and_write_checksums(const std::string& what);
  void write_checksums_and_commit_record();
  void finish(const std::string& what);
  void check_structure(const PosixFile& file) const;

  cluster::Communicator& comm_;
  WriteOptions options_;
  const WriterRow& writer_;
  std::string what_;                      ///< for messages: "save 7: "
  std::vector<LocalVariable> variables_;  ///< until it is known where they lie
  std::vector<Bytes> contents_;           ///< of those that no program registered
  WritePlan plan_;
  LayoutCache& cache_;
  WrittenPart written_;
  bool durable_ = false;  ///< this rank's part is
};

/// No less than the size of the file that a save would make now. Collective; the same on every rank.
/// @throws as the stages of a CheckpointWriter
std::uint64_t most_checkpoint_bytes(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                                    const WriteOptions& options);

}  // namespace reprieve::storage
