// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/file_plan.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "storage/format/shared_copies.hpp"
#include "storage/write/data_stream.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

std::uint64_t most_pieces(const FileIndex& index, const StoredVariable& variable, int ranks,
                          std::uint64_t piece_bytes) {
  std::vector<std::uint64_t> pieces(static_cast<std::size_t>(ranks), 0);
  std::uint64_t most = 0;
  for (std::size_t b = 0; b < variable.box_count; ++b) {
    const BoxRow row = index.row(variable, b);
    const Box box = FileIndex::dataset_box(variable, row);
    std::uint64_t& count = pieces[static_cast<std::size_t>(row.rank)];
    count += BlockSplit(box, variable.type.size_bytes, piece_bytes).count();
    most = std::max(most, count);
  }
  return most;
}

/// A rank has parts of chunks, or chunks, that are too small.
bool has_small_parts(const FileIndex& index, const StoredVariable& variable) {
  const Dataset dataset = variable.dataset();
  if (volume(dataset.chunk) * dataset.element_size < kLeastOwnChunkBytes) {
    return true;
  }
  for (std::size_t b = 0; b < variable.box_count; ++b) {
    const BoxRow row = index.row(variable, b);
    if (is_whole_chunks(dataset.shape, dataset.chunk, row.offset, row.extent)) {
      continue;  // which is how most boxes are
    }
    const std::vector<ChunkPart> parts = chunk_parts(dataset, FileIndex::dataset_box(variable, index.row(variable, b)));
    if (std::ranges::any_of(parts, [&](const ChunkPart& part) {
          return !part.is_all && run_length(part.within, dataset.chunk) * dataset.element_size < kLeastDirectBytes;
        })) {
      return true;
    }
  }
  return false;
}

bool has_short_rows(const FileIndex& index, const StoredVariable& variable) {
  std::span<const std::uint64_t> before;
  for (std::size_t b = 0; b < variable.box_count; ++b) {
    const BoxRow row = index.row(variable, b);
    if (std::ranges::equal(row.extent, before)) {
      continue;  // of a box of the same extent it is known
    }
    before = row.extent;
    const Box box = FileIndex::dataset_box(variable, index.row(variable, b));
    if (run_length(box, variable.shape) * variable.type.size_bytes < kLeastDirectBytes) {
      return true;
    }
  }
  return false;
}

bool is_scattered(const FileIndex& index, const StoredVariable& variable) {
  return variable.chunk.empty() ? has_short_rows(index, variable) : has_small_parts(index, variable);
}

Bytes encode_common(const FileIndex& index, int ranks, std::uint64_t piece_bytes) {
  Encoder message;
  message.put(index.state_bytes());
  for (const StoredVariable& variable : index.variables) {
    message.put(variable.dataset());
    message.put(piece_bytes > 0 ? most_pieces(index, variable, ranks, piece_bytes) : 0);
    message.put(is_scattered(index, variable));
  }
  return message.take();
}

Bytes encode_of_rank(const FileIndex& index, std::size_t rank) {
  Encoder message;
  for (const StoredVariable& variable : index.variables) {
    if (variable.distribution == Distribution::per_rank) {
      message.put(index.row(variable, rank).offset[0]);
    }
    if (variable.is_shared) {
      message.put(parts_written_by(index, variable, rank));
    }
  }
  return message.take();
}

}  // namespace

Places places_in(const FileIndex& index, int ranks, std::uint64_t piece_bytes) {
  Places places{encode_common(index, ranks, piece_bytes), {}};
  places.of_ranks.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    places.of_ranks.push_back(encode_of_rank(index, static_cast<std::size_t>(rank)));
  }
  return places;
}

void place_checksums(FileIndex& index, const std::vector<Bytes>& by_rank) {
  std::vector<std::uint64_t> table(index.checksums.size());
  const auto bytes = std::as_writable_bytes(std::span(table));
  std::vector<std::size_t> taken(by_rank.size(), 0);
  for (std::size_t i = 0; i < index.boxes.size(); ++i) {
    const BoxRow row = index.boxes.row(i, 0, 0);
    const std::uint64_t end =
        i + 1 < index.boxes.size() ? index.boxes.row(i + 1, 0, 0).first_checksum : index.checksums.size();
    const auto rank = static_cast<std::size_t>(row.rank);
    const auto size = static_cast<std::size_t>(end - row.first_checksum) * sizeof(std::uint64_t);
    if (size > by_rank[rank].size() - taken[rank]) {
      throw Error(ErrorCode::internal, "rank " + std::to_string(rank) + " sent too few checksums");
    }
    std::copy_n(by_rank[rank].data() + taken[rank], size, bytes.data() + row.first_checksum * sizeof(std::uint64_t));
    taken[rank] += size;
  }
  index.checksums = SharedWords(std::move(table));
}

}  // namespace reprieve::storage
