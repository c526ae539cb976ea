// SPDX-License-Identifier: BSD-3-Clause
#include "storage/hdf5/metadata_attributes.hpp"

#include <cstdint>
#include <string>

#include "storage/hdf5/hdf5_types.hpp"

namespace reprieve::storage {

namespace {

class Attributes {
 public:
  enum class Mode { create, replace };

  Attributes(hid_t group, Mode mode)
      : group_(group), mode_(mode), scalar_(H5Screate(H5S_SCALAR), H5Sclose, "make a dataspace") {}

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
    const std::string action = std::string("write the attribute ") + name;
    const hid_t id = mode_ == Mode::create ? H5Acreate2(group_, name, type, scalar_.get(), H5P_DEFAULT, H5P_DEFAULT)
                                           : H5Aopen(group_, name, H5P_DEFAULT);
    Hdf5Handle attribute(id, H5Aclose, action);
    check_hdf5(H5Awrite(attribute.get(), type, value), action);
    attribute.close(action);
  }

  void text(const char* name, std::string value, std::size_t size) {
    value.resize(size - 1);
    const Hdf5Handle type = make_hdf5_string(size);
    check_hdf5(H5Tset_strpad(type.get(), H5T_STR_NULLTERM), "set the padding of a text");
    number(name, type.get(), value.c_str());
  }

  hid_t group_;
  Mode mode_;
  Hdf5Handle scalar_;
};

}  // namespace

void create_metadata_attributes(hid_t group, const FileMetadata& metadata) {
  Attributes(group, Attributes::Mode::create).write(metadata);
}

void replace_metadata_attributes(hid_t group, const FileMetadata& metadata) {
  Attributes(group, Attributes::Mode::replace).write(metadata);
}

}  // namespace reprieve::storage
