// SPDX-License-Identifier: BSD-3-Clause
// e2e_code_particles STEPS STEP_US: particles that move between ranks, in the shape of a molecular dynamics code in
// C++. Each rank has those in its strip of a periodic square, in lists, one for each cell of the strip.
//
// Rank 0 prints "restored N DIGEST" after a restore, "saved N DIGEST" after a preemption, and "final DIGEST" at the
// end. A particle feels a field and no other particle, so that the digest is the same on any number of ranks.

#include <mpi.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

struct Particle {
  double x, y, vx, vy;
  std::int64_t number;
};

}  // namespace

template <>
inline constexpr bool reprieve::enable_record<Particle> = true;

namespace {

constexpr std::int64_t kParticles = 5000;
constexpr std::size_t kCells = 16;
constexpr double kTurn = 6.283185307179586;

int rank_now() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int size_now() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

double wrapped(double x) { return x - std::floor(x); }

int owner_of(const Particle& particle, int size) { return std::min(static_cast<int>(particle.x * size), size - 1); }

class Cells {
 public:
  void push(const Particle& particle) {
    const auto cell = static_cast<std::size_t>(particle.y * static_cast<double>(kCells));
    lists_[std::min(cell, kCells - 1)].push_back(particle);
  }

  void clear() { lists_ = std::vector<std::list<Particle>>(kCells); }

  void for_each(const std::function<void(const Particle&)>& visit) const {
    for (const auto& list : lists_) {
      std::for_each(list.begin(), list.end(), visit);
    }
  }

 private:
  std::vector<std::list<Particle>> lists_{kCells};
};

Cells new_particles() {
  Cells cells;
  for (std::int64_t i = 0; i < kParticles; ++i) {
    const auto n = static_cast<double>(i);
    const Particle particle{wrapped(n * 0.754877666246693), wrapped(n * 0.569840290998053), std::cos(n),
                            std::sin(2 * n), i};
    if (owner_of(particle, size_now()) == rank_now()) {
      cells.push(particle);
    }
  }
  return cells;
}

/// Moves the particles, and sends each to the rank in whose strip it is now.
void advance(Cells& cells) {
  const int size = size_now();
  std::vector<std::vector<Particle>> leaving(static_cast<std::size_t>(size));
  cells.for_each([&](Particle p) {
    p.vx -= 1e-3 * std::sin(kTurn * p.x) * std::cos(kTurn * p.y);
    p.vy -= 1e-3 * std::sin(kTurn * p.y);
    p.x = wrapped(p.x + 0.01 * p.vx);
    p.y = wrapped(p.y + 0.01 * p.vy);
    leaving[static_cast<std::size_t>(owner_of(p, size))].push_back(p);
  });
  std::vector<Particle> sent;
  std::vector<int> send_counts;
  for (const auto& list : leaving) {
    sent.insert(sent.end(), list.begin(), list.end());
    send_counts.push_back(static_cast<int>(list.size() * sizeof(Particle)));
  }
  std::vector<int> counts(leaving.size());
  MPI_Alltoall(send_counts.data(), 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> send_at(leaving.size());
  std::vector<int> at(leaving.size());
  std::exclusive_scan(send_counts.begin(), send_counts.end(), send_at.begin(), 0);
  std::exclusive_scan(counts.begin(), counts.end(), at.begin(), 0);
  std::vector<Particle> mine(static_cast<std::size_t>(at.back() + counts.back()) / sizeof(Particle));
  MPI_Alltoallv(sent.data(), send_counts.data(), send_at.data(), MPI_BYTE, mine.data(), counts.data(), at.data(),
                MPI_BYTE, MPI_COMM_WORLD);
  cells.clear();
  for (const Particle& particle : mine) {
    cells.push(particle);
  }
}

void print(const std::string& what, const Cells& cells) {
  std::uint64_t digest = 0;
  cells.for_each([&](const Particle& p) {
    auto mixed = static_cast<std::uint64_t>(p.number) * 0x9e3779b97f4a7c15ULL;
    for (const double value : {p.x, p.y, p.vx, p.vy}) {
      mixed = (mixed ^ std::bit_cast<std::uint64_t>(value)) * 0xbf58476d1ce4e5b9ULL;
      mixed ^= mixed >> 31U;
    }
    digest += mixed;
  });
  std::uint64_t all = 0;
  MPI_Reduce(&digest, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank_now() == 0) {
    std::printf("%s %016llx\n", what.c_str(), static_cast<unsigned long long>(all));
    std::fflush(stdout);
  }
}

int run(std::uint64_t steps, std::chrono::microseconds pause) {
  Cells cells = new_particles();
  reprieve::Checkpoint state;
  reprieve::add_particles<Particle>(state, "particles",
                                    {.for_each = [&](const auto& visit) { cells.for_each(visit); },
                                     .clear = [&] { cells.clear(); },
                                     .push = [&](const Particle& particle) { cells.push(particle); },
                                     .owner = owner_of,
                                     .key = [](const Particle& particle) { return particle.number; }});
  reprieve::TerminationConfig config;
  config.save_every_steps = 50;
  config.exit_fn = reprieve::throw_preempted;
  std::uint64_t done = 0;
  try {
    reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, "checkpoints", config);
    done = handler.total_run_calls();
    if (handler.restored_from()) {
      print("restored " + std::to_string(done), cells);
    }
    while (done < steps) {
      handler.run([&] {
        advance(cells);
        std::this_thread::sleep_for(pause);
      });
      done = handler.total_run_calls();
    }
    handler.finish();
  } catch (const reprieve::Preempted& preempted) {
    print("saved " + std::to_string(done), cells);
    return preempted.exit_code();
  }
  print("final", cells);
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
