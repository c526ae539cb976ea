#include "storage/write/file_plan.hpp"

#include <algorithm>

#include "storage/format/layout.hpp"
#include "storage/format/shared_copies.hpp"
#include "storage/write/data_stream.hpp"

namespace reprieve::storage {

namespace {

using Distribution = state::Distribution;

/// How the ranks hold a variable. The same for all ranks, and each a walk through all boxes.
struct Pieces {
  std::uint64_t most = 0;  ///< that a rank contributes to the collective transfers
  bool scattered = false;  ///< a rank has it in pieces that are too small for a write of their own
};

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

bool is_scattered(const FileIndex& index, const StoredVariable& variable) {
  for (std::size_t b = 0; b < variable.box_count; ++b) {
    const Box box = FileIndex::dataset_box(variable, index.row(variable, b));
    if (run_length(box, variable.shape) * variable.type.size_bytes < kLeastDirectBytes) {
      return true;
    }
  }
  return false;
}

Bytes encode_places(const FileIndex& index, std::size_t rank, std::span<const Pieces> pieces) {
  Encoder message;
  message.word(index.state_bytes());
  for (std::size_t v = 0; v < index.variables.size(); ++v) {
    const StoredVariable& variable = index.variables[v];
    message.word(variable.file_offset);
    message.words(variable.shape);
    message.word(variable.type.size_bytes);
    const bool per_rank = variable.distribution == Distribution::per_rank;
    message.word(per_rank ? index.row(variable, rank).offset[0] : 0);
    message.word(pieces[v].most);
    message.word(pieces[v].scattered ? 1 : 0);
    if (variable.is_shared) {
      encode_boxes(parts_written_by(index, variable, rank), message);
    }
  }
  return message.take();
}

}  // namespace

FileIndex plan_from(std::span<const Bytes> descriptions, const FileMetadata& metadata) {
  std::vector<std::vector<Description>> by_rank;
  by_rank.reserve(descriptions.size());
  for (const Bytes& message : descriptions) {
    by_rank.push_back(decode_descriptions(message));
  }
  return plan_file(std::move(by_rank), metadata);
}

std::vector<Bytes> places_in(const FileIndex& index, int ranks, std::uint64_t piece_bytes) {
  std::vector<Pieces> pieces;
  pieces.reserve(index.variables.size());
  for (const StoredVariable& variable : index.variables) {
    pieces.push_back(
        {piece_bytes > 0 ? most_pieces(index, variable, ranks, piece_bytes) : 0, is_scattered(index, variable)});
  }
  std::vector<Bytes> places;
  places.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    places.push_back(encode_places(index, static_cast<std::size_t>(rank), pieces));
  }
  return places;
}

}  // namespace reprieve::storage
