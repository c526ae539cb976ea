// SPDX-License-Identifier: BSD-3-Clause
#include "storage/hdf5/chunk_index.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/error.hpp"
#include "storage/bytes/compression.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::storage {

namespace {

constexpr const char* kFiltering = "lay out compressed chunks";
constexpr std::array<char, 4> kHeaderMark{'F', 'A', 'H', 'D'};
constexpr std::size_t kHeaderBytes = 28;
constexpr std::size_t kChecksumBytes = 4;
/// Of a data block, before the entries: mark, version, kind and the address of the header.
constexpr std::size_t kPrefixBytes = 14;
/// Of an entry: the address and the mask of filters. The rest is the size.
constexpr std::size_t kAddressBytes = 8;
constexpr std::size_t kMaskBytes = 4;
/// The only filter was left out.
constexpr std::uint32_t kUnfiltered = 1;

/// A little-endian number.
std::uint64_t number_in(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    number = number << 8U | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return number;
}

void put_number(std::uint64_t number, std::span<std::byte> bytes) {
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(number);
    number >>= 8U;
  }
}

/// The checksum of HDF5's structures: lookup3 by Bob Jenkins (burtleburtle.net/bob/c/lookup3.c, public domain), which
/// mixes three words of 32 bits.
std::uint32_t lookup3(std::span<const std::byte> bytes) {
  constexpr std::size_t step = 12;
  std::array<std::uint32_t, 3> w{};
  w.fill(0xdeadbeefU + static_cast<std::uint32_t>(bytes.size()));
  const auto add = [&w](std::span<const std::byte> part) {
    for (std::size_t i = 0; i < part.size(); i += 4) {
      w.at(i / 4) += static_cast<std::uint32_t>(number_in(part.subspan(i, std::min<std::size_t>(4, part.size() - i))));
    }
  };
  const auto mix = [&w](std::size_t to, std::size_t from, int turns, std::size_t other) {
    w.at(to) -= w.at(from);
    w.at(to) ^= std::rotl(w.at(from), turns);
    w.at(from) += w.at(other);
  };
  for (; bytes.size() > step; bytes = bytes.subspan(step)) {
    add(bytes.first(step));
    constexpr std::array<int, 6> turns{4, 6, 8, 16, 19, 4};
    for (std::size_t i = 0; i < turns.size(); ++i) {
      mix(i % 3, (i + 2) % 3, turns.at(i), (i + 1) % 3);
    }
  }
  if (bytes.empty()) {
    return w[2];
  }
  add(bytes);
  constexpr std::array<int, 7> turns{14, 11, 25, 16, 4, 14, 24};
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::size_t to = (i + 2) % 3;
    w.at(to) ^= w.at((i + 1) % 3);
    w.at(to) -= std::rotl(w.at((i + 1) % 3), turns.at(i));
  }
  return w[2];
}

std::uint64_t chunk_bytes(const Dataset& dataset) { return volume(dataset.chunk) * dataset.element_size; }

/// The sizes of a variable's chunks; 0 of those that are not compressed.
std::vector<std::uint64_t> sizes_of_chunks(const FileIndex& index, const StoredVariable& variable, std::size_t chunks) {
  std::vector<std::uint64_t> sizes(chunks);
  const Dataset dataset = variable.dataset();
  for (std::size_t b = 0; b < variable.box_count; ++b) {
    const BoxRow row = index.row(variable, b);
    const ChunkedSplit split = FileIndex::blocks_of(variable, row);
    for (std::uint64_t i = 0; i < split.count(); ++i) {
      if (const std::uint64_t size = index.compressed_sizes[static_cast<std::size_t>(row.first_checksum + i)];
          size > 0) {
        const std::uint64_t offset = chunk_part(dataset, split.block(i)).dataset.file_offset - dataset.file_offset;
        sizes.at(static_cast<std::size_t>(offset / chunk_bytes(dataset))) = size;
      }
    }
  }
  return sizes;
}

}  // namespace

NoPlugins::NoPlugins() {
  check_hdf5(H5PLget_loading_state(&loads_), kFiltering);
  check_hdf5(H5PLset_loading_state(loads_ & ~static_cast<unsigned>(H5PL_FILTER_PLUGIN)), kFiltering);
}

/// It was possible before.
NoPlugins::~NoPlugins() { static_cast<void>(H5PLset_loading_state(loads_)); }

bool can_lay_out_compressed() {
  const NoPlugins without;
  return check_hdf5(H5Zfilter_avail(kBloscFilter), kFiltering) == 0;
}

/// The values are those that Blosc's filter writes: versions, sizes, level, shuffle. A reader takes all from the chunk.
void add_filter(hid_t creation, const StoredVariable& variable) {
  const auto element_bytes = static_cast<unsigned>(variable.type.size_bytes);
  const std::array<unsigned, 7> values{
      2, 2, element_bytes, static_cast<unsigned>(volume(variable.chunk)) * element_bytes, 1, 1, 1};
  check_hdf5(H5Pset_filter(creation, kBloscFilter, H5Z_FLAG_OPTIONAL, values.size(), values.data()), kFiltering);
}

std::uint64_t most_index_bytes(const StoredVariable& variable) {
  constexpr std::uint64_t per_array = 512;
  constexpr std::uint64_t per_entry = 24;
  return variable.compressed ? per_array + per_entry * chunks_in(variable.dataset()) : 0;
}

ChunkIndexes::ChunkIndexes(const PosixFile& layout, std::span<const Region> structure, const FileIndex& index) {
  if (!index.may_be_compressed()) {
    return;
  }
  const auto mark = std::as_bytes(std::span(kHeaderMark));
  for (const Region& region : structure) {
    Bytes bytes(static_cast<std::size_t>(region.size));
    layout.read_all(bytes, region.offset);
    for (auto at = bytes.begin();; ++at) {
      at = std::search(at, bytes.end(), mark.begin(), mark.end());
      if (static_cast<std::size_t>(bytes.end() - at) < kHeaderBytes) {
        break;
      }
      if (const auto array = array_at(layout, std::span(at, kHeaderBytes), index)) {
        arrays_.push_back(*array);
      }
    }
  }
  const auto compressed = std::ranges::count_if(
      index.variables, [](const StoredVariable& variable) { return variable.compressed && variable.bytes() > 0; });
  if (arrays_.size() != static_cast<std::size_t>(compressed)) {
    throw Error(ErrorCode::internal, "this version of HDF5 has another index of compressed chunks than expected");
  }
}

/// Nothing if the bytes only look like a header. The address of the first chunk says of which variable it is.
std::optional<ChunkIndexes::Array> ChunkIndexes::array_at(const PosixFile& layout, std::span<const std::byte> header,
                                                          const FileIndex& index) {
  if (number_in(header.last(kChecksumBytes)) != lookup3(header.first(kHeaderBytes - kChecksumBytes))) {
    return std::nullopt;
  }
  Array array;
  array.entry_bytes = number_in(header.subspan(6, 1));
  array.page_entries = std::uint64_t{1} << number_in(header.subspan(7, 1));
  array.entries = number_in(header.subspan(8, 8));
  array.offset = number_in(header.subspan(16, 8)) + kCommitRecordBytes;
  if (const std::uint64_t pages = (array.entries - 1) / array.page_entries + 1; pages > 1) {
    array.offset += kPrefixBytes + (pages - 1) / 8 + 1 + kChecksumBytes;  // a bit for each page
  } else {
    array.before = kPrefixBytes;
  }
  std::array<std::byte, kAddressBytes> address{};
  layout.read_all(address, array.offset + array.before);
  const auto variable = std::ranges::find_if(index.variables, [&](const StoredVariable& v) {
    return v.compressed && v.file_offset == number_in(address) + kCommitRecordBytes;
  });
  if (variable == index.variables.end() || array.entries != chunks_in(variable->dataset()) ||
      array.entry_bytes <= kAddressBytes + kMaskBytes) {
    throw Error(ErrorCode::internal, "an index of chunks belongs to no variable");
  }
  array.variable = static_cast<std::size_t>(variable - index.variables.begin());
  return array;
}

void ChunkIndexes::write(const PosixFile& layout, const FileIndex& index, bool compressed) const {
  for (const Array& array : arrays_) {
    write(layout, array, index, compressed);
  }
}

/// Each page, or the only one together with what is before it, ends with a checksum.
void ChunkIndexes::write(const PosixFile& layout, const Array& array, const FileIndex& index, bool compressed) {
  const StoredVariable& variable = index.variables[array.variable];
  const Dataset dataset = variable.dataset();
  const auto entries = static_cast<std::size_t>(array.entries);
  const auto sizes = compressed ? sizes_of_chunks(index, variable, entries) : std::vector<std::uint64_t>(entries);
  std::uint64_t offset = array.offset;
  for (std::uint64_t first = 0; first < array.entries; first += array.page_entries) {
    const std::uint64_t count = std::min(array.page_entries, array.entries - first);
    Bytes page(static_cast<std::size_t>(array.before + count * array.entry_bytes + kChecksumBytes));
    layout.read_all(page, offset);
    std::span<std::byte> rest = std::span(page).subspan(static_cast<std::size_t>(array.before));
    for (std::uint64_t i = first; i < first + count; ++i) {
      const std::uint64_t size = sizes[static_cast<std::size_t>(i)];
      const auto entry = rest.first(static_cast<std::size_t>(array.entry_bytes));
      put_number(dataset.file_offset - kCommitRecordBytes + i * chunk_bytes(dataset), entry.first(kAddressBytes));
      put_number(size > 0 ? size : chunk_bytes(dataset),
                 entry.subspan(kAddressBytes, entry.size() - kAddressBytes - kMaskBytes));
      put_number(size > 0 ? 0 : kUnfiltered, entry.last(kMaskBytes));
      rest = rest.subspan(entry.size());
    }
    put_number(lookup3(std::span(page).first(page.size() - kChecksumBytes)), rest);
    layout.write_all(page, offset);
    offset += page.size();
  }
}

}  // namespace reprieve::storage
