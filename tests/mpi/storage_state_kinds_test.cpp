// SPDX-License-Identifier: BSD-3-Clause
// State as codes have it: particles, other versions of the program.

#include <algorithm>
#include <array>
#include <functional>
#include <list>
#include <set>

#include "reprieve/reprieve.hpp"
#include "storage_fixture.hpp"

namespace reprieve {

struct Particle {
  double position;
  std::int64_t id;
  friend bool operator==(const Particle&, const Particle&) = default;
};
template <>
inline constexpr bool enable_record<Particle> = true;

namespace storage {
namespace {

using test::world_rank;
using test::world_size;

class StateKinds : public StorageTest {};

TEST_F(StateKinds, ParticlesGoToTheirOwnersWithAllTheirLists) {
  REPRIEVE_NEEDS_RANKS(2);
  using Numbers = std::vector<double>;
  on_ranks(world_size(), [&](cluster::Communicator& comm) {
    Numbers x;
    Numbers v;
    for (int i = 0; i < 10; ++i) {
      x.push_back((i + 0.5) / 10);
      v.insert(v.end(), {x.back() + comm.rank(), -x.back()});
    }
    Checkpoint state;
    state.add_per_rank("gas/x", x);
    state.add_per_rank("gas/v", v);
    save(comm, state);
  });
  on_ranks(world_size() - 1, [&](cluster::Communicator& comm) {
    const auto owner = [](const double& position, int size) { return static_cast<int>(position * size); };
    Numbers x;
    Numbers v;
    Checkpoint gas;
    gas.add_per_rank("x", x, by_owner<Numbers>(owner));
    gas.add_per_rank("v", v,
                     by_owners<Numbers>(
                         [&owner](const PerRankPieces& pieces, int saved_rank, int size) {
                           std::vector<int> owners;
                           for (const double position : values_of<double>(pieces.of("gas/x"), saved_rank)) {
                             owners.push_back(owner(position, size));
                           }
                           return owners;
                         },
                         2));
    Checkpoint state;
    state.add_component("gas", std::move(gas));
    restore(comm, state);
    ASSERT_EQ(v.size(), 2 * x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(owner(x[i], comm.size()), comm.rank());
      EXPECT_EQ(v[2 * i + 1], -x[i]);
    }
  });
}

/// Particles in lists, one for each parity, in the reverse order of their arrival.
struct Lists {
  using Owner = std::function<int(const Particle&, int)>;

  std::array<std::list<Particle>, 2> lists;

  void push(const Particle& particle) { lists.at(static_cast<std::size_t>(particle.id % 2)).push_front(particle); }
  void visit(const std::function<void(const Particle&)>& visitor) const {
    for (const auto& list : lists) {
      std::for_each(list.begin(), list.end(), visitor);
    }
  }
  void add_to(Checkpoint& state, Owner owner) {
    add_particles<Particle>(state, "particles",
                            {.for_each = [this](const auto& visitor) { visit(visitor); },
                             .clear = [this] { lists = {}; },
                             .push = [this](const Particle& particle) { push(particle); },
                             .owner = std::move(owner),
                             .key = [](const Particle& particle) { return particle.id; }});
  }
};

/// Without an owner the parts show that the particles were saved in the order of their keys.
TEST_F(StateKinds, ParticlesInAnyContainerComeBackOnAnyNumberOfRanks) {
  REPRIEVE_NEEDS_RANKS(3);
  const Lists::Owner dealt = [](const Particle& particle, int size) { return static_cast<int>(particle.id % size); };
  on_ranks(3, [&](cluster::Communicator& comm) {
    Checkpoint state;
    Lists particles;
    particles.add_to(state, dealt);
    for (int i = 0; i < 8; ++i) {
      const int id = 8 * comm.rank() + (5 * i) % 8;
      particles.push({0.5 * id, id});
    }
    save(comm, state);
  });
  for (int size = 1; size <= world_size(); ++size) {
    for (const bool with_owner : {true, false}) {
      on_ranks(size, [&](cluster::Communicator& comm) {
        Checkpoint state;
        Lists particles;
        particles.add_to(state, with_owner ? dealt : Lists::Owner());
        particles.push({-1, 77});
        restore(comm, state);
        std::set<std::int64_t> found;
        particles.visit([&](const Particle& particle) {
          EXPECT_EQ(particle.position, 0.5 * static_cast<double>(particle.id));
          EXPECT_TRUE(found.insert(particle.id).second);
        });
        std::set<std::int64_t> expected;
        for (int id = 0; id < 24; ++id) {
          if ((with_owner && size != 3 ? id % size : id * size / 24) == comm.rank()) {
            expected.insert(id);
          }
        }
        EXPECT_EQ(found, expected) << size << " ranks, with owner: " << with_owner;
      });
    }
  }
  Checkpoint state;
  EXPECT_THROW(add_particles<Particle>(state, "particles", {.clear = [] {}}), UsageError);
}

/// Version 1 had one temperature in single precision, and a counter; version 2 has it in double, with a pressure.
TEST_F(StateKinds, AnOlderVersionsStateIsTakenOver) {
  const auto size = static_cast<std::uint64_t>(world_size());
  const auto rank = static_cast<std::uint64_t>(world_rank());
  const DistributedLayout layout{{4 * size}, {4 * rank}, {4}};
  std::vector<float> temperature(4, 20.5F + static_cast<float>(rank));
  std::vector<int> seeds{world_rank()};
  int counter = 17;
  {
    Checkpoint version_1;
    version_1.add_distributed("T", temperature.data(), layout);
    version_1.add_replicated("counter", counter);
    version_1.add_per_rank("seeds", seeds);
    save(world, version_1);
  }
  std::vector<double> precise(4);
  std::vector<double> pressure(4, 1.0);
  int steps = 0;
  Checkpoint state;
  state.add_distributed("temperature", precise.data(), layout);
  state.add_distributed("pressure", pressure.data(), layout);
  state.add_replicated("steps", steps);
  state.allow_missing("temperature");
  state.allow_missing("pressure");
  state.add_former_name("steps", "counter");
  state.allow_dropped("T");
  state.allow_dropped("seeds");
  int migrations = 0;
  state.on_migration([&](const StoredState& stored) {
    ++migrations;
    ASSERT_TRUE(stored.contains("T"));
    EXPECT_EQ(stored.type("T"), element_type_of<float>());
    std::vector<float> old(4);
    DistributedArray box{element_type_of<float>(), stored.shape("T"), {}};
    box.boxes.push_back({reinterpret_cast<std::byte*>(old.data()), layout.offset, layout.extent});
    stored.read_distributed("T", box);
    std::copy(old.begin(), old.end(), precise.begin());
    int old_counter = 0;
    stored.read("counter", old_counter);
    EXPECT_EQ(old_counter, 17);
    double wrong_type = 0;
    EXPECT_THROW(stored.read("counter", wrong_type), MismatchError);
    EXPECT_EQ(values_of<int>(stored.pieces("seeds"), 0), std::vector<int>{0});
    EXPECT_THROW(static_cast<void>(stored.pieces("T")), UsageError);
    EXPECT_THROW(static_cast<void>(stored.type("nothing")), UsageError);
    EXPECT_THROW(static_cast<void>(stored.shape("seeds")), UsageError);
  });
  restore(world, state);
  EXPECT_EQ(migrations, 1);
  EXPECT_EQ(steps, 17);
  EXPECT_EQ(precise, std::vector<double>(4, 20.5 + static_cast<double>(rank)));
  EXPECT_EQ(pressure, std::vector<double>(4, 1.0));

  save(world, state);
  restore(world, state);
  EXPECT_EQ(migrations, 1) << "nothing was missing the second time";
}

}  // namespace
}  // namespace storage
}  // namespace reprieve
