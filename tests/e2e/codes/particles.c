/* SPDX-License-Identifier: BSD-3-Clause */
/* e2e_code_particles STEPS STEP_US: particles that move between ranks, in the shape of a molecular dynamics code in C.
 * Each rank has those in its strip of a periodic square, in an array that is reallocated whenever particles come or go.
 *
 * Rank 0 prints "restored N DIGEST" after a restore, "saved N DIGEST" after a preemption, and "final DIGEST" at the
 * end. A particle feels a field and no other particle, so that the digest is the same on any number of ranks. */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <reprieve/reprieve.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { all_particles = 5000, numbers = 5 };

typedef struct {
  double x, y, vx, vy, name;
} particle;

typedef struct {
  particle* list;
  int64_t count;
} particles;

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, reprieve_last_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The old array is freed: what was registered as an address would be saved as garbage. */
static void resize(particles* mine, int64_t count) {
  particle* list = malloc(sizeof(particle) * (size_t)(count + 1));
  if (list == NULL) {
    abort();
  }
  if (mine->list != NULL) {
    memcpy(list, mine->list, sizeof(particle) * (size_t)(count < mine->count ? count : mine->count));
    memset(mine->list, 0xff, sizeof(particle) * (size_t)mine->count);
    free(mine->list);
  }
  mine->list = list;
  mine->count = count;
}

static int memory(int64_t wanted, void** data, int64_t* count, void* user) {
  particles* mine = user;
  if (wanted >= 0) {
    resize(mine, wanted);
  }
  *data = mine->list;
  *count = mine->count;
  return 0;
}

static int owner_of(double x, int size) {
  int rank = (int)(x * size);
  return rank < size ? rank : size - 1;
}

/* On another number of ranks: each takes the particles in its strip, whoever had them. */
static int redistribute(reprieve_pieces* pieces, int rank, int size, void* user) {
  particles* mine = user;
  resize(mine, 0);
  for (int saved = 0; saved < reprieve_pieces_count(pieces); ++saved) {
    size_t bytes = 0;
    int status = reprieve_pieces_size(pieces, saved, &bytes);
    particle* list = malloc(bytes + 1);
    if (status == REPRIEVE_OK && list != NULL) {
      status = reprieve_pieces_read(pieces, saved, list, bytes);
    }
    for (size_t i = 0; status == REPRIEVE_OK && i < bytes / sizeof(particle); ++i) {
      if (owner_of(list[i].x, size) == rank) {
        resize(mine, mine->count + 1);
        mine->list[mine->count - 1] = list[i];
      }
    }
    free(list);
    if (status != REPRIEVE_OK) {
      return status;
    }
  }
  return 0;
}

static double wrapped(double x) { return x - floor(x); }

static void move(particles* mine) {
  for (int64_t i = 0; i < mine->count; ++i) {
    particle* p = &mine->list[i];
    p->vx -= 1e-3 * sin(6.283185307179586 * p->x) * cos(6.283185307179586 * p->y);
    p->vy -= 1e-3 * sin(6.283185307179586 * p->y);
    p->x = wrapped(p->x + 0.01 * p->vx);
    p->y = wrapped(p->y + 0.01 * p->vy);
  }
}

/* Sends every particle to the rank in whose strip it is now. */
static void migrate(particles* mine, int size) {
  int* leaving = calloc((size_t)size * 4, sizeof(int));
  if (leaving == NULL) {
    abort();
  }
  int *coming = leaving + size, *leave_at = coming + size, *come_at = leave_at + size;
  for (int64_t i = 0; i < mine->count; ++i) {
    leaving[owner_of(mine->list[i].x, size)] += numbers;
  }
  MPI_Alltoall(leaving, 1, MPI_INT, coming, 1, MPI_INT, MPI_COMM_WORLD);
  int all_coming = coming[0];
  for (int r = 1; r < size; ++r) {
    leave_at[r] = leave_at[r - 1] + leaving[r - 1];
    come_at[r] = come_at[r - 1] + coming[r - 1];
    all_coming += coming[r];
  }
  particle* sorted = malloc(sizeof(particle) * (size_t)(mine->count + 1));
  int* next = calloc((size_t)size, sizeof(int));
  if (sorted == NULL || next == NULL) {
    abort();
  }
  for (int64_t i = 0; i < mine->count; ++i) {
    int r = owner_of(mine->list[i].x, size);
    sorted[leave_at[r] / numbers + next[r]++] = mine->list[i];
  }
  resize(mine, all_coming / numbers);
  MPI_Alltoallv(sorted, leaving, leave_at, MPI_DOUBLE, mine->list, coming, come_at, MPI_DOUBLE, MPI_COMM_WORLD);
  free(sorted);
  free(next);
  free(leaving);
}

static uint64_t bits_of(double value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* The same in whatever order, and on whatever ranks, the particles are. */
static void print_state(const char* what, const particles* mine, int rank) {
  uint64_t digest = 0, all = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < mine->count; ++i) {
    const particle* p = &mine->list[i];
    uint64_t mixed = bits_of(p->name);
    const double values[] = {p->x, p->y, p->vx, p->vy};
    for (int d = 0; d < 4; ++d) {
      mixed = (mixed ^ bits_of(values[d])) * 0x9e3779b97f4a7c15u;
      mixed ^= mixed >> 29;
    }
    digest += mixed;
  }
  MPI_Reduce(&digest, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine->count, &count, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s %016" PRIx64 " of %" PRId64 "\n", what, all, count);
    fflush(stdout);
  }
}

static void begin(particles* mine, int rank, int size) {
  for (int i = 0; i < all_particles; ++i) {
    particle p = {wrapped(i * 0.754877666246693), wrapped(i * 0.569840290998053), cos(i), sin(2.0 * i), i};
    if (owner_of(p.x, size) == rank) {
      resize(mine, mine->count + 1);
      mine->list[mine->count - 1] = p;
    }
  }
}

int main(int argc, char** argv) {
  reprieve_watch_signals();
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
  useconds_t pause = argc > 2 ? (useconds_t)strtoul(argv[2], NULL, 10) : 0;
  particles mine = {NULL, 0};
  begin(&mine, rank, size);

  reprieve_checkpoint* state = NULL;
  reprieve_config* config = NULL;
  reprieve_handler* handler = NULL;
  if (reprieve_checkpoint_create(&state) != REPRIEVE_OK || reprieve_config_create(&config) != REPRIEVE_OK) {
    fail("setting up");
  }
  reprieve_add_per_rank_resizable(state, "particles", REPRIEVE_DOUBLE, numbers, memory, redistribute, &mine);
  reprieve_config_set(config, "termination.save_every_steps", "50");
  reprieve_config_set_exit(config, REPRIEVE_EXIT_RETURN);
  int status = reprieve_handler_open(MPI_COMM_WORLD, state, "checkpoints", config, &handler);
  if (status != REPRIEVE_OK) {
    fail("opening");
  }
  char what[64];
  int restored = 0;
  if (reprieve_restored_from(handler, &restored, NULL) == REPRIEVE_OK && restored) {
    snprintf(what, sizeof what, "restored %" PRIu64, reprieve_total_run_calls(handler));
    print_state(what, &mine, rank);
  }

  while (reprieve_next_step(handler, steps, &status)) {
    move(&mine);
    migrate(&mine, size);
    usleep(pause);
  }

  int code = 0;
  if (status == REPRIEVE_PREEMPTED) {
    snprintf(what, sizeof what, "saved %" PRIu64, reprieve_total_run_calls(handler));
    print_state(what, &mine, rank);
    reprieve_exit_code(handler, &code);
  } else if (status != REPRIEVE_OK) {
    fail("the loop");
  } else {
    print_state("final", &mine, rank);
  }
  reprieve_handler_close(&handler);
  reprieve_config_destroy(&config);
  reprieve_checkpoint_destroy(&state);
  free(mine.list);
  MPI_Finalize();
  return code;
}
