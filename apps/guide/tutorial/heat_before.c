/* SPDX-License-Identifier: BSD-3-Clause */
/* Heat in a square plate, cut into bands of rows, one per rank. Before Reprieve. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { n = 400 }; /* points per side */

/* u has the band's rows, with a ghost row above and below. The two arrays change places. */
static void advance(double** present, double** other, int rows, int up, int down) {
  MPI_Comm comm = MPI_COMM_WORLD;
  double *u = *present, *next = *other;
  double* ghost_below = u + (rows + 1) * n;
  MPI_Sendrecv(u + n, n, MPI_DOUBLE, up, 0, ghost_below, n, MPI_DOUBLE, down, 0, comm, MPI_STATUS_IGNORE);
  MPI_Sendrecv(ghost_below - n, n, MPI_DOUBLE, down, 1, u, n, MPI_DOUBLE, up, 1, comm, MPI_STATUS_IGNORE);
  for (int i = n; i < (rows + 1) * n; ++i) {
    int edge = i % n == 0 || i % n == n - 1;
    next[i] = edge ? 0 : 0.25 * (u[i - 1] + u[i + 1] + u[i - n] + u[i + n]);
  }
  *present = next;
  *other = u;
}

/* The sum over the plate, added up in the same order on any number of ranks. */
static void print_sum(const double* u, int rows, int rank, int size) {
  double* plate = calloc((size_t)n * n, sizeof(double));
  int* counts = calloc((size_t)size, sizeof(int));
  int* firsts = calloc((size_t)size, sizeof(int));
  for (int r = 0; r < size; ++r) {
    firsts[r] = n * (n * r / size);
    counts[r] = n * (n * (r + 1) / size) - firsts[r];
  }
  MPI_Gatherv(u + n, rows * n, MPI_DOUBLE, plate, counts, firsts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  double sum = 0;
  for (int i = 0; i < n * n; ++i) {
    sum += plate[i];
  }
  if (rank == 0) {
    printf("sum %.17g\n", sum);
  }
  free(plate);
  free(counts);
  free(firsts);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  unsigned steps = argc > 1 ? (unsigned)atoi(argv[1]) : 20000;
  int first = n * rank / size;
  int rows = n * (rank + 1) / size - first;
  int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  int down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  double* u = calloc((size_t)(rows + 2) * n, sizeof(double));
  double* next = calloc((size_t)(rows + 2) * n, sizeof(double));
  for (int i = 0; i < rows * n; ++i) {
    u[i + n] = (first + i / n) % 100 < 50 ? 1 : 0; /* warm and cold stripes */
  }

  for (unsigned step = 0; step < steps; ++step) {
    advance(&u, &next, rows, up, down);
  }

  print_sum(u, rows, rank, size);
  free(u);
  free(next);
  MPI_Finalize();
  return 0;
}
