// SPDX-License-Identifier: BSD-3-Clause
// e2e_code_nodes STEPS STEP_US: an unstructured mesh, in the shape of a finite-element code in C++. Each rank has
// elements (triangles), and the nodes that these touch. A node on the border of several ranks has a copy on each of
// them, and the copies differ in their last bits: every rank adds its own part of a force first, the others' after it.
//
// Rank 0 prints "restored N DIGEST" after a restore, "saved N DIGEST" after a preemption, and "final DIGEST" at the
// end. The digest is of the owners' nodes (the lowest rank that has a node owns it); "copies DIGEST" is of all.

#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

constexpr int kNodes = 900;
constexpr int kElements = 1700;

using Element = std::array<int, 3>;

/// The same on all ranks, and of no order that a grid would have.
std::vector<Element> make_mesh() {
  std::vector<Element> elements;
  std::uint64_t random = 88172645463325252ULL;
  const auto next = [&random](int below) {
    random ^= random << 13U;
    random ^= random >> 7U;
    random ^= random << 17U;
    return static_cast<int>(random % static_cast<std::uint64_t>(below));
  };
  for (int e = 0; e < kElements; ++e) {
    const int local = e * kNodes / kElements;
    Element nodes{};
    for (int& node : nodes) {
      node = std::clamp(local + next(60) - 30, 0, kNodes - 1);
    }
    elements.push_back(nodes);
  }
  return elements;
}

class Mesh {
 public:
  Mesh() : all_(make_mesh()), position_(kNodes), speed_(kNodes), has_(kNodes), lowest_(kNodes, -1) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (int rank = size_ - 1; rank >= 0; --rank) {
      for (int e = kElements * rank / size_; e < kElements * (rank + 1) / size_; ++e) {
        for (const int node : all_[static_cast<std::size_t>(e)]) {
          lowest_[static_cast<std::size_t>(node)] = rank;
          has_[static_cast<std::size_t>(node)] = has_[static_cast<std::size_t>(node)] || rank == rank_;
        }
      }
    }
    for (std::size_t node = 0; node < kNodes; ++node) {
      position_[node] = has_[node] ? std::sin(static_cast<double>(node)) : 0;
    }
  }

  void add_to(reprieve::Checkpoint& state) {
    for (const auto& [name, values] : {std::pair{"position", &position_}, std::pair{"speed", &speed_}}) {
      state.add_distributed(name, [this, values = values] { return boxes(*values); });
      state.allow_shared(name);
    }
  }

  void advance() {
    std::vector<double> mine(kNodes);
    for (int e = kElements * rank_ / size_; e < kElements * (rank_ + 1) / size_; ++e) {
      const Element& nodes = all_[static_cast<std::size_t>(e)];
      double mean = 0;
      for (const int node : nodes) {
        mean += position_[static_cast<std::size_t>(node)] / 3;
      }
      for (const int node : nodes) {
        mine[static_cast<std::size_t>(node)] += mean - position_[static_cast<std::size_t>(node)];
      }
    }
    std::vector<double> all(kNodes * static_cast<std::size_t>(size_));
    MPI_Allgather(mine.data(), kNodes, MPI_DOUBLE, all.data(), kNodes, MPI_DOUBLE, MPI_COMM_WORLD);
    for (std::size_t node = 0; node < kNodes; ++node) {
      if (!has_[node]) {
        continue;
      }
      speed_[node] = 0.999 * speed_[node] + 0.01 * mine[node];
      for (int other = 0; other < size_; ++other) {
        speed_[node] += other == rank_ ? 0 : 0.01 * all[static_cast<std::size_t>(other) * kNodes + node];
      }
      position_[node] += 0.1 * speed_[node];
    }
    // As codes do that swap their arrays: the memory of the nodes is another one after each step.
    position_ = std::vector<double>(position_);
    speed_ = std::vector<double>(speed_);
  }

  void print(const std::string& what, bool with_copies) const {
    std::array<std::uint64_t, 2> mine{};
    for (std::size_t node = 0; node < kNodes; ++node) {
      for (const double value : {position_[node], speed_[node]}) {
        const auto mixed = (std::bit_cast<std::uint64_t>(value) ^ (node << 20U)) * 0x9e3779b97f4a7c15ULL;
        mine[0] += lowest_[node] == rank_ ? mixed ^ (mixed >> 31U) : 0;
        mine[1] += has_[node] ? (mixed ^ (mixed >> 31U)) * static_cast<std::uint64_t>(2 * rank_ + 1) : 0;
      }
    }
    std::array<std::uint64_t, 2> all{};
    MPI_Reduce(mine.data(), all.data(), 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank_ == 0) {
      std::printf("%s %016llx", what.c_str(), static_cast<unsigned long long>(all[0]));
      if (with_copies) {
        std::printf(" copies %016llx", static_cast<unsigned long long>(all[1]));
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }

  /// How many of this rank's copies differ from the copy of their owner.
  [[nodiscard]] int differing_copies() const {
    std::vector<double> owners(kNodes);
    for (std::size_t node = 0; node < kNodes; ++node) {
      owners[node] = lowest_[node] == rank_ ? position_[node] : 0;
    }
    MPI_Allreduce(MPI_IN_PLACE, owners.data(), kNodes, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int differ = 0;
    for (std::size_t node = 0; node < kNodes; ++node) {
      differ += has_[node] && owners[node] != position_[node] ? 1 : 0;
    }
    MPI_Allreduce(MPI_IN_PLACE, &differ, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return differ;
  }

 private:
  /// One box for each run of nodes that follow one another.
  [[nodiscard]] reprieve::DistributedArray boxes(std::vector<double>& values) const {
    reprieve::DistributedArray array{reprieve::element_type_of<double>(), {kNodes}, {}};
    for (std::size_t node = 0; node < kNodes;) {
      std::size_t end = node;
      while (end < kNodes && has_[end]) {
        ++end;
      }
      if (end > node) {
        array.boxes.push_back({reinterpret_cast<std::byte*>(&values[node]), {node}, {end - node}});
      }
      node = end + 1;
    }
    return array;
  }

  std::vector<Element> all_;
  std::vector<double> position_;
  std::vector<double> speed_;
  std::vector<bool> has_;
  std::vector<int> lowest_;
  int rank_ = 0;
  int size_ = 1;
};

int run(std::uint64_t steps, std::chrono::microseconds pause) {
  Mesh mesh;
  reprieve::Checkpoint state;
  mesh.add_to(state);
  reprieve::TerminationConfig config;
  config.save_every_steps = 50;
  config.exit_fn = reprieve::throw_preempted;
  std::uint64_t done = 0;
  try {
    reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, "checkpoints", config);
    done = handler.total_run_calls();
    if (handler.restored_from()) {
      mesh.print("restored " + std::to_string(done), false);
    }
    while (handler.total_run_calls() < steps) {
      handler.run([&] {
        mesh.advance();
        std::this_thread::sleep_for(pause);
      });
      done = handler.total_run_calls();
    }
    handler.finish();
  } catch (const reprieve::Preempted& preempted) {
    mesh.print("saved " + std::to_string(done), false);
    return preempted.exit_code();
  }
  mesh.print("final", true);
  const int differing = mesh.differing_copies();
  if (int rank = 0; MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0) {
    std::printf("copies that differ from their owner's: %s\n", differing > 0 ? "some" : "none");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  reprieve::watch_signals();
  MPI_Init(&argc, &argv);
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const std::chrono::microseconds pause(argc > 2 ? std::strtol(argv[2], nullptr, 10) : 0);
  const int code = run(steps, pause);
  MPI_Finalize();
  return code;
}
