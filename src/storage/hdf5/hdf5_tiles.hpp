// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Tiles in HDF5: chunks that HDF5 finds by arithmetic alone (its "implicit index", for datasets of fixed shape whose
/// place is taken when they are created, without filters). Chunk i, counted in C order, lies i times the size of a
/// chunk after the first; those at the far edges are stored whole. (HDF5 File Format Specification, version 3.0, "Data
/// Layout Message", version 4, index type 2.)

#include <cstdint>

#include "storage/format/dataset.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::storage {

/// A copy of the properties @p creation, of datasets that take their place when they are created, with these chunks.
[[nodiscard]] Hdf5Handle make_tiled(const Hdf5Handle& creation, const Extents& tile);

/// Where the first tile lies in the file, after a look at the first and at the last.
/// @param expected  shape, tile and element size of the dataset
/// @throws Error if HDF5 has laid the tiles out in another way
[[nodiscard]] std::uint64_t place_of_tiles(hid_t dataset, const Dataset& expected);

}  // namespace reprieve::storage
