// SPDX-License-Identifier: BSD-3-Clause
// Heat in a square plate, cut into bands of rows, one per rank. With Reprieve: the lines that end with // +
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <reprieve/reprieve.hpp>  // +
#include <utility>
#include <vector>

constexpr int n = 400;  // points per side

// u has the band's rows, with a ghost row above and below.
void advance(std::vector<double>& u, std::vector<double>& next, unsigned rows, int up, int down) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  double* const ghost_below = &u[(rows + 1) * n];
  MPI_Sendrecv(&u[n], n, MPI_DOUBLE, up, 0, ghost_below, n, MPI_DOUBLE, down, 0, comm, MPI_STATUS_IGNORE);
  MPI_Sendrecv(ghost_below - n, n, MPI_DOUBLE, down, 1, &u[0], n, MPI_DOUBLE, up, 1, comm, MPI_STATUS_IGNORE);
  for (unsigned i = n; i < (rows + 1) * n; ++i) {
    const bool edge = i % n == 0 || i % n == n - 1;
    next[i] = edge ? 0 : 0.25 * (u[i - 1] + u[i + 1] + u[i - n] + u[i + n]);
  }
  std::swap(u, next);  // the state is the vector u, wherever its elements are
}

// The sum over the plate, added up in the same order on any number of ranks.
void print_sum(const std::vector<double>& u, unsigned rows, int rank, int size) {
  std::vector<double> plate(n * n);
  std::vector<int> counts, firsts;
  for (int r = 0; r < size; ++r) {
    firsts.push_back(n * (n * r / size));
    counts.push_back(n * (n * (r + 1) / size) - firsts.back());
  }
  MPI_Gatherv(&u[n], rows * n, MPI_DOUBLE, plate.data(), counts.data(), firsts.data(), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  double sum = 0;
  for (const double value : plate) {
    sum += value;
  }
  if (rank == 0) {
    std::printf("sum %.17g\n", sum);
  }
}

int main(int argc, char** argv) {
  reprieve::watch_signals();  // +
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const unsigned steps = argc > 1 ? std::atoi(argv[1]) : 20000;
  const unsigned first = n * rank / size;
  const unsigned rows = n * (rank + 1) / size - first;
  const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  std::vector<double> u((rows + 2) * n);
  for (unsigned i = 0; i < rows * n; ++i) {
    u[i + n] = (first + i / n) % 100 < 50 ? 1 : 0;  // warm and cold stripes
  }
  std::vector<double> next = u;

  {                                                                                                             // +
    reprieve::Checkpoint state;                                                                                 // +
    state.add_distributed("u", u,                                                                               // +
                          reprieve::with_ghost_layers({n, n}, {first, 0}, {rows, n}, {1, 0}, sizeof(double)));  // +
    reprieve::PreemptionCheckpointHandler handler(MPI_COMM_WORLD, state, "checkpoints");                        // +
    while (handler.total_run_calls() < steps) {                                                                 // +
      handler.run([&] { advance(u, next, rows, up, down); });                                                   // +
    }
    handler.finish();  // +
  }                    // +

  print_sum(u, rows, rank, size);
  MPI_Finalize();
}
