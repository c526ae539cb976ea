// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>

#include "storage/format/layout.hpp"
#include "storage/hdf5/hdf5_layout.hpp"

namespace reprieve::storage {

namespace {

void write_attribute(hid_t object, const char* name, hid_t type, const Hdf5Handle& space, const void* value,
                     Attributes mode = Attributes::create) {
  const std::string action = std::string("write the attribute ") + name;
  const hid_t id = mode == Attributes::create ? H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT)
                                              : H5Aopen(object, name, H5P_DEFAULT);
  Hdf5Handle attribute(id, H5Aclose, action);
  check_hdf5(H5Awrite(attribute.get(), type, value), action);
  attribute.close(action);
}

class AttributeWriter {
 public:
  AttributeWriter(hid_t group, Attributes mode) : group_(group), mode_(mode), scalar_(make_hdf5_space({})) {}

  void write(const FileMetadata& metadata) {
    number("format_version", H5T_NATIVE_INT, &metadata.format_version);
    number("number", H5T_NATIVE_UINT64, &metadata.number);
    const std::uint64_t run_calls = metadata.run_calls.value_or(kUnknownRunCalls);
    number("run_calls", H5T_NATIVE_UINT64, &run_calls);
    const SaveIdentity identity = metadata.identity.value_or(SaveIdentity{});
    text("directory_id", identity.directory_id, kShort);
    number("run", H5T_NATIVE_UINT64, &identity.run);
    number("save", H5T_NATIVE_UINT64, &identity.save);
    number("world_size", H5T_NATIVE_INT, &metadata.world_size);
    number("time_us", H5T_NATIVE_INT64, &metadata.time_us);
    text("reason", to_string(metadata.reason.kind), kShort);
    number("reason_rank", H5T_NATIVE_INT, &metadata.reason.rank);
    text("reason_host", metadata.reason.host, kLong);
    text("reason_source", metadata.reason.source, kLong);
    text("reason_message", metadata.reason.message, kMessage);
    text("library_version", metadata.library_version, kShort);
    text("mpi_version", metadata.mpi_version, kLong);
    text("hdf5_version", metadata.hdf5_version, kShort);
  }

 private:
  /// What stands in an attribute, which cannot be left out, where there was no handler that counts.
  static constexpr std::uint64_t kUnknownRunCalls = ~std::uint64_t{0};
  // Sizes of texts with their final null byte; what is longer is cut.
  static constexpr std::size_t kShort = 32;
  static constexpr std::size_t kLong = 256;
  static constexpr std::size_t kMessage = 1024;

  void number(const char* name, hid_t type, const void* value) {
    write_attribute(group_, name, type, scalar_, value, mode_);
  }

  void text(const char* name, std::string value, std::size_t size) {
    value.resize(size - 1);
    const Hdf5Handle type = make_hdf5_string(size);
    check_hdf5(H5Tset_strpad(type.get(), H5T_STR_NULLTERM), "set the padding of a text");
    number(name, type.get(), value.c_str());
  }

  hid_t group_;
  Attributes mode_;
  Hdf5Handle scalar_;
};

constexpr const char* kAction = "annotate a variable";

/// What the library of netCDF-4 calls a scale without coordinates; the length follows, in ten characters.
constexpr const char* kNotAVariable = "This is a netCDF dimension but not a netCDF variable.";

/// An entry of REFERENCE_LIST: a dataset on this scale, and with which of its dimensions.
struct Reference {
  hobj_ref_t dataset;
  unsigned dimension;
  unsigned padding = 0;  ///< goes to the file as well
};

/// All of them, as the specification of HDF5's dimension scales has it.
class AnnotationWriter {
 public:
  AnnotationWriter(hid_t state, const FileIndex& index)
      : state_(state),
        index_(index),
        scalar_(make_hdf5_space({})),
        text_(H5Tcopy(H5T_C_S1), H5Tclose, kAction),
        references_(H5Tvlen_create(H5T_STD_REF_OBJ), H5Tclose, kAction),
        reference_(H5Tcreate(H5T_COMPOUND, sizeof(Reference)), H5Tclose, kAction) {
    check_hdf5(H5Tset_size(text_.get(), H5T_VARIABLE), kAction);
    check_hdf5(H5Tset_cset(text_.get(), H5T_CSET_UTF8), kAction);
    check_hdf5(H5Tinsert(reference_.get(), "dataset", HOFFSET(Reference, dataset), H5T_STD_REF_OBJ), kAction);
    check_hdf5(H5Tinsert(reference_.get(), "dimension", HOFFSET(Reference, dimension), H5T_NATIVE_UINT), kAction);
  }

  void run() {
    for (const StoredVariable& variable : index_.variables) {
      if (!variable.annotation->units.empty() || !variable.annotation->description.empty()) {
        const Hdf5Handle dataset = open(variable.name);
        write_text(dataset, "units", variable.annotation->units);
        write_text(dataset, "long_name", variable.annotation->description);
      }
    }
    const std::vector<DimensionScale> scales = plan_scales(index_);
    for (const DimensionScale& scale : scales) {
      make(scale);
    }
    attach(scales);
  }

 private:
  [[nodiscard]] Hdf5Handle open(const std::string& path) const {
    return {H5Dopen2(state_, path.c_str(), H5P_DEFAULT), H5Dclose, kAction};
  }

  [[nodiscard]] hobj_ref_t reference_to(const std::string& path) const {
    hobj_ref_t reference{};
    check_hdf5(H5Rcreate(&reference, state_, path.c_str(), H5R_OBJECT, -1), kAction);
    return reference;
  }

  /// Of any length, which h5py reads as a text; those of a fixed length it reads as bytes.
  void write_text(const Hdf5Handle& dataset, const char* name, const std::string& text) const {
    if (!text.empty()) {
      const char* const value = text.c_str();
      write_attribute(dataset.get(), name, text_.get(), scalar_, &value);
    }
  }

  /// Of a fixed length, as CLASS and NAME of a scale have to be.
  void write_fixed_text(const Hdf5Handle& dataset, const char* name, const std::string& text) const {
    const Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose, kAction);
    check_hdf5(H5Tset_size(type.get(), text.size() + 1), kAction);
    write_attribute(dataset.get(), name, type.get(), scalar_, text.c_str());
  }

  /// The dataset, if it is none already, and the mark of a scale.
  void make(const DimensionScale& scale) const {
    if (!scale.is_variable) {
      const Hdf5Handle creation = make_property_list(H5P_DATASET_CREATE);
      check_hdf5(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_LATE), kAction);
      check_hdf5(H5Pset_obj_track_times(creation.get(), false), kAction);
      const Hdf5Handle links = make_property_list(H5P_LINK_CREATE);
      check_hdf5(H5Pset_char_encoding(links.get(), H5T_CSET_UTF8), kAction);
      const Hdf5Handle dataset(
          H5Dcreate2(state_, scale.path.c_str(), H5T_NATIVE_FLOAT, make_hdf5_space({scale.length}).get(), links.get(),
                     creation.get(), H5P_DEFAULT),
          H5Dclose, kAction);
    }
    const Hdf5Handle dataset = open(scale.path);
    write_fixed_text(dataset, "CLASS", "DIMENSION_SCALE");
    write_fixed_text(dataset, "NAME", name_of(scale));
    if (!scale.uses.empty()) {
      write_attribute(dataset.get(), "REFERENCE_LIST", reference_.get(), make_hdf5_space({scale.uses.size()}),
                      references_of(scale).data());
    }
  }

  [[nodiscard]] static std::string name_of(const DimensionScale& scale) {
    if (scale.is_variable) {
      return scale.path.substr(scale.path.rfind('/') + 1);
    }
    const std::string length = std::to_string(scale.length);
    return kNotAVariable + std::string(length.size() < 10 ? 10 - length.size() : 0, ' ') + length;
  }

  [[nodiscard]] std::vector<Reference> references_of(const DimensionScale& scale) const {
    std::vector<Reference> references;
    for (const auto& [variable, dimension] : scale.uses) {
      references.push_back({reference_to(index_.variables[variable].name), static_cast<unsigned>(dimension)});
    }
    return references;
  }

  /// The attribute of each dataset that names the scales of its dimensions, one each.
  void attach(const std::vector<DimensionScale>& scales) const {
    std::vector<std::vector<hobj_ref_t>> of_variable(index_.variables.size());
    for (const DimensionScale& scale : scales) {
      const hobj_ref_t reference = reference_to(scale.path);
      for (const auto& [variable, dimension] : scale.uses) {
        of_variable[variable].resize(index_.variables[variable].shape.size());
        of_variable[variable][dimension] = reference;
      }
    }
    for (std::size_t v = 0; v < of_variable.size(); ++v) {
      std::vector<hvl_t> list;
      for (hobj_ref_t& reference : of_variable[v]) {
        list.push_back({1, &reference});
      }
      if (!list.empty()) {
        write_attribute(open(index_.variables[v].name).get(), "DIMENSION_LIST", references_.get(),
                        make_hdf5_space({list.size()}), list.data());
      }
    }
  }

  hid_t state_;
  const FileIndex& index_;
  Hdf5Handle scalar_;
  Hdf5Handle text_;
  Hdf5Handle references_;
  Hdf5Handle reference_;
};

bool is_annotated(const StoredVariable& variable) { return variable.annotation.is_set(); }

}  // namespace

void write_metadata_attributes(hid_t group, const FileMetadata& metadata, Attributes mode) {
  AttributeWriter(group, mode).write(metadata);
}

void write_annotations(hid_t state, const FileIndex& index) {
  if (std::ranges::any_of(index.variables, is_annotated)) {
    AnnotationWriter(state, index).run();
  }
}

std::uint64_t most_annotation_bytes(const FileIndex& index) {
  constexpr std::uint64_t heaps = std::uint64_t{16} << 10U;  // of texts and lists; HDF5 takes them in pieces of 4 KiB
  constexpr std::uint64_t per_variable = 1024;
  constexpr std::uint64_t per_dimension = 1024;  // a scale, a reference to it, and one back
  std::uint64_t bytes = 0;
  for (const StoredVariable& variable : index.variables) {
    if (is_annotated(variable)) {
      const Annotation& annotation = variable.annotation;
      // Once as an attribute, once in the manifest, where one byte may take six.
      bytes += per_variable + 8 * (annotation.units.size() + annotation.description.size()) +
               annotation.dims.size() * per_dimension;
      for (const std::string& dim : annotation.dims) {
        bytes += 2 * variable.name.size() + 8 * dim.size();
      }
    }
  }
  return bytes == 0 ? 0 : bytes + heaps;
}

}  // namespace reprieve::storage
