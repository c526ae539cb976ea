// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How a checkpoint file comes to be:
///  1. every rank describes its variables; one reduction shows whether any has changed since the save before, and
///     whether all ranks have the same ones. If there is a change, rank 0 gathers the numbers of all ranks (boxes
///     and shapes), lays the file out with HDF5, and sends each rank its offsets; else all stays as it was (collective)
///  2. rank 0 updates the metadata, and takes the disk space                                        (collective)
///  3. every rank writes its blocks; small pieces are exchanged first            (collective; in the background alone)
///  4. the ranks agree on errors; rank 0 writes the table of checksums and the commit record        (collective)
///  5. every rank makes what it wrote durable, all at the same time, and the ranks agree on errors     (collective)
/// The file is complete when its commit record is there, and durable when this has returned: the rename that commits
/// it, by the caller, comes after that.

#include "storage/write/checkpoint_writer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.hpp"
#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "reprieve/version.hpp"
#include "reprieve/version_details.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/format/blocks.hpp"
#include "storage/format/layout.hpp"
#include "storage/format/shared_copies.hpp"
#include "storage/hdf5/chunk_index.hpp"
#include "storage/hdf5/hdf5_handle.hpp"
#include "storage/hdf5/hdf5_layout.hpp"
#include "storage/write/data_stream.hpp"
#include "storage/write/registration.hpp"

namespace reprieve::storage {

namespace {

/// "Open MPI v4.1.4" of a text that continues with the package, the date and more.
std::string mpi_version() {
  const std::string version = version_details().mpi;
  return version.substr(0, version.find(','));
}

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  check_hdf5(H5get_libversion(&major, &minor, &release), "ask HDF5 for its version");
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

/// As they are at run time. @throws MpiError, StorageError
void fill_versions(FileMetadata& metadata) {
  metadata.library_version = REPRIEVE_VERSION;
  metadata.mpi_version = mpi_version();
  metadata.hdf5_version = hdf5_version();
}

std::pair<Digest128, Digest128> digests_of(const DescriptionMessage& message) {
  return {xxh3_128(message.facts), xxh3_128(message.numbers)};
}

using Distribution = state::Distribution;

constexpr std::size_t kMostBytesOfOne = std::size_t{4} << 20U;
constexpr std::size_t kMostBytesOfAll = std::size_t{64} << 20U;

/// A long double has bytes that are no part of its value.
bool has_padding(const ElementType& type) {
  return sizeof(long double) > sizeof(double) &&
         ((type.element_class == ElementClass::floating && type.size_bytes == sizeof(long double)) ||
          (type.element_class == ElementClass::complex && type.size_bytes == 2 * sizeof(long double)));
}

bool is_compared(const LocalVariable& variable) {
  return variable.description.distribution == Distribution::replicated &&
         variable.description.type.element_class != ElementClass::opaque && !has_padding(variable.description.type) &&
         variable.views.size() == 1 && variable.views.front().space == nullptr;
}

/// One for each variable; 0 of those that are not compared.
std::vector<std::uint64_t> digests_of(const std::vector<LocalVariable>& variables) {
  std::vector<std::uint64_t> digests(variables.size());
  std::size_t left = kMostBytesOfAll;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    if (is_compared(variables[v])) {
      const BoxView<const std::byte>& view = variables[v].views.front();
      const std::size_t all = bytes_of(view.box, variables[v].description.type.size_bytes);
      const std::size_t looked_at = std::min({all, kMostBytesOfOne, left});
      left -= looked_at;
      digests[v] = xxh3({view.data, looked_at});
    }
  }
  return digests;
}

/// For each variable, whether its digest is another one than rank 0's. One that lies in the memory of a device on one
/// of the two is not compared.
Bytes others_of(const std::vector<std::uint64_t>& digests, const std::vector<std::uint64_t>& of_rank_0) {
  Bytes others(digests.size());
  for (std::size_t v = 0; v < std::min(digests.size(), of_rank_0.size()); ++v) {
    others[v] = std::byte{digests[v] != of_rank_0[v] && digests[v] != 0 && of_rank_0[v] != 0};
  }
  return others;
}

const WriterRow& row_of(WriterKind writer) { return kWriterRows.at(static_cast<std::size_t>(writer)); }

Chunking chunking_of(const WriteOptions& options) {
  if (!row_of(options.writer).in_chunks) {
    return Chunking::none;
  }
  return options.compress.compression != Compression::none && can_lay_out_compressed() ? Chunking::compressed
                                                                                       : Chunking::where_better;
}

std::vector<std::string> names_of_others(const std::vector<LocalVariable>& variables, const std::vector<Bytes>& ranks) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    if (std::ranges::any_of(ranks, [v](const Bytes& others) { return others.at(v) != std::byte{}; })) {
      names.push_back("'" + variables[v].description.name + "'");
    }
  }
  return names;
}

}  // namespace

bool compare_replicated(cluster::Communicator& comm, const std::vector<LocalVariable>& variables,
                        const std::string& what) {
  if (comm.size() == 1) {
    return true;
  }
  std::vector<std::uint64_t> digests;
  comm.agree(core::capture([&] { digests = digests_of(variables); }), what);
  if (comm.compare(xxh3(std::as_bytes(std::span(digests))), 0, what).is_equal) {
    return true;
  }
  const auto ranks = comm.gather(others_of(digests, comm.from_rank_0([&] { return digests; }, what)), what);
  const auto names = comm.from_rank_0([&] { return names_of_others(variables, ranks); }, what);
  if (comm.is_rank_0() && !names.empty()) {
    core::log::warning(
        "{} registered as replicated, but {} not equal on all ranks: only the value of rank 0 is saved, and all ranks "
        "get that one at a restart. If each rank has a value of its own, register it as per_rank; if each has a part "
        "of one array, as distributed",
        fmt::format("{} {}", fmt::join(names, ", "), names.size() == 1 ? "is" : "are"),
        names.size() == 1 ? "it is" : "they are");
  }
  return names.empty();
}

CheckpointWriter::CheckpointWriter(cluster::Communicator& comm, core::FileAddress file, const WriteOptions& options,
                                   LayoutCache& cache)
    : comm_(comm), options_(options), writer_(row_of(options.writer)), cache_(cache) {
  plan_.file = std::move(file);
  plan_.compress = options.compress;
  // What need not be durable is done when it is in the page cache.
  plan_.io = options.io == FileIo::automatic && !options.durable ? FileIo::page_cache : options.io;
}

void CheckpointWriter::plan(const Checkpoint::Registry& registry, const FileMetadata& metadata) {
  what_ = "save " + std::to_string(metadata.number) + ": ";
  collect(registry, what_ + "collecting the variables");
  const std::string what = what_ + "laying out the file";
  find_layout(describe(what), metadata, what);
  if (options_.compare_replicated) {
    static_cast<void>(compare_replicated(comm_, variables_, what_ + "comparing the replicated values"));
  }
  apply_offsets(cache_.content->common, cache_.content->offsets);
  const bool shares_pages =
      options_.in_background || !(options_.writer == WriterKind::direct && is_exchanged(comm_, plan_));
  bool rewrites = false;
  comm_.on_rank_0([&] { rewrites = cache_.content->file->put_on_disk(plan_.file, options_.recycle, shares_pages); },
                  what);
  find_unchanged(rewrites, metadata, what);
}

/// The mpio writer writes what it is given.
void CheckpointWriter::find_unchanged(bool rewrites, const FileMetadata& metadata, const std::string& what) {
  if (options_.save == 0 || options_.writer != WriterKind::direct) {
    return;
  }
  const bool is_last = metadata.reason.kind == SaveReason::Kind::preemption;
  const auto over = comm_.max(rewrites ? static_cast<std::int64_t>(options_.left_by_save) : 0, what);
  comm_.agree(core::capture([&] {
                plan_.ranges = cache_.history.begin(static_cast<std::uint64_t>(over), options_.save, is_last);
              }),
              what);
}

void CheckpointWriter::plan_ahead(const Checkpoint::Registry& registry, const FileMetadata& metadata) {
  const std::string what = "laying out the first file";
  collect(registry, what);
  DescriptionMessage description = describe(what);
  std::vector<LocalVariable>().swap(variables_);  // nothing is written
  find_layout(std::move(description), metadata, what);
}

void CheckpointWriter::plan_in_memory(const Checkpoint::Registry& registry, const FileMetadata& metadata) {
  what_ = "node-local copy " + std::to_string(metadata.number) + ": ";
  collect(registry, what_ + "collecting the variables");
  const std::string what = what_ + "laying out the file";
  find_layout(describe(what), metadata, what);
  apply_offsets(cache_.content->common, cache_.content->offsets);
}

StructureImage CheckpointWriter::image() const { return cache_.content->file->image(); }

void CheckpointWriter::collect(const Checkpoint::Registry& registry, const std::string& what) {
  core::Outcome outcome = core::capture([&] { variables_ = collect_variables(registry); });
  if (outcome && outcome->code != ErrorCode::no_memory) {
    outcome->message += " (on rank " + std::to_string(comm_.rank()) + ")";
  }
  comm_.agree(outcome, what);
}

DescriptionMessage CheckpointWriter::describe(const std::string& what) const {
  DescriptionMessage description;
  comm_.agree(core::capture([&] { description = encode_descriptions(variables_); }), what);
  return description;
}

/// One reduction shows whether the layout of the save before serves this one as well: then nothing else is sent.
void CheckpointWriter::find_layout(DescriptionMessage description, FileMetadata metadata, const std::string& what) {
  metadata.world_size = comm_.size();
  fill_versions(metadata);
  const bool differs = !cache_.content || cache_.content->writer != options_.writer ||
                       cache_.content->described != digests_of(description);
  const auto [same_facts, any_differs] = comm_.compare(xxh3(description.facts), differs ? 1 : 0, what);
  if (any_differs != 0 || !kept_layout_takes(metadata, what)) {
    lay_out(std::move(description), same_facts, metadata, what);
  }
}

/// False if there is no room for the metadata. A layout that cannot be updated is not kept.
bool CheckpointWriter::kept_layout_takes(const FileMetadata& metadata, const std::string& what) {
  bool takes = true;
  const auto bring_up_to_date = [&] {
    auto kept = std::exchange(cache_.content, std::nullopt);
    check_file_size_limit(plan_.file, kept->file->index().file_size);
    takes = kept->file->replace_metadata(metadata);
    cache_.content = std::move(kept);
  };
  comm_.on_rank_0(bring_up_to_date, what);
  return comm_.max(takes ? 0 : 1, what) == 0;
}

void CheckpointWriter::lay_out(DescriptionMessage description, bool same_facts, const FileMetadata& metadata,
                               const std::string& what) {
  cache_.content.reset();
  const auto described = digests_of(description);
  auto messages = send_to_rank_0(comm_, std::move(description), same_facts, what);
  std::shared_ptr<LaidOutFile> file;
  FileOffsets offsets;
  comm_.on_rank_0(
      [&] {
        FileIndex index = plan_file(std::move(messages), metadata, chunking_of(options_));
        // The limit holds for files in memory too, and HDF5 does not survive an error there.
        check_file_size_limit(plan_.file, most_file_bytes(index));
        file = laid_out_as_before(index);
        if (!file) {
          file = std::make_shared<LaidOutFile>(std::move(index));
        }
        check_table_sizes(plan_.file.string(), file->commit_record());  // before any data are written
        offsets = offsets_in(file->index(), comm_.size());
      },
      what);
  comm_.broadcast(offsets.common, 0, what);
  Bytes own = comm_.scatter(offsets.of_ranks, what);
  cache_.content =
      LayoutCache::Content{options_.writer, described, std::move(offsets.common), std::move(own), std::move(file)};
}

/// The first save after a start is often the one before the end, and HDF5 takes its time to make thousands of datasets.
/// Those of the restored file have their addresses already. Nothing if that file is another one.
std::unique_ptr<LaidOutFile> CheckpointWriter::laid_out_as_before(FileIndex& index) {
  std::optional<LayoutCache::Model> model = std::exchange(cache_.model, std::nullopt);
  if (!model) {
    return nullptr;
  }
  try {
    return LaidOutFile::like(PosixFile::open_to_read(model->file), model->index, index);
  } catch (const Error& error) {
    core::log::debug("the structure of {} cannot be taken for the next file: {}", model->file.string(), error.what());
    return nullptr;
  }
}

void CheckpointWriter::apply_offsets(const Bytes& common, const Bytes& own) {
  Decoder decoder(common);
  Decoder from_own(own);
  plan_.state_bytes = decoder.word();
  plan_.variables.reserve(variables_.size());
  plan_.items.reserve(variables_.size());
  std::vector<Dataset> datasets;
  datasets.reserve(variables_.size());
  std::vector<std::uint64_t> positions;
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const Description& description = variables_[v].description;
    const Dataset& dataset = datasets.emplace_back(decoder.get<Dataset>());
    if (description.texts && dataset.element_size > 1) {
      pad_texts(variables_[v], dataset.element_size);
    }
    positions.push_back(description.distribution == Distribution::per_rank ? from_own.word() : 0);
    WritePlan::Variable planned{description.name, dataset.file_offset, stored_bytes(dataset)};
    decoder.get(planned.scattered);
    plan_.variables.push_back(std::move(planned));
    if (description.is_shared) {
      split_shared(variables_, v, from_own.get<std::vector<Box>>());
    }
  }
  // Only now: what is shared has become two variables, in either order.
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    plan_.variables[v].first_item = plan_.items.size();
    add_items(variables_[v], datasets[v], positions[v]);
    plan_.variables[v].item_count = plan_.items.size() - plan_.variables[v].first_item;
  }
  forget_descriptions();
}

/// They have served: their memory is free for the save. The views of the items may refer to contents.
void CheckpointWriter::forget_descriptions() {
  for (LocalVariable& variable : variables_) {
    if (!variable.content.empty()) {
      contents_.push_back(std::move(variable.content));
    }
  }
  std::vector<LocalVariable>().swap(variables_);
}

/// This rank's boxes, in the order of the table of boxes. Takes the views of the variable.
void CheckpointWriter::add_items(LocalVariable& variable, const Dataset& dataset, std::uint64_t position) {
  const Distribution distribution = variable.description.distribution;
  if (distribution == Distribution::replicated && !comm_.is_rank_0()) {
    return;
  }
  for (BoxView<const std::byte>& view : std::exchange(variable.views, {})) {
    if (distribution == Distribution::per_rank) {
      view.box = {{position}, {volume(view.box.extent)}};
      view.strides_bytes = dense_strides(view.box.extent, dataset.element_size);
    }
    if (!dataset.chunk.empty()) {
      add_chunks(view, dataset);
      continue;
    }
    plan_.items.push_back({dataset, std::move(view)});
  }
}

/// Each chunk is written as a dataset by itself.
void CheckpointWriter::add_chunks(const BoxView<const std::byte>& view, const Dataset& dataset) {
  bool continues_row = false;
  for (ChunkPart& part : chunk_parts(dataset, view.box)) {
    const std::byte* first = view.data + displacement(view.box, view.strides_bytes, part.box.offset);
    plan_.items.push_back({std::move(part.dataset),
                           {first, std::move(part.within), view.strides_bytes, view.space},
                           part.is_all,
                           std::exchange(continues_row, true)});
  }
}

std::uint64_t CheckpointWriter::own_bytes() const { return plan_.own_bytes(); }

void CheckpointWriter::write_alone() {
  if (!detail::kWriters.at(static_cast<std::size_t>(options_.writer)).in_background) {
    throw UsageError("this writer does not work in the background");
  }
  written_ = write_directly(plan_);
  core::failpoint("save.part_written");
  if (written_.file && options_.durable) {
    written_.file->sync();
  }
  core::failpoint("save.part_durable");
  durable_ = true;
}

void CheckpointWriter::write_together() {
  const std::string what = what_ + "writing";
  comm_.agree(core::capture([&] { written_ = writer_.write(comm_, plan_, what); }), what);
  core::failpoint("save.part_written");
}

void CheckpointWriter::complete() {
  report_no_compression();
  gather_and_write_checksums(what_ + "completing the file");
  finish(what_ + "making the data durable");
}

/// Once. A state that fits into the buffers of a stream is never compressed.
void CheckpointWriter::report_no_compression() const {
  if (plan_.compress.compression == Compression::none || cache_.has_reported_no_compression || !comm_.is_rank_0()) {
    return;
  }
  const char* reason = nullptr;
  if (!cache_.content->file->index().may_be_compressed()) {
    reason = can_lay_out_compressed() ? nullptr : "the program has registered a filter of Blosc with HDF5";
  } else if (!written_.bypasses_page_cache && plan_.own_bytes() > kMaxPendingWrites * kStreamBufferBytes) {
    reason = "writes to the checkpoint directory do not bypass the page cache";
  }
  if (reason != nullptr) {
    cache_.has_reported_no_compression = true;
    core::log::info("compress has no effect: {}", reason);
  }
}

void CheckpointWriter::gather_and_write_checksums(const std::string& what) {
  std::vector<std::uint64_t> blocks = std::move(written_.blocks.checksums);
  const std::vector<std::uint64_t>& sizes = written_.blocks.compressed_sizes;
  blocks.insert(blocks.end(), sizes.begin(), sizes.end());
  const std::vector<Bytes> by_rank = comm_.gather(std::as_bytes(std::span(blocks)), what);
  comm_.on_rank_0(
      [&] {
        place_checksums(cache_.content->file->index(), by_rank);
        write_checksums_and_commit_record();
      },
      what);
}

void CheckpointWriter::write_checksums_and_commit_record() {
  if (!written_.file) {
    written_.file.emplace(PosixFile::open_to_write(plan_.file));
  }
  const PosixFile& file = *written_.file;
  check_structure(file);
  cache_.content->file->write_chunk_sizes(file);
  CommitRecord commit_record = cache_.content->file->commit_record();
  write_checksums(file, commit_record, cache_.content->file->index());
  core::failpoint("save.checksums_written");
  write_commit_record(file, commit_record);
  core::failpoint("save.record_written");
  durable_ = false;
}

void CheckpointWriter::finish(const std::string& what) {
  comm_.agree(core::capture([&] {
                if (written_.file && options_.durable && !durable_) {
                  written_.file->sync();
                }
                core::failpoint("save.part_durable");
                if (written_.file) {
                  written_.file->close();
                }
              }),
              what);
}

/// If HDF5 opened the file for writing, it must have left the structure as it was laid out.
void CheckpointWriter::check_structure(const PosixFile& file) const {
  const CommitRecord& commit_record = cache_.content->file->commit_record();
  if (writer_.opens_structure && structure_digest(file, cache_.content->file->index(),
                                                  commit_record.checksums.region) != commit_record.structure_digest) {
    throw CorruptError(plan_.file.string() + ": its structure changed while the data were written");
  }
}

std::uint64_t most_checkpoint_bytes(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                                    const WriteOptions& options) {
  constexpr const char* what = "computing the size of a checkpoint";
  const auto compute = [&] {
    DescriptionMessage mine = encode_descriptions(collect_variables(registry));
    const bool same_facts = comm.compare(xxh3(mine.facts), 0, what).is_equal;
    auto messages = send_to_rank_0(comm, std::move(mine), same_facts, what);
    const std::uint64_t bytes =
        comm.is_rank_0() ? most_file_bytes(plan_file(std::move(messages), {}, chunking_of(options))) : 0;
    return static_cast<std::uint64_t>(comm.max(static_cast<std::int64_t>(bytes), what));
  };
  return comm.together(compute, what);
}

}  // namespace reprieve::storage
