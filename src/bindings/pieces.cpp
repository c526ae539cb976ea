// SPDX-License-Identifier: BSD-3-Clause
#include "bindings/pieces.hpp"

#include <algorithm>

#include "bindings/handles.hpp"
#include "reprieve/error.hpp"
#include "reprieve/particles.hpp"
#include "state/staging.hpp"

namespace reprieve::bindings {

namespace {

/// The bytes of one piece; asking for the size and then for the content reads it once.
const std::vector<std::byte>& piece(reprieve_pieces& pieces, int saved_rank) {
  if (pieces.read_rank != saved_rank) {
    pieces.read_rank.reset();
    pieces.bytes = pieces.source->bytes(saved_rank);
    pieces.read_rank = saved_rank;
  }
  return pieces.bytes;
}

/// The program's memory may be on a device.
void put(std::span<const std::byte> bytes, std::byte* place) {
  if (MemorySpace* const space = devices::Spaces().find(place, bytes.size())) {
    state::Staging().copy_in(*space, place, {1}, bytes.data(), {1}, {bytes.size()}, 1);
  } else {
    std::copy(bytes.begin(), bytes.end(), place);
  }
}

void read_piece(reprieve_pieces& pieces, int saved_rank, void* buffer, std::size_t size_bytes) {
  const std::vector<std::byte>& bytes = piece(pieces, saved_rank);
  if (bytes.size() != size_bytes) {
    throw UsageError("the piece of rank " + std::to_string(saved_rank) + " has " + std::to_string(bytes.size()) +
                     " bytes, the buffer " + std::to_string(size_bytes) + ": ask reprieve_pieces_size");
  }
  if (!bytes.empty()) {
    put(bytes, &place_for(static_cast<std::byte*>(buffer), "piece"));
  }
}

/// Items in the list of @p saved_rank.
std::uint64_t items_of(const reprieve_pieces& pieces, int saved_rank) {
  const std::size_t element = pieces.source->type().size_bytes;
  const Extents shape = pieces.source->shape(saved_rank);
  if ((shape.size() == 2 ? shape[1] : 1) != pieces.item_bytes / element) {
    throw MismatchError("the items that rank " + std::to_string(saved_rank) + " saved have another width");
  }
  return detail::items_of(*pieces.source, saved_rank, pieces.item_bytes / element);
}

/// Reads only the saved lists that this rank's part meets.
void take_even_part(reprieve_pieces& pieces, int rank, int size) {
  if (pieces.list == nullptr) {
    throw UsageError("reprieve_in_order is for values that were registered as resizable");
  }
  std::uint64_t count = 0;
  for (int saved = 0; saved < pieces.source->count(); ++saved) {
    count += items_of(pieces, saved);
  }
  const auto [begin, end] = detail::even_part(count, rank, size);
  std::span<std::byte> place = pieces.list->prepare(static_cast<std::size_t>(end - begin) * pieces.item_bytes);
  std::uint64_t first = 0;  // the number of the saved list's first item
  for (int saved = 0; saved < pieces.source->count(); ++saved) {
    const std::uint64_t items = items_of(pieces, saved);
    const std::uint64_t from = std::clamp(begin, first, first + items) - first;
    const std::uint64_t to = std::clamp(end, first, first + items) - first;
    if (from < to) {
      const auto bytes = std::span(piece(pieces, saved))
                             .subspan(static_cast<std::size_t>(from) * pieces.item_bytes,
                                      static_cast<std::size_t>(to - from) * pieces.item_bytes);
      put(bytes, place.data());
      place = place.subspan(bytes.size());
    }
    first += items;
  }
  pieces.list->commit();
}

}  // namespace

Checkpoint::RedistributeAny redistribution(const std::string& name, reprieve_redistribute_fn redistribute, void* user,
                                           ValueAccess* list, std::size_t item_bytes) {
  if (redistribute == nullptr) {
    return {};
  }
  return [=](const PerRankPieces& pieces, int rank, int size) {
    reprieve_pieces shown{&pieces, list, item_bytes, {}, {}};
    if (redistribute == reprieve_in_order) {
      take_even_part(shown, rank, size);  // its errors keep their class
      return;
    }
    check_callback("the redistribution function of variable '" + name + "'",
                   [&] { return redistribute(&shown, rank, size, user); });
  };
}

}  // namespace reprieve::bindings

using namespace reprieve;            // NOLINT: the C interface of that namespace
using namespace reprieve::bindings;  // NOLINT

extern "C" {

int reprieve_pieces_count(const reprieve_pieces* pieces) { return pieces == nullptr ? 0 : pieces->source->count(); }

int reprieve_pieces_size(reprieve_pieces* pieces, int saved_rank, size_t* size_bytes) {
  return guarded([&] {
    place_for(size_bytes, "size") = 0;
    *size_bytes = piece(checked(pieces, "list of pieces"), saved_rank).size();
  });
}

int reprieve_pieces_read(reprieve_pieces* pieces, int saved_rank, void* buffer, size_t size_bytes) {
  return guarded([&] { read_piece(checked(pieces, "list of pieces"), saved_rank, buffer, size_bytes); });
}

int reprieve_in_order(reprieve_pieces* pieces, int rank, int size, void* user) {
  static_cast<void>(user);
  const int status = guarded([&] { take_even_part(checked(pieces, "list of pieces"), rank, size); });
  return status == REPRIEVE_OK ? 0 : reprieve_callback_error(reprieve_last_error_message());
}

}  // extern "C"
