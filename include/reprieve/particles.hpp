// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Redistribution of particles, and of other lists that every rank has for itself, after a restart on another number of
/// ranks.
///
///     state.add_per_rank("particles", particles, reprieve::in_order<std::vector<Particle>>());
///     state.add_per_rank("particles", particles, reprieve::by_owner<std::vector<Particle>>(rank_of_particle));
///
/// Particles in cells, lists or a struct of arrays: `add_particles`.
///
/// What a rank gets depends on the saved lists and the number of ranks alone.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprieve/checkpoint.hpp"

namespace reprieve {

namespace detail {

/// Number of items that a rank saved. @throws MismatchError if its list ends in the middle of an item
inline std::uint64_t items_of(const PerRankPieces& pieces, int saved_rank, std::size_t values_per_item) {
  std::uint64_t values = 1;
  for (const std::uint64_t length : pieces.shape(saved_rank)) {
    values *= length;
  }
  if (values_per_item == 0 || values % values_per_item != 0) {
    throw MismatchError("rank " + std::to_string(saved_rank) + " saved " + std::to_string(values) +
                        " values, which are not items of " + std::to_string(values_per_item) + " values each");
  }
  return values / values_per_item;
}

/// Part @p part of @p parts of @p count items, as even as possible: the first of them and the one past the last.
inline std::pair<std::uint64_t, std::uint64_t> even_part(std::uint64_t count, int part, int parts) {
  const auto p = static_cast<std::uint64_t>(part);
  const auto n = static_cast<std::uint64_t>(parts);
  const std::uint64_t size = count / n;
  const std::uint64_t larger = count % n;
  const std::uint64_t first = size * p + (p < larger ? p : larger);
  return {first, first + size + (p < larger ? 1 : 0)};
}

/// Items of one saved list, from the first of them to the one past the last.
struct ItemRange {
  int saved_rank;
  std::uint64_t begin;
  std::uint64_t end;
};

/// What @p rank of @p size gets of the lists of all ranks, one after the other, cut into even parts.
inline std::vector<ItemRange> even_ranges(const PerRankPieces& pieces, int rank, int size,
                                          std::size_t values_per_item) {
  std::vector<std::uint64_t> ends;  // of the saved lists, in items of all
  ends.reserve(static_cast<std::size_t>(pieces.count()));
  for (int saved = 0; saved < pieces.count(); ++saved) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + items_of(pieces, saved, values_per_item));
  }
  const auto [begin, end] = even_part(ends.empty() ? 0 : ends.back(), rank, size);
  std::vector<ItemRange> ranges;
  std::uint64_t first = 0;  // the number of the saved list's first item
  for (int saved = 0; saved < pieces.count(); ++saved) {
    const std::uint64_t behind = ends[static_cast<std::size_t>(saved)];
    const auto in_list = [&](std::uint64_t number) {
      return number <= first ? 0 : (number < behind ? number : behind) - first;
    };
    const ItemRange range{saved, in_list(begin), in_list(end)};
    if (range.begin < range.end) {
      ranges.push_back(range);
    }
    first = behind;
  }
  return ranges;
}

}  // namespace detail

/// The lists of all ranks, one after the other, cut into parts as even as possible. Several lists that belong together
/// (positions and velocities, kept apart) stay together if each has as many items on every rank.
/// Each rank reads only the saved lists that meet its part.
/// @tparam List  std::vector or the like, of elements
/// @param values_per_item  elements that stay together, 3 for a list of x, y, z, x, y, z, ...
template <class List>
Redistribute<List> in_order(std::size_t values_per_item = 1) {
  using T = typename List::value_type;
  return [values_per_item](const PerRankPieces& pieces, int rank, int size, List& list) {
    List mine;
    for (const auto& [saved, begin, end] : detail::even_ranges(pieces, rank, size, values_per_item)) {
      const std::vector<T> values = values_of<T>(pieces, saved);
      mine.insert(mine.end(), values.begin() + static_cast<std::ptrdiff_t>(begin * values_per_item),
                  values.begin() + static_cast<std::ptrdiff_t>(end * values_per_item));
    }
    list = std::move(mine);
  };
}

/// Every item goes to the rank that @p owner names: by position in space, say. Within a rank the order is that of the
/// saved ranks and of their lists. Every rank reads all saved lists, one at a time.
/// @param owner  rank of an item among @p size ranks, 0 to size - 1; the same answer on every rank
template <class List>
Redistribute<List> by_owner(std::function<int(const typename List::value_type& item, int size)> owner) {
  using T = typename List::value_type;
  return [owner = std::move(owner)](const PerRankPieces& pieces, int rank, int size, List& list) {
    List mine;
    for (int saved = 0; saved < pieces.count(); ++saved) {
      for (const T& item : values_of<T>(pieces, saved)) {
        const int to = owner(item, size);
        if (to < 0 || to >= size) {
          throw UsageError("the owner function named rank " + std::to_string(to) + ", but there are " +
                           std::to_string(size) + " ranks");
        }
        if (to == rank) {
          mine.push_back(item);
        }
      }
    }
    list = std::move(mine);
  };
}

/// The owners of the items that @p saved_rank saved, in their order. `pieces` are those of the variable that is being
/// redistributed; `pieces.of(name)` has what belongs to it, the positions say.
using OwnersOf = std::function<std::vector<int>(const PerRankPieces& pieces, int saved_rank, int size)>;

/// `by_owner` for particles in several lists; one of the lists says where each particle belongs.
/// @param values_per_item  elements of this list per particle
template <class List>
Redistribute<List> by_owners(OwnersOf owners, std::size_t values_per_item = 1) {
  using T = typename List::value_type;
  return [owners = std::move(owners), values_per_item](const PerRankPieces& pieces, int rank, int size, List& list) {
    List mine;
    for (int saved = 0; saved < pieces.count(); ++saved) {
      const std::vector<int> to = owners(pieces, saved, size);
      if (to.size() != detail::items_of(pieces, saved, values_per_item)) {
        throw UsageError("the owner function named " + std::to_string(to.size()) + " owners for " +
                         std::to_string(detail::items_of(pieces, saved, values_per_item)) + " items");
      }
      const std::vector<T> values = values_of<T>(pieces, saved);
      for (std::size_t item = 0; item < to.size(); ++item) {
        if (to[item] == rank) {
          const auto first = values.begin() + static_cast<std::ptrdiff_t>(item * values_per_item);
          mine.insert(mine.end(), first, first + static_cast<std::ptrdiff_t>(values_per_item));
        }
      }
    }
    list = std::move(mine);
  };
}

/// How the library reaches a rank's particles, whatever holds them. They run on the thread that saves or restores,
/// without MPI.
template <Element Particle>
struct ParticleFunctions {
  /// Calls @p visit once with each particle of this rank.
  std::function<void(const std::function<void(const Particle&)>& visit)> for_each = {};
  std::function<void()> clear = {};                ///< removes all particles
  std::function<void(const Particle&)> push = {};  ///< adds one
  /// As in `by_owner`. Without it another number of ranks cuts the particles into even parts.
  std::function<int(const Particle&, int size)> owner = {};
  /// A number of its own for each particle. A rank's particles are saved in the order of the keys, not of the visits:
  /// equal states make equal files, for `reprieve diff` and a drill.
  std::function<std::int64_t(const Particle&)> key = {};
};

namespace detail {

template <Element Particle>
class ParticleAccess final : public ValueAccess {
 public:
  explicit ParticleAccess(ParticleFunctions<Particle> functions) : functions_(std::move(functions)) {}

  [[nodiscard]] ElementType type() const override { return element_type_of<Particle>(); }
  [[nodiscard]] Extents shape() const override {
    std::uint64_t count = 0;
    functions_.for_each([&count](const Particle&) { ++count; });
    return {count};
  }
  [[nodiscard]] bool resizable() const override { return true; }
  [[nodiscard]] std::span<const std::byte> bytes() override {
    list_.clear();
    functions_.for_each([this](const Particle& particle) { list_.push_back(particle); });
    if (functions_.key) {
      sort();
    }
    return std::as_bytes(std::span<const Particle>(list_));
  }
  [[nodiscard]] std::span<std::byte> prepare(std::size_t size) override {
    list_.resize(size / sizeof(Particle));
    return std::as_writable_bytes(std::span<Particle>(list_));
  }
  void commit() override { replace(std::exchange(list_, {})); }

  void redistribute(const PerRankPieces& pieces, int rank, int size) {
    using List = std::vector<Particle>;
    List mine;
    (functions_.owner ? by_owner<List>(functions_.owner) : in_order<List>())(pieces, rank, size, mine);
    replace(mine);
  }

 private:
  void replace(const std::vector<Particle>& particles) {
    functions_.clear();
    for (const Particle& particle : particles) {
      functions_.push(particle);
    }
  }

  /// Not by std::sort, whose header would slow down the compilation of all programs.
  void sort() {
    struct Keyed {
      std::int64_t key;
      std::size_t index;
    };
    std::vector<Keyed> order;
    for (const Particle& particle : list_) {
      order.push_back({functions_.key(particle), order.size()});
    }
    std::qsort(order.data(), order.size(), sizeof(Keyed), [](const void* a, const void* b) {
      const auto key_a = static_cast<const Keyed*>(a)->key;
      const auto key_b = static_cast<const Keyed*>(b)->key;
      return static_cast<int>(key_a > key_b) - static_cast<int>(key_a < key_b);
    });
    std::vector<Particle> sorted;
    for (const Keyed& each : order) {
      sorted.push_back(list_[each.index]);
    }
    list_ = std::move(sorted);
  }

  ParticleFunctions<Particle> functions_;
  std::vector<Particle> list_;
};

}  // namespace detail

/// Registers particles in any container as a per-rank list of records. A save copies them.
///
///     reprieve::add_particles<Particle>(state, "particles", {.for_each = ..., .clear = ..., .push = ...});
///
/// @throws UsageError if the name is not allowed, or if one of the first three functions is missing
template <Element Particle>
void add_particles(Checkpoint& state, const std::string& name, ParticleFunctions<Particle> functions) {
  if (!functions.for_each || !functions.clear || !functions.push) {
    throw UsageError("variable '" + name + "': particles need the functions for_each, clear and push");
  }
  auto access = std::make_unique<detail::ParticleAccess<Particle>>(std::move(functions));
  const auto redistribute = [&particles = *access](const PerRankPieces& pieces, int rank, int size) {
    particles.redistribute(pieces, rank, size);
  };
  state.add_per_rank_value(name, std::move(access), redistribute);
  if (Members members = detail::members_if_any<Particle>(); !members.empty()) {
    state.set_members(name, std::move(members));
  }
}

}  // namespace reprieve
