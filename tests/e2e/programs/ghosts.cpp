// SPDX-License-Identifier: BSD-3-Clause
// e2e_ghosts DIR STEPS STEP_MS [FAULT]: diffusion on a ring of cells, with one ghost cell on each side of a rank's
// part. The cells are registered, the ghost cells are not.
//
//   (none)          the ghost cells are exchanged at the begin of each step: a restore needs nothing more
//   exchange_late   at the end of each step, so that the first step after a restore uses what is not restored
//   random          with a source that is another one in each start
//   rounding        the last bits depend on the number of ranks
//   no_finish       without finish() at the end

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "reprieve/reprieve.hpp"

namespace {

constexpr std::uint64_t kCells = 60;

class Ring {
 public:
  explicit Ring(const std::string& fault) : exchanges_late_(fault == "exchange_late"), rounds_(fault == "rounding") {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    const auto ranks = static_cast<std::uint64_t>(size_);
    first_ = kCells * static_cast<std::uint64_t>(rank_) / ranks;
    count_ = kCells * (static_cast<std::uint64_t>(rank_) + 1) / ranks - first_;
    cells_.resize(count_ + 2);
    for (std::uint64_t i = 1; i <= count_; ++i) {
      cells_[i] = static_cast<double>((first_ + i) % 7);
    }
    exchange();
    if (fault == "random") {
      source_ = std::uniform_real_distribution<double>(0, 1)(device_);
    }
  }

  void add_to(reprieve::Checkpoint& state) {
    state.add_distributed("cells", cells_,
                          reprieve::with_ghost_layers({kCells}, {first_}, {count_}, {1}, sizeof(double)));
  }

  void step() {
    if (!exchanges_late_) {
      exchange();
    }
    std::vector<double> next = cells_;
    for (std::uint64_t i = 1; i <= count_; ++i) {
      next[i] = cells_[i] + 0.1 * (cells_[i - 1] - 2 * cells_[i] + cells_[i + 1]) + source_;
    }
    cells_.swap(next);
    if (rounds_) {
      round();
    }
    if (exchanges_late_) {
      exchange();
    }
  }

 private:
  /// What another order of sums does as well, but not each time.
  void round() {
    for (std::uint64_t i = 1; i <= count_; ++i) {
      cells_[i] *= 1 + 1e-13 * size_;
    }
  }

  void exchange() {
    const int left = (rank_ + size_ - 1) % size_;
    const int right = (rank_ + 1) % size_;
    MPI_Sendrecv(&cells_[1], 1, MPI_DOUBLE, left, 0, &cells_[count_ + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&cells_[count_], 1, MPI_DOUBLE, right, 1, cells_.data(), 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }

  bool exchanges_late_;
  bool rounds_;
  int rank_ = 0;
  int size_ = 1;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
  std::vector<double> cells_;
  std::random_device device_;
  double source_ = 0;
};

void run(const std::string& directory, std::uint64_t steps, std::chrono::milliseconds step_time,
         const std::string& fault) {
  Ring ring(fault);
  reprieve::Checkpoint state;
  ring.add_to(state);
  reprieve::TerminationConfig config;
  config.save_every_steps = 3;
  reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, directory, config);
  while (handler.total_run_calls() < steps) {
    handler.run([&] {
      ring.step();
      std::this_thread::sleep_for(step_time);
    });
  }
  if (fault != "no_finish") {
    handler.finish();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: e2e_ghosts DIR STEPS STEP_MS [FAULT]\n";
    return 2;
  }
  MPI_Init(&argc, &argv);
  try {
    run(argv[1], std::stoull(argv[2]), std::chrono::milliseconds(std::stoull(argv[3])), argc > 4 ? argv[4] : "");
  } catch (const std::exception& error) {
    std::cerr << "e2e_ghosts: " << error.what() << std::endl;
    return 3;  // without MPI_Finalize, which would wait for ranks that are gone
  }
  MPI_Finalize();
  return 0;
}
