// SPDX-License-Identifier: BSD-3-Clause
// The code of apps/guide/state.md, saved and restored.

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "manager_fixture.hpp"
#include "reprieve/containers.hpp"
#include "reprieve/particles.hpp"

namespace {
struct Particle {
  double x = 0;
  std::int64_t id = 0;

  friend bool operator==(const Particle&, const Particle&) = default;
};
}  // namespace

template <>
inline constexpr bool reprieve::enable_record<Particle> = true;

namespace {
struct Atom {
  std::array<double, 3> position{};
  std::int64_t id = 0;

  friend bool operator==(const Atom&, const Atom&) = default;
};
}  // namespace

template <>
struct reprieve::RecordMembers<Atom> {
  static Members list() { return members_of<Atom>().add("position", &Atom::position).add("id", &Atom::id).list(); }
};

namespace {
struct Mesh {
  std::vector<double> x;
  std::map<int, std::vector<int>> neighbours;
  template <class Archive>
  void serialize(Archive& archive) {
    archive("x", x, "neighbours", neighbours);
  }
};
}  // namespace

namespace reprieve::test {
namespace {

std::uint64_t rank() { return static_cast<std::uint64_t>(world_rank()); }
std::uint64_t size() { return static_cast<std::uint64_t>(world_size()); }

class StatePage : public testing::Test {
 protected:
  /// Saves what is registered, lets the program forget it, and restores it.
  template <class Forget>
  void save_and_restore(Forget forget) {
    CheckpointManager manager(MPI_COMM_WORLD, state, directory_ / "run");
    manager.save(1);
    forget();
    ASSERT_TRUE(manager.restore_or_initialize());
  }

  SharedTemporaryDirectory directory_;
  Checkpoint state;
};

TEST_F(StatePage, Grids) {
  const std::uint64_t nz = 2 * size();
  constexpr std::uint64_t ny = 3;
  constexpr std::uint64_t nx = 4;
  const std::uint64_t z0 = 2 * rank();
  constexpr std::uint64_t my_nz = 2;
  std::vector<double> padded((my_nz + 2) * (ny + 2) * (nx + 2), 1.0);
  std::array<std::vector<double>, 2> fields{std::vector<double>(my_nz * ny * nx, 3.0),
                                            std::vector<double>(my_nz * ny * nx, 4.0)};
  std::size_t present = 0;

  reprieve::DistributedLayout layout =
      reprieve::with_ghost_layers({nz, ny, nx}, {z0, 0, 0}, {my_nz, ny, nx}, {1, 1, 1}, sizeof(double));
  state.add_distributed("temperature", padded, layout);  // std::vector<double>, ghost layers included

  state.add_distributed("pressure", [&]() -> std::vector<double>& { return fields[present]; },
                        {.global_shape = {nz, ny, nx}, .offset = {z0, 0, 0}, .extent = {my_nz, ny, nx}});

  state.annotate("temperature", {.units = "K", .description = "temperature of the air", .dims = {"z", "y", "x"}});

  present = 1;
  save_and_restore([&] {
    std::ranges::fill(padded, 0.0);
    std::ranges::fill(fields[0], 0.0);
    std::ranges::fill(fields[1], 0.0);
    present = 0;
  });
  EXPECT_EQ(padded[reprieve::first_interior_index({my_nz, ny, nx}, {1, 1, 1})], 1.0);
  EXPECT_EQ(std::accumulate(padded.begin(), padded.end(), 0.0), my_nz * ny * nx) << "the ghost layers stay";
  EXPECT_EQ(fields[0], std::vector<double>(my_nz * ny * nx, 4.0));
  EXPECT_EQ(fields[1], std::vector<double>(my_nz * ny * nx, 0.0));
}

TEST_F(StatePage, NodesOnBorders) {
  constexpr std::uint64_t my_nx = 3;
  constexpr std::uint64_t ny = 2;
  const std::uint64_t nx = my_nx * size();
  const std::uint64_t x0 = my_nx * rank();
  const std::vector<double> own((my_nx + 1) * ny, 1 + 1e-12 * world_rank());
  std::vector<double> faces = own;

  state.add_distributed("velocity", faces,
                        {.global_shape = {nx + 1, ny}, .offset = {x0, 0}, .extent = {my_nx + 1, ny}});
  state.allow_shared("velocity");

  save_and_restore([&] { std::ranges::fill(faces, 0.0); });
  EXPECT_EQ(faces, own);
}

TEST_F(StatePage, Blocks) {
  struct Block {
    std::uint64_t number;
    std::vector<double> data;
  };
  constexpr std::uint64_t cells = 8;
  std::vector<std::uint64_t> tree(3 * size());
  std::iota(tree.begin(), tree.end(), std::uint64_t{0});
  const std::uint64_t blocks_in_all = tree.size();
  std::vector<Block> blocks;
  const auto make_blocks = [&] {
    blocks.clear();
    for (const std::uint64_t number : tree) {
      if (number % size() == rank()) {
        blocks.push_back({number, std::vector<double>(cells)});
      }
    }
  };

  state.add_replicated("tree", tree);
  state.when_values_restored([&] { make_blocks(); });  // from the tree, for this rank among so many as there are now
  state.add_distributed("density", [&] {
    reprieve::DistributedArray array{reprieve::element_type_of<double>(), {blocks_in_all, cells}, {}};
    for (Block& block : blocks) {
      array.boxes.push_back({reinterpret_cast<std::byte*>(block.data.data()), {block.number, 0}, {1, cells}});
    }
    return array;
  });

  make_blocks();
  for (Block& block : blocks) {
    std::ranges::fill(block.data, static_cast<double>(block.number));
  }
  save_and_restore([&] {
    tree.clear();
    blocks.clear();
  });
  EXPECT_EQ(blocks.size(), 3U);
  for (const Block& block : blocks) {
    EXPECT_EQ(block.data, std::vector<double>(cells, static_cast<double>(block.number)));
  }
}

TEST_F(StatePage, StructsWithMembers) {
  const std::vector<Atom> before{{{1, 2, 3}, world_rank()}, {{4, 5, 6}, -1}};
  std::vector<Atom> atoms = before;
  state.add_per_rank("atoms", atoms);
  save_and_restore([&] { atoms.clear(); });
  EXPECT_EQ(atoms, before);
}

std::vector<Particle> some_particles() {
  std::vector<Particle> particles;
  for (int i = 0; i < 5 + world_rank(); ++i) {
    particles.push_back({(world_rank() + 0.1 * i) / world_size(), 100 * world_rank() + i});
  }
  return particles;
}

TEST_F(StatePage, Particles) {
  std::vector<Particle> particles = some_particles();
  std::vector<Particle> tracers = some_particles();

  state.add_per_rank("particles", particles,
                     reprieve::by_owner<std::vector<Particle>>([](const Particle& particle, int size) {
                       return std::min(static_cast<int>(particle.x * size), size - 1);
                     }));
  state.add_per_rank("tracers", tracers, reprieve::in_order<std::vector<Particle>>());

  save_and_restore([&] {
    particles.clear();
    tracers.clear();
  });
  EXPECT_EQ(particles, some_particles());
  EXPECT_EQ(tracers, some_particles());
}

TEST_F(StatePage, StructsAndContainers) {
  std::vector<Particle> particles = some_particles();
  std::map<std::string, std::vector<double>> settings{{"a", {1, 2}}, {"b", {}}};
  std::mt19937_64 engine(rank());
  const std::mt19937_64 saved_engine = engine;

  state.add_per_rank("particle/x", reprieve::member_view(std::span(particles), &Particle::x));
  state.add_replicated("settings", settings);  // std::map<std::string, std::vector<double>>
  state.add_per_rank("engine", engine);        // std::mt19937_64

  save_and_restore([&] {
    for (Particle& particle : particles) {
      particle.x = -1;
    }
    settings.clear();
    engine.discard(1000);
  });
  EXPECT_EQ(particles, some_particles());
  EXPECT_EQ(settings.at("a"), (std::vector<double>{1, 2}));
  EXPECT_EQ(engine, saved_engine);
}

TEST_F(StatePage, ATypeOfTheProgram) {
  Mesh mesh{{1.5, 2.5}, {{world_rank(), {1, 2}}}};
  state.add_per_rank("mesh", mesh);
  save_and_restore([&] { mesh = {}; });
  EXPECT_EQ(mesh.x, (std::vector<double>{1.5, 2.5}));
  EXPECT_EQ(mesh.neighbours, (std::map<int, std::vector<int>>{{world_rank(), {1, 2}}}));
}

TEST_F(StatePage, AnEngineOnAnotherNumberOfRanks) {
  std::mt19937_64 engine(17);
  engine.discard(3);
  const std::mt19937_64 saved_engine = engine;

  state.add_per_rank<std::mt19937_64>(
      "engine", engine, [](const reprieve::PerRankPieces& saved, int rank, int, std::mt19937_64& mine) {
        reprieve::Serializer<std::mt19937_64>::load(mine, saved.bytes(rank % saved.count()));
        if (rank >= saved.count()) {  // a new rank: numbers of its own
          mine.seed(mine() + static_cast<std::uint64_t>(rank));
        }
      });

  if (world_rank() == 0) {
    CheckpointManager(MPI_COMM_SELF, state, directory_ / "run").save(1);
  }
  engine.seed(1);
  MPI_Barrier(MPI_COMM_WORLD);
  CheckpointManager manager(MPI_COMM_WORLD, state, directory_ / "run");
  ASSERT_TRUE(manager.restore_or_initialize());
  std::mt19937_64 expected = saved_engine;
  if (world_rank() > 0) {
    expected.seed(expected() + rank());
  }
  EXPECT_EQ(engine, expected);
}

TEST_F(StatePage, ComponentsAndOtherVersions) {
  double salinity = 35;
  double nu = 0.5;
  std::vector<int> counts{1, 2, 3};
  double temperature_celsius = 20;
  {
    Checkpoint older;
    older.add_replicated("nu", nu);
    older.add_replicated("statistics/counts", counts);
    older.add_replicated("temperature_celsius", temperature_celsius);
    older.add_replicated("ocean/salinity", salinity);
    CheckpointManager(MPI_COMM_WORLD, older, directory_ / "run").save(1);
  }
  salinity = 0;
  double viscosity = 0;
  double kelvin = 0;

  reprieve::Checkpoint ocean;
  ocean.add_replicated("salinity", salinity);
  state.add_component("ocean", std::move(ocean));  // ocean/salinity

  state.add_replicated("viscosity", viscosity);
  state.allow_missing("viscosity");          // older versions had none: it keeps the value it has
  state.add_former_name("viscosity", "nu");  // some called it so
  state.allow_dropped("statistics");         // newer ones have no use for it, and for what is below it
  state.on_migration([&](const reprieve::StoredState& stored) {
    if (stored.contains("temperature_celsius")) {  // makes what is new from what is old
      stored.read("temperature_celsius", kelvin);
      kelvin += 273.15;
    }
  });
  state.allow_dropped("temperature_celsius");

  CheckpointManager manager(MPI_COMM_WORLD, state, directory_ / "run");
  ASSERT_TRUE(manager.restore_or_initialize());
  EXPECT_EQ(salinity, 35);
  EXPECT_EQ(viscosity, 0.5);
  EXPECT_EQ(kelvin, 293.15);
}

}  // namespace
}  // namespace reprieve::test
