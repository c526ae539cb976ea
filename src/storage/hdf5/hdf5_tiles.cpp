// SPDX-License-Identifier: BSD-3-Clause
#include "storage/hdf5/hdf5_tiles.hpp"

#include <array>
#include <vector>

#include "reprieve/error.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/file_index.hpp"
#include "storage/format/tiles.hpp"

namespace reprieve::storage {

namespace {

constexpr const char* kTiling = "lay out tiles";

/// What HDF5 says is the address of the chunk that begins at @p at.
std::uint64_t address_of_chunk(hid_t dataset, const Extents& at) {
  const std::vector<hsize_t> offset(at.begin(), at.end());
  unsigned filters = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t size = 0;
  check_hdf5(H5Dget_chunk_info_by_coord(dataset, offset.data(), &filters, &address, &size), kTiling);
  if (address == HADDR_UNDEF) {
    throw_hdf5_error("tell where a tile lies");
  }
  return address;
}

/// Makes an array of two chunks with a number in each, and returns what HDF5 says is the address of the first.
std::uint64_t write_two_chunks(const std::filesystem::path& path, const std::array<std::uint64_t, 2>& numbers) {
  const Hdf5Handle access = make_property_list(H5P_FILE_ACCESS);
  check_hdf5(H5Pset_fapl_stdio(access.get()), kTiling);
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), kTiling);
  const Hdf5Handle file_creation = make_property_list(H5P_FILE_CREATE);
  check_hdf5(H5Pset_userblock(file_creation.get(), kSealBytes), kTiling);
  Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, file_creation.get(), access.get()), H5Fclose, kTiling);
  const hsize_t length = numbers.size();
  const Hdf5Handle space(H5Screate_simple(1, &length, nullptr), H5Sclose, kTiling);
  const Hdf5Handle creation = make_property_list(H5P_DATASET_CREATE);
  check_hdf5(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), kTiling);
  const Hdf5Handle tiled = make_tiled(creation, {1});
  Hdf5Handle dataset(
      H5Dcreate2(file.get(), "numbers", H5T_NATIVE_UINT64, space.get(), H5P_DEFAULT, tiled.get(), H5P_DEFAULT),
      H5Dclose, kTiling);
  check_hdf5(H5Dwrite(dataset.get(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), kTiling);
  const std::uint64_t address = address_of_chunk(dataset.get(), {0});
  dataset.close(kTiling);
  file.close(kTiling);
  return address;
}

/// What must be added to the addresses that HDF5 tells. Versions differ in whether these count the user block, so this
/// one is asked where it puts something.
std::uint64_t start_of_addresses() {
  const std::array<std::uint64_t, 2> numbers{0x5265707269657665, 0x74696C6573206865};
  const PosixFile file = PosixFile::create_in_memory();
  const std::uint64_t address = write_two_chunks(file.path(), numbers);
  for (const std::uint64_t start : {std::uint64_t{0}, kSealBytes}) {
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

}  // namespace

Hdf5Handle make_tiled(const Hdf5Handle& creation, const Extents& tile) {
  Hdf5Handle tiled(H5Pcopy(creation.get()), H5Pclose, kTiling);
  const std::vector<hsize_t> lengths(tile.begin(), tile.end());
  check_hdf5(H5Pset_chunk(tiled.get(), static_cast<int>(lengths.size()), lengths.data()), kTiling);
  return tiled;
}

std::uint64_t place_of_tiles(hid_t dataset, const Dataset& expected) {
  static const std::uint64_t start = start_of_addresses();
  Dataset tiles(expected);
  tiles.file_offset = start + address_of_chunk(dataset, Extents(expected.shape.size(), 0));
  Box corner = whole(expected.shape);  // the first element of the last tile
  for (std::size_t d = 0; d < corner.offset.size(); ++d) {
    corner.offset[d] = (expected.shape[d] - 1) / expected.tile[d] * expected.tile[d];
    corner.extent[d] = 1;
  }
  if (start + address_of_chunk(dataset, corner.offset) != tile_part(tiles, corner).dataset.file_offset) {
    throw Error(ErrorCode::internal, "this version of HDF5 does not store tiles one after the other");
  }
  return tiles.file_offset;
}

}  // namespace reprieve::storage
