// SPDX-License-Identifier: BSD-3-Clause
// What any HDF5 program sees in a checkpoint file.

#include <hdf5.h>

#include <array>
#include <complex>

#include "reprieve/version.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;

/// An HDF5 identifier of the test's own: nothing of the library is used to look at its files.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) { EXPECT_GE(id, 0); }
  ~Id() { EXPECT_GE(close_(id_), 0); }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor)

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

Extents shape_of(hid_t dataset) {
  const Id space(H5Dget_space(dataset), H5Sclose);
  Extents shape(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  std::vector<hsize_t> lengths(shape.size() + 1);
  EXPECT_GE(H5Sget_simple_extent_dims(space, lengths.data(), nullptr), 0);
  std::copy_n(lengths.begin(), shape.size(), shape.begin());
  return shape;
}

/// The elements of a dataset, converted to a type of ours, which fails if the classes differ.
template <class T>
std::vector<T> read(hid_t file, const char* name, hid_t type) {
  const Id dataset(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose);
  std::vector<T> values(volume(shape_of(dataset)));
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  return values;
}

H5T_class_t class_of(hid_t file, const char* name) {
  const Id dataset(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose);
  const Id type(H5Dget_type(dataset), H5Tclose);
  return H5Tget_class(type);
}

std::string tag_of(hid_t file, const char* name) {
  const Id dataset(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose);
  const Id type(H5Dget_type(dataset), H5Tclose);
  const std::unique_ptr<char, herr_t (*)(void*)> tag(H5Tget_tag(type), H5free_memory);
  return tag.get();
}

std::string text_in(hid_t dataset_or_attribute_type, const std::function<herr_t(hid_t, void*)>& read_text) {
  std::string text(H5Tget_size(dataset_or_attribute_type), '\0');
  EXPECT_EQ(H5Tget_class(dataset_or_attribute_type), H5T_STRING);
  EXPECT_GE(read_text(dataset_or_attribute_type, text.data()), 0);
  return text.c_str();
}

std::string text_attribute(hid_t file, const char* name) {
  const Id attribute(H5Aopen_by_name(file, "/reprieve", name, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  const Id type(H5Aget_type(attribute), H5Tclose);
  return text_in(type, [&](hid_t t, void* text) { return H5Aread(attribute, t, text); });
}

std::string text_dataset(hid_t file, const char* name) {
  const Id dataset(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose);
  const Id type(H5Dget_type(dataset), H5Tclose);
  return text_in(type, [&](hid_t t, void* text) { return H5Dread(dataset, t, H5S_ALL, H5S_ALL, H5P_DEFAULT, text); });
}

class Hdf5View : public StorageTest, public testing::WithParamInterface<WriterKind> {};

TEST_P(Hdf5View, ShowsEveryVariableWithItsTypeAndShape) {
  bool flag = true;
  double real = 0.25;
  long double wide = 1.5L;
  std::vector<std::uint16_t> numbers{1, 2, 65535};
  std::array<std::complex<double>, 2> waves{{{1, 2}, {3, 4}}};
  std::string text = "hello";
  std::vector<std::byte> bytes(3, std::byte{7});
  std::vector<std::int32_t> mine(static_cast<std::size_t>(world_rank()), world_rank());
  std::vector<float> row(4, static_cast<float>(world_rank()));
  Checkpoint checkpoint;
  checkpoint.add_replicated("flag", flag);
  checkpoint.add_replicated("a/b/real", real);
  checkpoint.add_replicated("wide", wide);
  checkpoint.add_replicated("a/numbers", numbers);
  checkpoint.add_replicated("waves", waves);
  checkpoint.add_replicated("text", text);
  checkpoint.add_replicated("bytes", bytes);
  checkpoint.add_per_rank("mine", mine);
  const auto size = static_cast<std::uint64_t>(world_size());
  checkpoint.add_distributed("rows", row.data(), {{size, 4}, {static_cast<std::uint64_t>(world_rank()), 0}, {1, 4}});
  save(world, checkpoint, GetParam());

  on_chief([&] {
    const Id opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    EXPECT_EQ(read<double>(opened, "/state/a/b/real", H5T_NATIVE_DOUBLE), std::vector{0.25});
    EXPECT_EQ(read<long double>(opened, "/state/wide", H5T_NATIVE_LDOUBLE), std::vector{1.5L});
    EXPECT_EQ(read<int>(opened, "/state/a/numbers", H5T_NATIVE_INT), (std::vector{1, 2, 65535}));
    EXPECT_EQ(class_of(opened, "/state/flag"), H5T_ENUM);
    EXPECT_EQ(class_of(opened, "/state/waves"), H5T_COMPOUND);
    EXPECT_EQ(class_of(opened, "/state/bytes"), H5T_OPAQUE);
    EXPECT_EQ(tag_of(opened, "/state/bytes"), "reprieve: bytes, or a serialized value");
    const Id complex(H5Tcreate(H5T_COMPOUND, 16), H5Tclose);
    EXPECT_GE(H5Tinsert(complex, "i", 0, H5T_NATIVE_DOUBLE), 0);  // the order is ours
    EXPECT_GE(H5Tinsert(complex, "r", 8, H5T_NATIVE_DOUBLE), 0);
    EXPECT_EQ((read<std::complex<double>>(opened, "/state/waves", complex)),
              (std::vector<std::complex<double>>{{2, 1}, {4, 3}}));
    EXPECT_EQ(text_dataset(opened, "/state/text"), "hello");
    std::vector<int> all;
    std::vector<float> rows;
    for (int rank = 0; rank < world_size(); ++rank) {
      all.insert(all.end(), static_cast<std::size_t>(rank), rank);
      rows.insert(rows.end(), 4, static_cast<float>(rank));
    }
    EXPECT_EQ(read<int>(opened, "/state/mine", H5T_NATIVE_INT), all);
    EXPECT_EQ(read<float>(opened, "/state/rows", H5T_NATIVE_FLOAT), rows);
    const Id dataset(H5Dopen2(opened, "/state/rows", H5P_DEFAULT), H5Dclose);
    EXPECT_EQ(shape_of(dataset), (Extents{size, 4}));
  });
}

TEST_P(Hdf5View, ShowsTheMetadata) {
  const Checkpoint checkpoint;
  save(world, checkpoint, GetParam());
  on_chief([&] {
    const Id opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    EXPECT_EQ(text_attribute(opened, "reason"), "preemption");
    EXPECT_EQ(text_attribute(opened, "reason_message"), "the end is near");
    EXPECT_EQ(text_attribute(opened, "library_version"), REPRIEVE_VERSION);
    const Id attribute(H5Aopen_by_name(opened, "/reprieve", "number", H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    std::uint64_t number = 0;
    EXPECT_GE(H5Aread(attribute, H5T_NATIVE_UINT64, &number), 0);
    EXPECT_EQ(number, 7U);
    EXPECT_NE(text_dataset(opened, "/reprieve/manifest").find("\"reason\""), std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(Storage, Hdf5View, testing::Values(WriterKind::direct, WriterKind::mpio),
                         [](const auto& instance) { return instance.param == WriterKind::direct ? "direct" : "mpio"; });

}  // namespace
}  // namespace reprieve::storage
