/* SPDX-License-Identifier: BSD-3-Clause */
/* State that is no array: an adaptive mesh with blocks that come and go, each with lists of its own, walked by one
 * function in both directions. */
#include <stdlib.h>

#include "check.h"

typedef struct Block {
  int level;
  char label[8];
  double* cells;
  int64_t cell_count;
  struct Block* next;
} Block;

typedef struct Mesh {
  double time;
  int32_t* owners;
  int64_t owner_count;
  Block* first;
} Mesh;

static Block* new_block(Block* next) {
  Block* const block = calloc(1, sizeof(Block));
  if (block == NULL) abort();
  block->next = next;
  return block;
}

static void clear_blocks(Mesh* mesh) {
  while (mesh->first != NULL) {
    Block* const block = mesh->first;
    mesh->first = block->next;
    free(block->cells);
    free(block);
  }
}

static int walk_mesh(reprieve_walk* walk, void* user) {
  Mesh* const mesh = user;
  int blocks = 0;
  for (const Block* block = mesh->first; block != NULL; block = block->next) ++blocks;
  reprieve_walk_bytes(walk, "time", &mesh->time, sizeof mesh->time);
  mesh->owner_count = reprieve_walk_list(walk, "owners", &mesh->owners, mesh->owner_count, sizeof *mesh->owners);
  reprieve_walk_bytes(walk, "blocks", &blocks, sizeof blocks);
  if (reprieve_walk_restores(walk)) {
    clear_blocks(mesh);
    for (int i = 0; i < blocks; ++i) mesh->first = new_block(mesh->first);
  }
  for (Block* block = mesh->first; block != NULL; block = block->next) {
    reprieve_walk_bytes(walk, "level", &block->level, sizeof block->level);
    reprieve_walk_bytes(walk, "label", block->label, sizeof block->label);
    block->cell_count = reprieve_walk_list(walk, "cells", &block->cells, block->cell_count, sizeof(double));
  }
  return 0;
}

/* The mesh of a rank after so many steps: another number of blocks, with other numbers of cells. */
static void adapt(Mesh* mesh, int step) {
  clear_blocks(mesh);
  mesh->time = step + 0.5 * test_rank();
  mesh->owner_count = step + test_rank();
  free(mesh->owners);
  mesh->owners = mesh->owner_count == 0 ? NULL : calloc((size_t)mesh->owner_count, sizeof(int32_t));
  for (int64_t i = 0; i < mesh->owner_count; ++i) mesh->owners[i] = (int32_t)(step + i);
  for (int number = 0; number < step % 5; ++number) {
    Block* const block = mesh->first = new_block(mesh->first);
    block->level = number;
    snprintf(block->label, sizeof block->label, "b%d", number);
    block->cell_count = number;
    block->cells = number == 0 ? NULL : calloc((size_t)number, sizeof(double));
    for (int i = 0; i < number; ++i) block->cells[i] = step + 0.25 * i;
  }
}

static void check_equal(const Mesh* mesh, const Mesh* expected) {
  CHECK(mesh->time == expected->time);
  CHECK(mesh->owner_count == expected->owner_count);
  CHECK(mesh->owner_count == 0 ||
        memcmp(mesh->owners, expected->owners, (size_t)mesh->owner_count * sizeof(int32_t)) == 0);
  const Block* other = expected->first;
  for (const Block* block = mesh->first; block != NULL && other != NULL; block = block->next, other = other->next) {
    CHECK(block->level == other->level && strcmp(block->label, other->label) == 0);
    CHECK(block->cell_count == other->cell_count);
    CHECK(block->cell_count == 0 ||
          memcmp(block->cells, other->cells, (size_t)block->cell_count * sizeof(double)) == 0);
    CHECK((block->next == NULL) == (other->next == NULL));
  }
  CHECK((mesh->first == NULL) == (expected->first == NULL));
}

static void end_mesh(Mesh* mesh) {
  clear_blocks(mesh);
  free(mesh->owners);
}

static void blocks_that_come_and_go(void) {
  for (int step = 0; step < 9; step += 2) {
    Mesh mesh = {0}, expected = {0};
    Parts parts = test_parts();
    CHECK_OK(reprieve_add_per_rank_walk(parts.state, "mesh", walk_mesh, NULL, &mesh));
    CHECK_OK(test_open_manager(&parts));
    adapt(&mesh, step);
    adapt(&expected, step);
    CHECK_OK(reprieve_manager_save(parts.manager, (uint64_t)step + 1));
    check_equal(&mesh, &expected); /* a save changes nothing */
    adapt(&mesh, step + 3);
    CHECK_OK(reprieve_manager_restore_latest(parts.manager, NULL, NULL));
    check_equal(&mesh, &expected);
    end_mesh(&mesh);
    end_mesh(&expected);
    test_end(&parts);
  }
}

static int walk_one(reprieve_walk* walk, void* user) {
  const char* const name = user;
  double value = 1;
  reprieve_walk_bytes(walk, name, &value, name[0] == 'x' ? sizeof value : 4);
  return name[1] == '!' ? 3 : 0;
}

static int walk_nothing(reprieve_walk* walk, void* user) {
  (void)walk;
  (void)user;
  return 0;
}

static int walk_badly(reprieve_walk* walk, void* user) {
  reprieve_walk_bytes(walk, "nowhere", NULL, 8);
  reprieve_walk_bytes(walk, "behind it", user, 8); /* does nothing any more */
  return 0;
}

/* The list itself instead of the address of its pointer. */
static int walk_no_pointer(reprieve_walk* walk, void* user) {
  double list[] = {1e300, 2};
  (void)user;
  reprieve_walk_list(walk, "list", list, 2, sizeof(double));
  return 0;
}

/* What a restore by another walk function says. */
static void check_other_walk(reprieve_walk_fn walk, const char* name, const char* text) {
  char stored[] = "x", present[8];
  snprintf(present, sizeof present, "%s", name);
  Parts parts = test_parts();
  CHECK_OK(reprieve_add_replicated_walk(parts.state, "value", walk_one, stored));
  CHECK_OK(test_open_manager(&parts));
  CHECK_OK(reprieve_manager_save(parts.manager, 1));
  CHECK_OK(reprieve_manager_close(&parts.manager));
  reprieve_checkpoint_destroy(&parts.state);
  CHECK_OK(reprieve_checkpoint_create(&parts.state));
  CHECK_OK(reprieve_add_replicated_walk(parts.state, "value", walk, present));
  CHECK_OK(test_open_manager(&parts));
  CHECK_ERROR(REPRIEVE_ERROR_MISMATCH, text, reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  test_end(&parts);
}

static void mistakes(void) {
  char fails[] = "x!";
  Parts parts = test_parts();
  CHECK_USAGE("the walk function is NULL", reprieve_add_replicated_walk(parts.state, "a", NULL, NULL));
  test_end(&parts);
  check_other_walk(walk_one, "y", "the checkpoint has the part 'x' there");
  check_other_walk(walk_nothing, "", "the stored parts continue");
  parts = test_parts();
  CHECK_OK(reprieve_add_replicated_walk(parts.state, "b", walk_badly, fails));
  CHECK_OK(test_open_manager(&parts));
  CHECK_USAGE("the data are NULL", reprieve_manager_save(parts.manager, 1));
  test_end(&parts);
  parts = test_parts();
  CHECK_OK(reprieve_add_replicated_walk(parts.state, "c", walk_no_pointer, NULL));
  CHECK_OK(test_open_manager(&parts));
  CHECK_USAGE("pass the address of the variable", reprieve_manager_save(parts.manager, 1));
  test_end(&parts);
}

const Test walk_tests[] = {
    {"walk.blocks_that_come_and_go", blocks_that_come_and_go}, {"walk.mistakes", mistakes}, {NULL, NULL}};
