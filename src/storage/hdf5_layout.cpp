#include "storage/hdf5_layout.hpp"

#include <algorithm>
#include <vector>

#include "storage/checksum.hpp"
#include "storage/hdf5_types.hpp"

namespace reprieve::storage {

namespace {

/// Datasets from this size on begin at a multiple of the page size; smaller ones are packed, which writes faster.
constexpr hsize_t kAlignFromBytes = hsize_t{64} << 10U;
constexpr hsize_t kAlignmentBytes = 4096;
/// Longer texts are stored as arrays of characters: one string element must fit into the memory of a tool.
constexpr std::uint64_t kMaxStringBytes = std::uint64_t{1} << 24U;
constexpr std::size_t kMaxAttributeBytes = 4096;

/// What HDF5 will need for its own structures, generously: they then lie in one piece at the start of the file.
hsize_t structure_bytes(const FileIndex& index) {
  constexpr hsize_t fixed = hsize_t{64} << 10U;
  constexpr hsize_t per_variable = 512;
  return fixed + per_variable * index.variables.size();
}

Hdf5Handle create_hdf5_file(const std::filesystem::path& file, const FileIndex& index) {
  const std::string action = "create " + file.string();
  const Hdf5Handle access = make_property_list(H5P_FILE_ACCESS);
  // This driver takes the path of a file in memory as it is; the default one asks for the real path, which has none.
  check_hdf5(H5Pset_fapl_stdio(access.get()), action);
  // Superblock and object headers of this version carry checksums of their own.
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), action);
  check_hdf5(H5Pset_alignment(access.get(), kAlignFromBytes, kAlignmentBytes), action);
  check_hdf5(H5Pset_meta_block_size(access.get(), structure_bytes(index)), action);
  const Hdf5Handle creation = make_property_list(H5P_FILE_CREATE);
  check_hdf5(H5Pset_userblock(creation.get(), kSealBytes), action);
  return {H5Fcreate(file.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose, action};
}

/// The parts of the file while it is laid out.
class Layouter {
 public:
  Layouter(const std::filesystem::path& path, FileIndex& index)
      : index_(index),
        file_(create_hdf5_file(path, index)),
        link_creation_(make_property_list(H5P_LINK_CREATE)),
        dataset_creation_(make_property_list(H5P_DATASET_CREATE)) {
    check_hdf5(H5Pset_create_intermediate_group(link_creation_.get(), 1), "set up links");
    check_hdf5(H5Pset_char_encoding(link_creation_.get(), H5T_CSET_UTF8), "set up links");
    const hid_t creation = dataset_creation_.get();
    check_hdf5(H5Pset_layout(creation, H5D_CONTIGUOUS), "set up datasets");
    check_hdf5(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), "set up datasets");
    check_hdf5(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), "set up datasets");
    check_hdf5(H5Pset_obj_track_times(creation, false), "set up datasets");
  }

  Seal run() {
    create_variables();
    Seal seal = describe();
    file_.close("finish the layout of a file");
    return seal;
  }

 private:
  Hdf5Handle create_group(const char* name) {
    const Hdf5Handle creation = make_property_list(H5P_GROUP_CREATE);
    check_hdf5(H5Pset_attr_phase_change(creation.get(), 64, 32), "set up a group");
    return {H5Gcreate2(file_.get(), name, link_creation_.get(), creation.get(), H5P_DEFAULT), H5Gclose,
            std::string("create the group ") + name};
  }

  Hdf5Handle create_dataset(hid_t group, const std::string& name, hid_t type, const Hdf5Handle& space) {
    return {
        H5Dcreate2(group, name.c_str(), type, space.get(), link_creation_.get(), dataset_creation_.get(), H5P_DEFAULT),
        H5Dclose, "create the dataset " + name};
  }

  /// Where a dataset lies. One without elements has no place; it counts as empty at 0.
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

  static Hdf5Handle make_space(const Extents& shape) {
    if (shape.empty()) {
      return {H5Screate(H5S_SCALAR), H5Sclose, "make a dataspace"};
    }
    const std::vector<hsize_t> lengths(shape.begin(), shape.end());
    return {H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr), H5Sclose,
            "make a dataspace of shape " + text_of(shape)};
  }

  /// A text that all ranks share is one string for the tools.
  static bool is_string(const StoredVariable& variable) {
    return variable.type.element_class == ElementClass::text &&
           variable.distribution == state::Distribution::replicated && variable.bytes() > 0 &&
           variable.bytes() <= kMaxStringBytes;
  }

  Seal describe() {
    const Hdf5Handle group = create_group("reprieve");
    write_attributes(group.get());
    Seal seal;
    seal.boxes = write_boxes(group.get());
    seal.checksums.region = create_checksums(group.get());
    seal.manifest = write_manifest(group.get());
    return seal;
  }

  void create_variables() {
    const Hdf5Handle group = create_group("state");
    Hdf5Types types;
    for (StoredVariable& variable : index_.variables) {
      if (is_string(variable)) {
        const Hdf5Handle type = make_hdf5_string(variable.bytes());
        const auto dataset = create_dataset(group.get(), variable.name, type.get(), make_space({}));
        variable.file_offset = region_of(dataset, variable.bytes()).offset;
        continue;
      }
      const hid_t type = types.get(variable.type);
      const auto dataset = create_dataset(group.get(), variable.name, type, make_space(variable.shape));
      variable.file_offset = region_of(dataset, variable.bytes()).offset;
    }
  }

  GuardedRegion write_dataset(hid_t group, const char* name, const Hdf5Handle& type, const Hdf5Handle& space,
                              std::span<const std::byte> content) {
    const Hdf5Handle dataset = create_dataset(group, name, type.get(), space);
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
    return write_dataset(group, "boxes", type, make_space({boxes.size()}), std::as_bytes(boxes.words()));
  }

  /// The checksums are known only when the data are: the dataset gets its place now and its content with the seal.
  Region create_checksums(hid_t group) {
    const Extents shape{index_.checksums.size()};
    const auto dataset = create_dataset(group, "checksums", H5T_NATIVE_UINT64, make_space(shape));
    return region_of(dataset, index_.checksums.size() * sizeof(std::uint64_t));
  }

  GuardedRegion write_manifest(hid_t group) {
    const std::string manifest = encode_manifest(index_);
    return write_dataset(group, "manifest", make_hdf5_string(manifest.size()), make_space({}),
                         std::as_bytes(std::span(manifest)));
  }

  void write_attribute(hid_t group, const char* name, hid_t type, const void* value) {
    const std::string action = std::string("write the attribute ") + name;
    Hdf5Handle attribute(H5Acreate2(group, name, type, make_space({}).get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                         action);
    check_hdf5(H5Awrite(attribute.get(), type, value), action);
    attribute.close(action);
  }

  void write_attribute(hid_t group, const char* name, const std::string& value) {
    // HDF5 has no strings of length 0; one null byte of padding reads as the empty string. Attributes must be small.
    const std::string padded = value.empty() ? std::string(1, '\0') : value.substr(0, kMaxAttributeBytes);
    write_attribute(group, name, make_hdf5_string(padded.size()).get(), padded.data());
  }

  /// The metadata once more, in the form that HDF5 tools show at once. Reprieve itself reads the manifest.
  void write_attributes(hid_t group) {
    const FileMetadata& metadata = index_.metadata;
    write_attribute(group, "format_version", H5T_NATIVE_INT, &metadata.format_version);
    write_attribute(group, "number", H5T_NATIVE_UINT64, &metadata.number);
    write_attribute(group, "run_calls", H5T_NATIVE_UINT64, &metadata.run_calls);
    write_attribute(group, "world_size", H5T_NATIVE_INT, &metadata.world_size);
    write_attribute(group, "time_us", H5T_NATIVE_INT64, &metadata.time_us);
    write_attribute(group, "reason", to_string(metadata.reason.kind));
    write_attribute(group, "reason_rank", H5T_NATIVE_INT, &metadata.reason.rank);
    write_attribute(group, "reason_host", metadata.reason.host);
    write_attribute(group, "reason_source", metadata.reason.source);
    write_attribute(group, "reason_message", metadata.reason.message);
    write_attribute(group, "library_version", metadata.library_version);
    write_attribute(group, "mpi_version", metadata.mpi_version);
    write_attribute(group, "hdf5_version", metadata.hdf5_version);
  }

  FileIndex& index_;
  Hdf5Handle file_;
  Hdf5Handle link_creation_;
  Hdf5Handle dataset_creation_;
};

/// No less than the file will take.
std::uint64_t most_bytes(const FileIndex& index) {
  std::uint64_t bytes = index.state_bytes() + 2 * structure_bytes(index) + index.boxes.words().size_bytes() +
                        index.checksums.size() * sizeof(std::uint64_t);
  constexpr std::uint64_t per_dimension = 24;  // a number of 64 bits in the manifest
  for (const StoredVariable& variable : index.variables) {
    bytes += kAlignmentBytes + 2 * variable.name.size() + per_dimension * variable.shape.size();
  }
  return bytes;
}

void copy(const PosixFile& from, const PosixFile& to, const std::vector<Region>& regions) {
  Bytes buffer;
  for (const Region& region : regions) {
    for (std::uint64_t done = 0; done < region.size; done += buffer.size()) {
      buffer.resize(static_cast<std::size_t>(std::min(region.size - done, kMaxBlockBytes)));
      from.read_all(buffer, region.offset + done);
      to.write_all(buffer, region.offset + done);
    }
  }
}

}  // namespace

Seal create_laid_out_file(const std::filesystem::path& file, FileIndex& index) {
  check_file_size_limit(file, most_bytes(index));
  PosixFile target = PosixFile::create(file);
  const PosixFile layout = PosixFile::create_in_memory();
  const QuietHdf5 quiet;
  Seal seal = Layouter(layout.path(), index).run();
  seal.file_size = index.file_size = layout.size();
  seal.structure_digest = structure_digest(layout, index, seal.checksums.region);
  target.allocate(index.file_size);
  copy(layout, target, structure_regions(index, seal.checksums.region));
  target.close();
  return seal;
}

}  // namespace reprieve::storage
