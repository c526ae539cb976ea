// SPDX-License-Identifier: BSD-3-Clause
#include "storage/hdf5/hdf5_layout.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/directory.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/checksum.hpp"

namespace reprieve::storage {

namespace {

// Arrays in chunks, in HDF5's form without an index ("implicit index": datasets of fixed shape, without filters, with
// their space allocated at creation). Chunk i, counted in C order, lies i times the size of a chunk after the first;
// those at the far edges are stored whole. (HDF5 File Format Specification, version 3.0, "Data Layout Message", version
// 4, index type 2.)

constexpr const char* kChunking = "lay out chunks";

/// A copy of the properties @p creation, with these chunks. Their space is allocated when the dataset is created.
Hdf5Handle chunked_creation(const Hdf5Handle& creation, const Extents& chunk) {
  Hdf5Handle chunked(H5Pcopy(creation.get()), H5Pclose, kChunking);
  const std::vector<hsize_t> lengths(chunk.begin(), chunk.end());
  check_hdf5(H5Pset_chunk(chunked.get(), static_cast<int>(lengths.size()), lengths.data()), kChunking);
  return chunked;
}

/// What HDF5 says is the address of the chunk that begins at @p at.
std::uint64_t address_of_chunk(hid_t dataset, const Extents& at) {
  const std::vector<hsize_t> offset(at.begin(), at.end());
  unsigned filters = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t size = 0;
  check_hdf5(H5Dget_chunk_info_by_coord(dataset, offset.data(), &filters, &address, &size), kChunking);
  if (address == HADDR_UNDEF) {
    throw_hdf5_error("tell where a chunk lies");
  }
  return address;
}

/// Makes an array of two chunks with a number in each, and returns what HDF5 says is the address of the first.
std::uint64_t write_two_chunks(const std::filesystem::path& path, const std::array<std::uint64_t, 2>& numbers) {
  const Hdf5Handle access = make_property_list(H5P_FILE_ACCESS);
  check_hdf5(H5Pset_fapl_stdio(access.get()), kChunking);
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), kChunking);
  const Hdf5Handle file_creation = make_property_list(H5P_FILE_CREATE);
  check_hdf5(H5Pset_userblock(file_creation.get(), kCommitRecordBytes), kChunking);
  const core::StandardDescriptors taken;
  Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, file_creation.get(), access.get()), H5Fclose, kChunking);
  const Hdf5Handle space = make_hdf5_space({numbers.size()});
  const Hdf5Handle creation = make_property_list(H5P_DATASET_CREATE);
  check_hdf5(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), kChunking);
  const Hdf5Handle chunked = chunked_creation(creation, {1});
  Hdf5Handle dataset(
      H5Dcreate2(file.get(), "numbers", H5T_NATIVE_UINT64, space.get(), H5P_DEFAULT, chunked.get(), H5P_DEFAULT),
      H5Dclose, kChunking);
  check_hdf5(H5Dwrite(dataset.get(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), kChunking);
  const std::uint64_t address = address_of_chunk(dataset.get(), {0});
  dataset.close(kChunking);
  file.close(kChunking);
  return address;
}

/// What must be added to the addresses that HDF5 reports. Versions differ in whether these count the user block. A
/// small file shows what this version does.
std::uint64_t start_of_addresses() {
  const std::array<std::uint64_t, 2> numbers{0x5265707269657665, 0x74696C6573206865};
  const PosixFile file = PosixFile::create_in_memory();
  const std::uint64_t address = write_two_chunks(file.path(), numbers);
  for (const std::uint64_t start : {std::uint64_t{0}, kCommitRecordBytes}) {
    std::array<std::uint64_t, 2> found{};
    if (address + start + sizeof found <= file.size()) {
      file.read_all(std::as_writable_bytes(std::span(found)), address + start);
    }
    if (found == numbers) {
      return start;
    }
  }
  throw Error(ErrorCode::internal, "this version of HDF5 stores chunks in another way than expected");
}

/// The address of the first chunk in the file. Checks the first and the last.
/// @param expected  shape, chunk and element size of the dataset
/// @throws Error if HDF5 has laid the chunks out in another way
std::uint64_t offset_of_chunks(hid_t dataset, const Dataset& expected) {
  static const std::uint64_t start = start_of_addresses();
  Dataset chunks(expected);
  chunks.file_offset = start + address_of_chunk(dataset, Extents(expected.shape.size(), 0));
  Box corner = whole(expected.shape);  // the first element of the last chunk
  for (std::size_t d = 0; d < corner.offset.size(); ++d) {
    corner.offset[d] = (expected.shape[d] - 1) / expected.chunk[d] * expected.chunk[d];
    corner.extent[d] = 1;
  }
  if (start + address_of_chunk(dataset, corner.offset) != chunk_part(chunks, corner).dataset.file_offset) {
    throw Error(ErrorCode::internal, "this version of HDF5 does not store chunks one after the other");
  }
  return chunks.file_offset;
}

/// Datasets from this size on begin at a multiple of the page size; smaller ones are packed, which writes faster.
constexpr hsize_t kAlignFromBytes = hsize_t{64} << 10U;
constexpr hsize_t kAlignmentBytes = 4096;
/// Longer texts are stored as arrays of characters: one string element must fit into the memory of a tool.
constexpr std::uint64_t kMaxStringBytes = std::uint64_t{1} << 24U;
/// Room for the metadata to change from one save to the next without a new layout.
constexpr std::size_t kManifestRoom = 2048;
/// Variables up to this size lie side by side.
constexpr std::uint64_t kSmallBytes = std::uint64_t{1} << 20U;
/// In a recycled file, a rank's few kilobytes of a small variable meet pages that other ranks fill as well. The kernel
/// would read each of them from the disk first; so rank 0 fills them all in the page cache, up to this size. Not
/// where a rank has so much of a variable that it may leave a part of it as it lies.
constexpr std::uint64_t kMostPrefilledBytes = std::uint64_t{64} << 20U;

bool is_small(const StoredVariable& variable) { return variable.bytes() <= kSmallBytes; }

constexpr std::size_t kCacheBytes = std::size_t{256} << 10U;

constexpr hsize_t kFixedStructureBytes = hsize_t{64} << 10U;

/// No less than what HDF5 needs for its own structures.
hsize_t most_structure_bytes(const FileIndex& index) {
  constexpr hsize_t per_variable = 512;
  return kFixedStructureBytes + per_variable * index.variables.size() + most_annotation_bytes(index) +
         most_member_bytes(index) + sum_of(index.variables, most_index_bytes);
}

/// The estimated size of the structures. HDF5 puts them in one piece of that size at the start of the file. The rest of
/// the piece is written with each save. Measured with HDF5 1.10.8: 146 bytes for each of 100,000 names of 22 characters
/// in one group.
hsize_t structure_bytes(const FileIndex& index) {
  constexpr hsize_t per_variable = 160;
  constexpr hsize_t per_group = 512;
  hsize_t bytes = kFixedStructureBytes + most_annotation_bytes(index) + most_member_bytes(index) +
                  sum_of(index.variables, most_index_bytes);
  std::string_view group;
  for (const StoredVariable& variable : index.variables) {  // sorted, so those of a group are neighbours
    bytes += per_variable + variable.name.size() + sizeof(std::uint64_t) * variable.shape.size();
    const auto of_variable = std::string_view(variable.name).substr(0, variable.name.rfind('/') + 1);
    if (of_variable != group) {
      group = of_variable;
      bytes += per_group;
    }
  }
  return bytes;
}

/// HDF5 counts what a dataset takes in its cache as the bytes that it will take in the file: 150, where it takes 4 KiB
/// of memory. What it has written out it need not keep.
void limit_cache(const Hdf5Handle& access) {
  const char* action = "limit the cache of a file in memory";
  H5AC_cache_config_t config{};
  config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check_hdf5(H5Pget_mdc_config(access.get(), &config), action);
  config.set_initial_size = true;
  config.initial_size = config.min_size = config.max_size = kCacheBytes;
  config.incr_mode = H5C_incr__off;
  config.flash_incr_mode = H5C_flash_incr__off;
  config.decr_mode = H5C_decr__off;
  check_hdf5(H5Pset_mdc_config(access.get(), &config), action);
}

/// The properties with which the file in memory is made and opened again.
Hdf5Handle make_access() {
  const char* action = "set up a file in memory";
  Hdf5Handle access = make_property_list(H5P_FILE_ACCESS);
  // This driver takes the path of a file in memory as it is; the default one asks for the real path, which has none.
  check_hdf5(H5Pset_fapl_stdio(access.get()), action);
  // Superblock and object headers of this version carry checksums of their own.
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), action);
  limit_cache(access);
  return access;
}

Hdf5Handle create_hdf5_file(const std::filesystem::path& file, const FileIndex& index) {
  const std::string action = "create " + file.string();
  const Hdf5Handle access = make_access();
  check_hdf5(H5Pset_alignment(access.get(), kAlignFromBytes, kAlignmentBytes), action);
  check_hdf5(H5Pset_meta_block_size(access.get(), structure_bytes(index)), action);
  const Hdf5Handle creation = make_property_list(H5P_FILE_CREATE);
  check_hdf5(H5Pset_userblock(creation.get(), kCommitRecordBytes), action);
  const core::StandardDescriptors taken;
  return {H5Fcreate(file.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose, action};
}

enum class Attributed : std::uint8_t { no, yes };

/// The properties of a dataset. Without room for attributes its header takes half as much; where some come all the
/// same, HDF5 adds room.
Hdf5Handle make_dataset_creation(Attributed attributed) {
  const char* action = "set up datasets";
  Hdf5Handle list = make_property_list(H5P_DATASET_CREATE);
  const hid_t creation = list.get();
  check_hdf5(H5Pset_layout(creation, H5D_CONTIGUOUS), action);
  check_hdf5(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), action);
  check_hdf5(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), action);
  check_hdf5(H5Pset_obj_track_times(creation, false), action);
  check_hdf5(H5Pset_dset_no_attrs_hint(creation, attributed == Attributed::no), action);
  return list;
}

/// Creates the file in memory.
class Layouter {
 public:
  Layouter(const std::filesystem::path& path, FileIndex& index)
      : index_(index),
        file_(create_hdf5_file(path, index)),
        link_creation_(make_property_list(H5P_LINK_CREATE)),
        dataset_creation_(make_dataset_creation(Attributed::yes)),
        bare_creation_(make_dataset_creation(Attributed::no)) {
    check_hdf5(H5Pset_create_intermediate_group(link_creation_.get(), 1), "set up links");
    check_hdf5(H5Pset_char_encoding(link_creation_.get(), H5T_CSET_UTF8), "set up links");
  }

  CommitRecord run() {
    create_variables();
    CommitRecord commit_record = describe();
    file_.close("finish the layout of a file");
    return commit_record;
  }

 private:
  Hdf5Handle create_group(const char* name) {
    const Hdf5Handle creation = make_property_list(H5P_GROUP_CREATE);
    check_hdf5(H5Pset_attr_phase_change(creation.get(), 64, 32), "set up a group");
    return {H5Gcreate2(file_.get(), name, link_creation_.get(), creation.get(), H5P_DEFAULT), H5Gclose,
            std::string("create the group ") + name};
  }

  Hdf5Handle create_dataset(hid_t group, const std::string& name, hid_t type, const Extents& shape,
                            const Hdf5Handle& creation) {
    return {H5Dcreate2(group, name.c_str(), type, make_hdf5_space(shape).get(), link_creation_.get(), creation.get(),
                       H5P_DEFAULT),
            H5Dclose, "create the dataset " + name};
  }

  /// Where a dataset lies. One without elements has no address, and counts as empty at 0.
  static Region region_of(const Hdf5Handle& dataset, std::uint64_t bytes) {
    if (bytes == 0) {
      return {};
    }
    const haddr_t offset = H5Dget_offset(dataset.get());
    if (offset == HADDR_UNDEF) {
      throw_hdf5_error("tell where a dataset lies");
    }
    return {offset, bytes};
  }

  /// A text that all ranks share is one string for the tools.
  static bool is_string(const StoredVariable& variable) {
    return variable.type.element_class == ElementClass::text && variable.type.size_bytes == 1 &&
           variable.distribution == state::Distribution::replicated && variable.bytes() > 0 &&
           variable.bytes() <= kMaxStringBytes;
  }

  CommitRecord describe() {
    const Hdf5Handle group = create_group("reprieve");
    write_metadata_attributes(group.get(), index_.metadata, Attributes::create);
    CommitRecord commit_record;
    commit_record.boxes = write_boxes(group.get());
    commit_record.checksums.region = create_checksums(group.get());
    commit_record.manifest = write_manifest(group.get());
    return commit_record;
  }

  /// The small ones first, so that they lie side by side.
  void create_variables() {
    const Hdf5Handle group = create_group("state");
    Hdf5Types types;
    for (const bool small : {true, false}) {
      for (StoredVariable& variable : index_.variables) {
        variable.small = is_small(variable);
        if (variable.small == small) {
          create_variable(group, variable, types);
        }
      }
    }
    write_annotations(group.get(), index_);
  }

  void create_variable(const Hdf5Handle& group, StoredVariable& variable, Hdf5Types& types) {
    if (is_string(variable)) {
      create_variable(group, variable, make_hdf5_string(variable.bytes()).get(), {});
    } else if (!variable.members.empty()) {
      create_variable(group, variable, make_hdf5_compound(variable.members, variable.type.size_bytes).get(),
                      variable.shape);
    } else {
      create_variable(group, variable, types.get(variable.type), variable.shape);
    }
  }

  void create_variable(const Hdf5Handle& group, StoredVariable& variable, hid_t type, const Extents& shape) {
    if (!variable.chunk.empty()) {
      const Hdf5Handle creation = chunked_creation(dataset_creation_, variable.chunk);
      if (variable.compressed) {
        add_filter(creation.get(), variable);
      }
      const Hdf5Handle dataset = create_dataset(group.get(), variable.name, type, shape, creation);
      variable.file_offset = offset_of_chunks(dataset.get(), variable.dataset());
      return;
    }
    const Hdf5Handle& creation = variable.annotation.is_set() ? dataset_creation_ : bare_creation_;
    const Hdf5Handle dataset = create_dataset(group.get(), variable.name, type, shape, creation);
    variable.file_offset = region_of(dataset, variable.bytes()).offset;
  }

  GuardedRegion write_dataset(hid_t group, const char* name, const Hdf5Handle& type, const Extents& shape,
                              std::span<const std::byte> content) {
    const Hdf5Handle dataset = create_dataset(group, name, type.get(), shape, dataset_creation_);
    if (!content.empty()) {
      check_hdf5(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, content.data()),
                 std::string("write ") + name);
    }
    return {region_of(dataset, content.size()), xxh3(content)};
  }

  GuardedRegion write_boxes(hid_t group) {
    constexpr std::size_t word = sizeof(std::uint64_t);
    const BoxTable& boxes = index_.boxes;
    const hsize_t dimensions = boxes.dimensions();
    const Hdf5Handle numbers(H5Tarray_create2(H5T_NATIVE_UINT64, 1, &dimensions), H5Tclose, "make a type");
    const Hdf5Handle type(H5Tcreate(H5T_COMPOUND, boxes.row_words() * word), H5Tclose, "make a type");
    std::size_t at = 0;
    for (const char* name : {"variable", "rank", "first_checksum"}) {
      check_hdf5(H5Tinsert(type.get(), name, at, H5T_NATIVE_UINT64), "make a type");
      at += word;
    }
    for (const char* name : {"offset", "extent"}) {
      check_hdf5(H5Tinsert(type.get(), name, at, numbers.get()), "make a type");
      at += boxes.dimensions() * word;
    }
    return write_dataset(group, "boxes", type, {boxes.size()}, std::as_bytes(boxes.words()));
  }

  /// The checksums are known only with the data. The dataset gets its space now, and its content with the commit
  /// record.
  Region create_checksums(hid_t group) {
    const std::size_t words = index_.checksums.size() + index_.compressed_sizes.size();
    const auto dataset = create_dataset(group, "checksums", H5T_NATIVE_UINT64, {words}, dataset_creation_);
    return region_of(dataset, words * sizeof(std::uint64_t));
  }

  /// JSON, padded with spaces before the list of variables.
  GuardedRegion write_manifest(hid_t group) {
    const std::string manifest = encode_manifest(index_, kManifestRoom);
    return write_dataset(group, "manifest", make_hdf5_string(manifest.size()), {}, std::as_bytes(std::span(manifest)));
  }

  FileIndex& index_;
  Hdf5Handle file_;
  Hdf5Handle link_creation_;
  Hdf5Handle dataset_creation_;
  Hdf5Handle bare_creation_;  ///< of datasets without attributes
};

/// Returns the digest of what was copied.
std::uint64_t copy(const PosixFile& from, const PosixFile& to, const std::vector<Region>& regions) {
  Xxh3Stream digest;
  for_each_piece(from, regions, [&](std::span<const std::byte> piece, std::uint64_t offset) {
    to.write_all(piece, offset);
    digest.update(piece);
  });
  return digest.digest();
}

/// Whether some rank has so much of a variable that a range can lie in it.
bool may_be_left(const FileIndex& index, const StoredVariable& variable) {
  if (variable.bytes() < kRangeBytes) {
    return false;
  }
  for (std::size_t b = 0; b < variable.box_count; ++b) {
    if (volume(index.row(variable, b).extent) * variable.type.size_bytes >= kRangeBytes) {
      return true;
    }
  }
  return false;
}

/// The regions of the file that small variables fill. Each rank writes its elements there in every save.
std::vector<Region> prefilled_regions(const FileIndex& index) {
  std::vector<Region> others;
  std::uint64_t end = 0;
  for (const StoredVariable& variable : index.variables) {
    if (variable.small && !may_be_left(index, variable)) {
      end = std::max(end, variable.file_offset + variable.bytes());
    } else {
      others.push_back({variable.file_offset, variable.stored_bytes()});
    }
  }
  return gaps_between(std::move(others), kCommitRecordBytes, end);
}

/// Replaces these bytes by zeros in the page cache.
void fill_with_zeros(const PosixFile& file, const std::vector<Region>& regions) {
  const Bytes zeros(kMaxBlockBytes);
  std::uint64_t room = kMostPrefilledBytes;
  for (Region region : regions) {
    region.size = std::min(region.size, room);
    room -= region.size;
    for (std::uint64_t done = 0; done < region.size; done += zeros.size()) {
      file.write_all(
          std::span(zeros).first(static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), region.size - done))),
          region.offset + done);
    }
  }
}

/// True if every element of every variable is in a box.
bool is_covered(const FileIndex& index) {
  return std::ranges::all_of(index.variables, [&](const StoredVariable& variable) {
    std::uint64_t held = 0;  // boxes do not overlap
    for (std::size_t b = 0; b < variable.box_count; ++b) {
      held += volume(index.row(variable, b).extent);
    }
    return held == volume(variable.shape);
  });
}

/// All that a manifest says of a variable, except the address.
bool are_alike(const StoredVariable& a, const StoredVariable& b) {
  return a.name == b.name && a.distribution == b.distribution && a.type == b.type && a.shape == b.shape &&
         a.is_copy == b.is_copy && a.annotation == b.annotation && a.members == b.members &&
         a.piece_dimensions == b.piece_dimensions && a.chunk == b.chunk && a.compressed == b.compressed;
}

/// False if the variables, or their boxes, are others, or if another version made the stored file: it may have made
/// other structures of the same.
bool are_alike(const FileIndex& stored, const FileIndex& index) {
  const FileMetadata& by = stored.metadata;
  return by.library_version == index.metadata.library_version && by.hdf5_version == index.metadata.hdf5_version &&
         by.world_size == index.metadata.world_size && stored.boxes.dimensions() == index.boxes.dimensions() &&
         std::ranges::equal(stored.boxes.words(), index.boxes.words()) &&
         stored.checksums.size() == index.checksums.size() &&
         std::ranges::equal(stored.variables, index.variables,
                            [](const StoredVariable& a, const StoredVariable& b) { return are_alike(a, b); });
}

}  // namespace

LaidOutFile::LaidOutFile(FileIndex index) : index_(std::move(index)), layout_(PosixFile::create_in_memory()) {
  const QuietHdf5 quiet;
  const NoPlugins no_plugins;
  commit_record_ = Layouter(layout_.path(), index_).run();
  commit_record_.file_size = index_.file_size = layout_.size();
  commit_record_.format_version = index_.metadata.format_version;
  fields_bytes_ = list_offset(read_manifest_bytes(layout_, commit_record_));
  regions_ = structure_regions(index_, commit_record_.checksums.region);
  chunk_indexes_.emplace(layout_, regions_, index_).write(layout_, index_, false);
  covered_ = is_covered(index_);
}

LaidOutFile::LaidOutFile(FileIndex stored, const PosixFile& model, const CommitRecord& commit_record)
    : index_(std::move(stored)),
      layout_(PosixFile::create_in_memory()),
      commit_record_(commit_record),
      fields_bytes_(list_offset(read_manifest_bytes(model, commit_record))),
      regions_(structure_regions(index_, commit_record.checksums.region)),
      covered_(is_covered(index_)) {
  layout_.set_size(commit_record.file_size);
  if (copy(model, layout_, regions_) != commit_record_.structure_digest) {
    throw CorruptError(model.path().string() + ": HDF5's structures are corrupt (checksum differs)");
  }
  chunk_indexes_.emplace(layout_, regions_, index_).write(layout_, index_, false);
}

std::unique_ptr<LaidOutFile> LaidOutFile::like(const PosixFile& model, FileIndex& stored, const FileIndex& index) {
  if (!are_alike(stored, index)) {
    return nullptr;
  }
  for (std::size_t v = 0; v < stored.variables.size(); ++v) {  // what a file does not say
    stored.variables[v].is_shared = index.variables[v].is_shared;
    stored.variables[v].small = is_small(stored.variables[v]);
  }
  std::unique_ptr<LaidOutFile> file(new LaidOutFile(std::move(stored), model, read_commit_record(model)));
  return file->replace_metadata(index.metadata) ? std::move(file) : nullptr;
}

bool LaidOutFile::replace_metadata(const FileMetadata& metadata) {
  index_.metadata = metadata;
  index_.metadata.format_version = commit_record_.format_version;
  std::string fields = encode_fields(index_);
  if (fields.size() > fields_bytes_) {
    return false;
  }
  fields.resize(fields_bytes_, ' ');
  const QuietHdf5 quiet;
  const char* action = "open a layout again";
  const core::StandardDescriptors taken;
  Hdf5Handle file(H5Fopen(layout_.path().c_str(), H5F_ACC_RDWR, make_access().get()), H5Fclose, action);
  {
    const Hdf5Handle group(H5Gopen2(file.get(), "reprieve", H5P_DEFAULT), H5Gclose, action);
    write_metadata_attributes(group.get(), index_.metadata, Attributes::replace);
  }
  file.close("change the attributes of a layout");
  layout_.write_all(std::as_bytes(std::span(fields)), commit_record_.manifest.region.offset);
  Bytes manifest(static_cast<std::size_t>(commit_record_.manifest.region.size));
  layout_.read_all(manifest, commit_record_.manifest.region.offset);
  commit_record_.manifest.digest = xxh3(manifest);
  return true;
}

bool LaidOutFile::put_on_disk(const core::FileAddress& file, bool recycle, bool shares_pages) {
  const bool rewrites = recycle && covered_;
  PosixFile target = rewrites ? PosixFile::open_to_write(file) : PosixFile::create(file);
  if (target.size() > index_.file_size) {
    target.set_size(index_.file_size);
  }
  void_commit_record(target);
  target.allocate(index_.file_size);
  if (recycle && shares_pages) {
    fill_with_zeros(target, prefilled_regions(index_));
  }
  commit_record_.structure_digest = copy(layout_, target, regions_);
  target.close();
  return rewrites;
}

void LaidOutFile::write_chunk_sizes(const PosixFile& target) {
  if (index_.may_be_compressed()) {
    chunk_indexes_->write(layout_, index_, true);
    commit_record_.structure_digest = copy(layout_, target, regions_);
    chunk_indexes_->write(layout_, index_, false);
  }
}

StructureImage LaidOutFile::image() const {
  StructureImage image{commit_record_, regions_, {}};
  image.content.resize(static_cast<std::size_t>(sum_of(regions_, &Region::size)));
  std::span<std::byte> rest = image.content;
  for (const Region& region : regions_) {
    layout_.read_all(rest.first(static_cast<std::size_t>(region.size)), region.offset);
    rest = rest.subspan(static_cast<std::size_t>(region.size));
  }
  image.commit_record.structure_digest = xxh3(image.content);
  return image;
}

std::uint64_t most_file_bytes(const FileIndex& index) {
  std::uint64_t bytes = index.state_bytes() + 2 * most_structure_bytes(index) + index.boxes.words().size_bytes() +
                        (index.checksums.size() + index.compressed_sizes.size()) * sizeof(std::uint64_t);
  constexpr std::uint64_t per_dimension = 24;  // a number of 64 bits in the manifest
  for (const StoredVariable& variable : index.variables) {
    bytes += kAlignmentBytes + 2 * variable.name.size() + 2 * per_dimension * variable.shape.size() +
             (variable.stored_bytes() - variable.bytes());
  }
  return bytes;
}

}  // namespace reprieve::storage
