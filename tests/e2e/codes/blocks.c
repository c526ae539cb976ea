/* SPDX-License-Identifier: BSD-3-Clause */
/* e2e_code_blocks STEPS STEP_US: an adaptive mesh in the shape of codes in C: a linked list of blocks, each with lists
 * of its own, which are allocated again whenever a block is refined or coarsened. Block n belongs to rank n modulo
 * their number.
 *
 * Rank 0 prints "restored N DIGEST" after a restore, "saved N DIGEST" after a preemption, and "final DIGEST" at the
 * end. A block knows nothing of the others, so that the digest is the same on any number of ranks. */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reprieve/reprieve.h"

enum { kBlocks = 61, kLeastCells = 16 };

typedef struct Block {
  int number;
  int level;
  double* cells; /* kLeastCells << level */
  int64_t cell_count;
  int32_t* steps; /* at which it was refined or coarsened */
  int64_t step_count;
  struct Block* next;
} Block;

typedef struct Mesh {
  Block* first;
} Mesh;

static int rank, size;

static void* checked(void* memory) {
  if (memory == NULL) abort();
  return memory;
}

static Block* push_block(Mesh* mesh, Block* block) {
  block->next = mesh->first;
  return mesh->first = block;
}

static Block* new_block(Mesh* mesh) { return push_block(mesh, checked(calloc(1, sizeof(Block)))); }

static void free_block(Block* block) {
  free(block->cells);
  free(block->steps);
  free(block);
}

static void make_mesh(Mesh* mesh) {
  for (int number = rank; number < kBlocks; number += size) {
    Block* const block = new_block(mesh);
    block->number = number;
    block->cell_count = kLeastCells;
    block->cells = checked(calloc(kLeastCells, sizeof(double)));
    for (int i = 0; i < kLeastCells; ++i) block->cells[i] = sin(number + 0.1 * i);
  }
}

static void end_mesh(Mesh* mesh) {
  while (mesh->first != NULL) {
    Block* const block = mesh->first;
    mesh->first = block->next;
    free_block(block);
  }
}

/* Each cell becomes two, or two become one. */
static void set_level(Block* block, int level, int step) {
  const int64_t count = (int64_t)kLeastCells << level;
  double* const cells = checked(malloc((size_t)count * sizeof(double)));
  for (int64_t i = 0; i < count; ++i) {
    cells[i] = level > block->level ? block->cells[i / 2] + 1e-3 * (double)(i % 2)
                                    : 0.5 * (block->cells[2 * i] + block->cells[2 * i + 1]);
  }
  free(block->cells);
  block->cells = cells;
  block->cell_count = count;
  block->level = level;
  block->steps = checked(realloc(block->steps, (size_t)(block->step_count + 1) * sizeof *block->steps));
  block->steps[block->step_count++] = step;
}

/* A wave of refinement runs through the mesh. */
static void advance(Mesh* mesh, int step) {
  for (Block* block = mesh->first; block != NULL; block = block->next) {
    const int wanted = (int)(1.5 + 1.5 * sin(0.05 * step + 0.2 * block->number));
    if (wanted != block->level) set_level(block, block->level + (wanted > block->level ? 1 : -1), step);
    for (int64_t i = 0; i < block->cell_count; ++i) block->cells[i] += 0.01 * sin(block->cells[i] + step);
  }
}

static void print(const char* what, const reprieve_handler* handler, const Mesh* mesh) {
  uint64_t digest = 0, all = 0;
  for (const Block* block = mesh->first; block != NULL; block = block->next) {
    uint64_t mixed = (uint64_t)block->number * 0x9e3779b97f4a7c15U + (uint64_t)block->step_count;
    for (int64_t i = 0; i < block->cell_count; ++i) {
      uint64_t bits;
      memcpy(&bits, &block->cells[i], sizeof bits);
      mixed = (mixed ^ bits) * 0xbf58476d1ce4e5b9U;
      mixed ^= mixed >> 31;
    }
    for (int64_t i = 0; i < block->step_count; ++i) mixed = (mixed ^ (uint64_t)block->steps[i]) * 0x94d049bb133111ebU;
    digest += mixed;
  }
  MPI_Reduce(&digest, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s ", what);
    if (handler != NULL) printf("%" PRIu64 " ", reprieve_total_run_calls(handler));
    printf("%016" PRIx64 "\n", all);
    fflush(stdout);
  }
}

/* What Reprieve needs: the parts of the state, for both directions; and which blocks a rank takes from those of all. */
static int walk_mesh(reprieve_walk* walk, void* user) {
  Mesh* const mesh = user;
  int count = 0;
  for (const Block* block = mesh->first; block != NULL; block = block->next) ++count;
  reprieve_walk_bytes(walk, "blocks", &count, sizeof count);
  if (reprieve_walk_restores(walk)) {
    end_mesh(mesh);
    while (count-- > 0) new_block(mesh);
  }
  for (Block* block = mesh->first; block != NULL; block = block->next) {
    reprieve_walk_bytes(walk, "number", &block->number, sizeof block->number);
    reprieve_walk_bytes(walk, "level", &block->level, sizeof block->level);
    block->cell_count = reprieve_walk_list(walk, "cells", &block->cells, block->cell_count, sizeof *block->cells);
    block->step_count = reprieve_walk_list(walk, "steps", &block->steps, block->step_count, sizeof *block->steps);
  }
  return 0;
}

static int take_blocks(reprieve_pieces* pieces, int own_rank, int ranks, void* user) {
  int status = REPRIEVE_OK;
  end_mesh(user);
  for (int saved = 0; saved < reprieve_pieces_count(pieces) && status == REPRIEVE_OK; ++saved) {
    Mesh all = {NULL};
    status = reprieve_pieces_walk(pieces, saved, walk_mesh, &all);
    for (Block *block = all.first, *next = NULL; block != NULL; block = next) {
      next = block->next;
      if (block->number % ranks == own_rank) {
        push_block(user, block);
      } else {
        free_block(block);
      }
    }
  }
  return status;
}

int main(int argc, char** argv) {
  const uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
  const struct timespec pause = {0, argc > 2 ? 1000 * strtol(argv[2], NULL, 10) : 0};
  Mesh mesh = {NULL};
  reprieve_checkpoint* state = NULL;
  reprieve_config* config = NULL;
  reprieve_handler* handler = NULL;
  int status = reprieve_watch_signals();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  make_mesh(&mesh);
  reprieve_checkpoint_create(&state);
  reprieve_add_per_rank_walk(state, "mesh", walk_mesh, take_blocks, &mesh);
  reprieve_config_create(&config);
  reprieve_config_set(config, "termination.save_every_steps", "50");
  reprieve_config_set_exit(config, REPRIEVE_EXIT_RETURN);
  status =
      status == REPRIEVE_OK ? reprieve_handler_open(MPI_COMM_WORLD, state, "checkpoints", config, &handler) : status;
  if (status != REPRIEVE_OK) reprieve_abort();
  if (reprieve_total_run_calls(handler) > 0) print("restored", handler, &mesh);
  while (reprieve_next_step(handler, steps, &status)) {
    advance(&mesh, (int)reprieve_total_run_calls(handler));
    nanosleep(&pause, NULL);
  }
  if (status != REPRIEVE_OK && status != REPRIEVE_PREEMPTED) reprieve_abort();
  print(status == REPRIEVE_PREEMPTED ? "saved" : "final", status == REPRIEVE_PREEMPTED ? handler : NULL, &mesh);
  int code = 0;
  if (status == REPRIEVE_PREEMPTED) reprieve_exit_code(handler, &code);
  reprieve_handler_close(&handler);
  reprieve_config_destroy(&config);
  reprieve_checkpoint_destroy(&state);
  end_mesh(&mesh);
  MPI_Finalize();
  return code;
}
