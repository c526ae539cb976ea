// SPDX-License-Identifier: BSD-3-Clause
// Arrays of one to four dimensions, cut into random boxes with holes between them, in memory of random strides (axes in
// any order, padding, backwards), saved by some ranks and restored by some others that cut them in another way.
// REPRIEVE_RANDOM_LAYOUTS sets how many, REPRIEVE_SEED which ones.

#include <complex>
#include <cstdlib>

#include "manager_fixture.hpp"
#include "support/boxes_and_bytes.hpp"

namespace reprieve::test {
namespace {

/// Of what the tests fill memory with that no box covers.
constexpr std::byte kGuard{0xEE};

using Region = storage::Box;

/// One rank's box: a region, and how it lies in memory.
struct PlacedRegion {
  Region region;
  int owner = 0;
  std::vector<std::ptrdiff_t> strides_bytes;
  std::size_t memory_bytes = 0;
  std::size_t first_byte = 0;
};

int number_from(const char* variable, int usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::stoi(text);
}

/// The same sequence on all ranks.
class Draw {
 public:
  explicit Draw(int seed) : engine_(static_cast<unsigned>(seed)) {}

  int below(int limit) { return static_cast<int>(engine_() % static_cast<unsigned>(limit)); }

  Extents shape() {
    constexpr std::array kLongest{5000, 70, 17, 9};
    const int dimensions = 1 + below(4);
    Extents extents(static_cast<std::size_t>(dimensions));
    for (auto& length : extents) {
      length = 1 + static_cast<std::uint64_t>(below(kLongest.at(static_cast<std::size_t>(dimensions - 1))));
    }
    return extents;
  }

  /// Cuts an array into boxes, and shares them out among so many ranks; about one in eight is nobody's.
  std::vector<PlacedRegion> cut(const Extents& shape, int ranks, std::size_t element_bytes) {
    std::vector<Region> regions{{Extents(shape.size(), 0), shape}};
    for (int cuts = below(4 * ranks + 1); cuts > 0; --cuts) {
      cut_one(regions);
    }
    std::vector<PlacedRegion> placed;
    for (const Region& region : regions) {
      if (below(8) != 0) {
        placed.push_back(place(region, below(ranks), element_bytes));
      }
    }
    return placed;
  }

 private:
  void cut_one(std::vector<Region>& regions) {
    Region& first = regions[static_cast<std::size_t>(below(static_cast<int>(regions.size())))];
    const auto axis = static_cast<std::size_t>(below(static_cast<int>(first.extent.size())));
    if (first.extent[axis] < 2) {
      return;
    }
    const auto length = 1 + static_cast<std::uint64_t>(below(static_cast<int>(first.extent[axis]) - 1));
    Region second = first;
    second.offset[axis] += length;
    second.extent[axis] -= length;
    first.extent[axis] = length;
    regions.push_back(second);
  }

  PlacedRegion place(const Region& region, int owner, std::size_t element_bytes) {
    PlacedRegion placed{region, owner, std::vector<std::ptrdiff_t>(region.extent.size()), 0, 0};
    std::vector<std::size_t> axes(region.extent.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), engine_);
    std::size_t stride = element_bytes * static_cast<std::size_t>(1 + below(2));
    for (const std::size_t axis : axes) {
      const bool backwards = below(4) == 0;
      placed.strides_bytes[axis] = static_cast<std::ptrdiff_t>(stride) * (backwards ? -1 : 1);
      if (backwards) {
        placed.first_byte += stride * (region.extent[axis] - 1);
      }
      stride *= region.extent[axis] + static_cast<std::size_t>(below(2));
    }
    placed.memory_bytes = stride;
    return placed;
  }

  std::mt19937 engine_;
};

/// This rank's boxes of one array.
class Part {
 public:
  Part(ElementType type, Extents shape, std::vector<PlacedRegion> regions, int rank)
      : type_(type), shape_(std::move(shape)), regions_(std::move(regions)) {
    std::erase_if(regions_, [&](const PlacedRegion& region) { return region.owner != rank; });
    for (const PlacedRegion& region : regions_) {
      memory_.emplace_back(region.memory_bytes, kGuard);
    }
  }

  [[nodiscard]] DistributedArray describe() {
    DistributedArray array{type_, shape_, {}};
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      array.boxes.push_back({memory_[i].data() + regions_[i].first_byte, regions_[i].region.offset,
                             regions_[i].region.extent, regions_[i].strides_bytes});
    }
    return array;
  }

  /// Calls @p visit with the memory of every element, and its place in the whole array.
  template <class Visit>
  void for_each_element(Visit&& visit) {
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      const PlacedRegion& placed = regions_[i];
      storage::for_each_index(storage::whole(placed.region.extent), [&](const Extents& index) {
        auto at = static_cast<std::ptrdiff_t>(placed.first_byte);
        std::uint64_t place = 0;
        for (std::size_t axis = 0; axis < index.size(); ++axis) {
          at += placed.strides_bytes[axis] * static_cast<std::ptrdiff_t>(index[axis]);
          place = place * shape_[axis] + placed.region.offset[axis] + index[axis];
        }
        visit(memory_[i].data() + at, place);
      });
    }
  }

  /// Bytes that belong to no element, and were changed.
  [[nodiscard]] std::size_t touched_gaps() {
    for_each_element([&](std::byte* element, std::uint64_t) { std::fill_n(element, type_.size_bytes, kGuard); });
    std::size_t touched = 0;
    for (const auto& memory : memory_) {
      touched += memory.size() - static_cast<std::size_t>(std::count(memory.begin(), memory.end(), kGuard));
    }
    return touched;
  }

 private:
  ElementType type_;
  Extents shape_;
  std::vector<PlacedRegion> regions_;
  std::vector<std::vector<std::byte>> memory_;
};

/// Byte @p k of an element: other bytes in other places and cases.
std::byte expected_byte(int seed, std::uint64_t place, std::size_t k) {
  const std::uint64_t mixed = (place * 16 + k + 1) * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(seed) * 0x10001;
  return static_cast<std::byte>(mixed >> 56U);
}

/// Which elements are in a box of somebody.
std::vector<bool> held_elements(const Extents& shape, const std::vector<PlacedRegion>& regions) {
  std::vector<bool> held(storage::volume(shape), false);
  for (const PlacedRegion& placed : regions) {
    storage::for_each_index(storage::whole(placed.region.extent), [&](const Extents& index) {
      std::uint64_t place = 0;
      for (std::size_t axis = 0; axis < index.size(); ++axis) {
        place = place * shape[axis] + placed.region.offset[axis] + index[axis];
      }
      held[place] = true;
    });
  }
  return held;
}

/// Runs @p operation with a manager on the first @p ranks ranks. Collective.
void on_manager(int ranks, Checkpoint& checkpoint, const std::filesystem::path& directory,
                const ManagerOptions& options, const std::function<void(CheckpointManager&)>& operation) {
  on_first_ranks(ranks, [&](MPI_Comm part) {
    CheckpointManager manager(part, checkpoint, directory, options);
    operation(manager);
  });
}

void save_and_restore(int seed, const std::filesystem::path& directory) {
  SCOPED_TRACE("REPRIEVE_RANDOM_LAYOUTS=1 REPRIEVE_SEED=" + std::to_string(seed));
  Draw draw(seed);
  const std::array types{element_type_of<std::uint8_t>(), element_type_of<std::int16_t>(), element_type_of<float>(),
                         element_type_of<double>(), element_type_of<std::complex<double>>()};
  const ElementType type = types.at(static_cast<std::size_t>(draw.below(5)));
  const Extents shape = draw.shape();
  const int savers = 1 + draw.below(world_size());
  const int readers = 1 + draw.below(world_size());
  ManagerOptions options{.writer = draw.below(6) == 0 ? WriterKind::mpio : WriterKind::direct,
                         .io = draw.below(2) == 0 ? FileIo::direct : FileIo::page_cache,
                         .durable = false};
  const auto saved = draw.cut(shape, savers, type.size_bytes);

  Part part(type, shape, saved, world_rank());
  part.for_each_element([&](std::byte* element, std::uint64_t place) {
    for (std::size_t k = 0; k < type.size_bytes; ++k) {
      element[k] = expected_byte(seed, place, k);
    }
  });
  Checkpoint state;
  state.add_distributed("array", [&] { return part.describe(); });
  on_manager(savers, state, directory, options, [](CheckpointManager& manager) { manager.save(); });

  Part other(type, shape, draw.cut(shape, readers, type.size_bytes), world_rank());
  Checkpoint restored;
  restored.add_distributed("array", [&] { return other.describe(); });
  on_manager(readers, restored, directory, options,
             [](CheckpointManager& manager) { EXPECT_TRUE(manager.restore_or_initialize().has_value()); });
  const std::vector<bool> held = held_elements(shape, saved);
  std::size_t wrong = 0;
  other.for_each_element([&](const std::byte* element, std::uint64_t place) {
    for (std::size_t k = 0; k < type.size_bytes; ++k) {
      wrong += element[k] == (held[place] ? expected_byte(seed, place, k) : std::byte{0}) ? 0U : 1U;
    }
  });
  EXPECT_EQ(wrong, 0U) << "bytes";
  EXPECT_EQ(other.touched_gaps(), 0U) << "bytes between the elements";
}

TEST(RandomLayouts, EveryElementComesBackOnOtherRanksAndBoxes) {
  const int count = number_from("REPRIEVE_RANDOM_LAYOUTS", 60);
  const int first = number_from("REPRIEVE_SEED", 1000 * world_size());
  const SharedTemporaryDirectory temporary;
  for (int seed = first; seed < first + count; ++seed) {
    save_and_restore(seed, temporary / std::to_string(seed));
    int failed = testing::Test::HasFailure() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (failed != 0) {
      break;
    }
    if (world_rank() == 0) {
      std::filesystem::remove_all(temporary / std::to_string(seed));
    }
  }
}

}  // namespace
}  // namespace reprieve::test
