/* SPDX-License-Identifier: BSD-3-Clause */
/* State that differs between versions of a program; components; what happens in the middle of a restore. */
#include <stdlib.h>

#include "check.h"

static const int64_t kOne = 1;

static void save_once(reprieve_checkpoint* state, const char* directory) {
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, directory, config, &manager));
  CHECK_OK(reprieve_manager_save(manager, 1));
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_config_destroy(&config));
}

static int restore_once(MPI_Comm comm, reprieve_checkpoint* state, const char* directory) {
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  int found = 0;
  CHECK_OK(reprieve_manager_open(comm, state, directory, config, &manager));
  const int status = reprieve_manager_restore_latest(manager, &found, NULL);
  CHECK(status != REPRIEVE_OK || found == 1);
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_config_destroy(&config));
  return status;
}

/* ---- Another version of the program. ---- */

typedef struct Migration {
  double celsius;
  double own; /* this rank's element of the array that is gone */
  int fails;
} Migration;

static int migrate(const reprieve_stored_state* stored, void* user) {
  Migration* migration = user;
  double kelvin = 0;
  float wrong = 0;
  const int64_t global = test_size();
  const int64_t offset = test_rank();
  if (migration->fails) {
    return reprieve_callback_error("nothing to migrate from");
  }
  CHECK(reprieve_stored_contains(stored, "kelvin") == 1);
  CHECK(reprieve_stored_contains(stored, "rankine") == 0);
  CHECK(reprieve_stored_contains(stored, NULL) == 0 && reprieve_stored_contains(NULL, "kelvin") == 0);
  CHECK_OK(reprieve_stored_read(stored, "kelvin", REPRIEVE_DOUBLE, &kelvin, 0, NULL, NULL));
  CHECK_STATUS(REPRIEVE_ERROR_MISMATCH, reprieve_stored_read(stored, "kelvin", REPRIEVE_FLOAT, &wrong, 0, NULL, NULL));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_stored_read(stored, "rankine", REPRIEVE_DOUBLE, &kelvin, 0, NULL, NULL));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_stored_read(NULL, "kelvin", REPRIEVE_DOUBLE, &kelvin, 0, NULL, NULL));
  CHECK_OK(reprieve_stored_read_distributed(stored, "gone", REPRIEVE_DOUBLE, &migration->own, 1, &global, &offset,
                                            &kOne, NULL));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_stored_read_distributed(NULL, "gone", REPRIEVE_DOUBLE, &migration->own, 1,
                                                                      &global, &offset, &kOne, NULL));
  migration->celsius = kelvin - 273;
  return 0;
}

static void other_versions(void) {
  double kelvin = 300;
  double pressure = 5;
  double gone = 10.0 + test_rank();
  const int64_t global = test_size();
  const int64_t offset = test_rank();
  reprieve_checkpoint* state = NULL;
  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_OK(reprieve_add_replicated(state, "kelvin", REPRIEVE_DOUBLE, &kelvin, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(state, "p", REPRIEVE_DOUBLE, &pressure, 0, NULL, NULL));
  CHECK_OK(reprieve_add_distributed(state, "gone", REPRIEVE_DOUBLE, &gone, 1, &global, &offset, &kOne, NULL));
  save_once(state, test_path("c"));
  CHECK_OK(reprieve_checkpoint_destroy(&state));

  Migration migration = {-1, -1, 0};
  double restored_pressure = 0;
  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_OK(reprieve_add_replicated(state, "celsius", REPRIEVE_DOUBLE, &migration.celsius, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(state, "pressure", REPRIEVE_DOUBLE, &restored_pressure, 0, NULL, NULL));
  CHECK_OK(reprieve_add_former_name(state, "pressure", "p"));
  CHECK_STATUS(REPRIEVE_ERROR_MISMATCH, restore_once(MPI_COMM_WORLD, state, test_path("c")));
  CHECK_OK(reprieve_allow_missing(state, "celsius"));
  CHECK_OK(reprieve_allow_dropped(state, "kelvin"));
  CHECK_OK(reprieve_allow_dropped(state, "gone"));
  CHECK_OK(reprieve_on_migration(state, migrate, &migration));
  CHECK_OK(restore_once(MPI_COMM_WORLD, state, test_path("c")));
  CHECK(restored_pressure == 5 && migration.celsius == 27 && migration.own == 10.0 + test_rank());
  migration.fails = test_rank() == test_size() - 1;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the migration function failed: nothing to migrate from",
              restore_once(MPI_COMM_WORLD, state, test_path("c")));
  CHECK_SAME_MESSAGE();

  CHECK_USAGE("rankine", reprieve_allow_missing(state, "rankine"));
  CHECK_USAGE("rankine", reprieve_add_former_name(state, "rankine", "r"));
  CHECK_USAGE("former name is NULL", reprieve_add_former_name(state, "celsius", NULL));
  CHECK_USAGE("name is NULL", reprieve_allow_dropped(state, NULL));
  CHECK_USAGE("migration function is NULL", reprieve_on_migration(state, NULL, NULL));
  CHECK_USAGE("is NULL", reprieve_when_values_restored(state, NULL, NULL));
  CHECK_USAGE("is NULL", reprieve_on_migration(NULL, migrate, NULL));
  CHECK_USAGE("is NULL", reprieve_allow_missing(NULL, "celsius"));
  CHECK_USAGE("is NULL", reprieve_allow_dropped(NULL, "celsius"));
  CHECK_USAGE("is NULL", reprieve_add_former_name(NULL, "celsius", "c"));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
}

/* ---- Components, one of them with blocks whose number is part of the state. ---- */

typedef struct Mesh {
  int32_t blocks; /* this rank's */
  int32_t first;
  double* cells; /* of each block one */
} Mesh;

static int make_blocks(void* user) {
  Mesh* mesh = user;
  free(mesh->cells);
  mesh->cells = calloc((size_t)mesh->blocks + 1, sizeof(double));
  return mesh->cells == NULL ? reprieve_callback_error("no memory for the blocks") : 0;
}

static int describe_blocks(reprieve_boxes* boxes, void* user) {
  Mesh* mesh = user;
  for (int32_t i = 0; i < mesh->blocks; ++i) {
    const int64_t offset = mesh->first + i;
    if (reprieve_boxes_add(boxes, &mesh->cells[i], &offset, &kOne, NULL) != REPRIEVE_OK) {
      return reprieve_callback_error(reprieve_last_error_message());
    }
  }
  return 0;
}

static reprieve_checkpoint* mesh_in_a_component(Mesh* mesh) {
  const int64_t global = 100;
  reprieve_checkpoint* state = NULL;
  reprieve_checkpoint* part = NULL;
  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_OK(reprieve_checkpoint_create(&part));
  CHECK_OK(reprieve_add_per_rank(part, "blocks", REPRIEVE_INT32, &mesh->blocks, 0, NULL, NULL, NULL, NULL));
  CHECK_OK(reprieve_add_per_rank(part, "first", REPRIEVE_INT32, &mesh->first, 0, NULL, NULL, NULL, NULL));
  CHECK_OK(reprieve_add_distributed_boxes(part, "cells", REPRIEVE_DOUBLE, 1, &global, describe_blocks, mesh));
  CHECK_OK(reprieve_when_values_restored(part, make_blocks, mesh));
  CHECK_OK(reprieve_add_component(state, "mesh", &part));
  CHECK(part == NULL);
  return state;
}

static void components(void) {
  Mesh mesh = {test_rank() + 2, 10 * test_rank(), NULL};
  reprieve_checkpoint* part = NULL;
  CHECK(make_blocks(&mesh) == 0);
  for (int32_t i = 0; i < mesh.blocks; ++i) {
    mesh.cells[i] = mesh.first + i + 0.25;
  }
  reprieve_checkpoint* state = mesh_in_a_component(&mesh);
  save_once(state, test_path("c"));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  free(mesh.cells);

  Mesh restored = {0, 0, NULL};
  state = mesh_in_a_component(&restored);
  CHECK_OK(restore_once(MPI_COMM_WORLD, state, test_path("c")));
  CHECK(restored.blocks == test_rank() + 2 && restored.first == 10 * test_rank());
  for (int32_t i = 0; i < restored.blocks; ++i) {
    CHECK(restored.cells[i] == restored.first + i + 0.25);
  }
  free(restored.cells);

  CHECK_USAGE("pass the address", reprieve_add_component(state, "a", NULL));
  CHECK_USAGE("the part is NULL", reprieve_add_component(state, "a", &part));
  CHECK_OK(reprieve_checkpoint_create(&part));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_allow_missing(part, "none"));
  CHECK_USAGE("none", reprieve_add_component(state, "a", &part)); /* its error is not lost */
  CHECK(part == NULL);
  CHECK_OK(reprieve_checkpoint_destroy(&state));
}

/* The order in which lists are dealt again is for lists. */
static void in_order_of_what_is_no_list(void) {
  int32_t fixed = 1;
  reprieve_checkpoint* state = NULL;
  MPI_Comm fewer = MPI_COMM_NULL;
  CHECK(reprieve_in_order(NULL, 0, 1, NULL) != 0);
  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_OK(reprieve_add_per_rank(state, "fixed", REPRIEVE_INT32, &fixed, 0, NULL, NULL, reprieve_in_order, NULL));
  save_once(state, test_path("c"));
  if (test_size() > 1) {
    MPI_Comm_split(MPI_COMM_WORLD, test_rank() == 0 ? MPI_UNDEFINED : 1, test_rank(), &fewer);
    if (fewer != MPI_COMM_NULL) {
      CHECK_USAGE("registered as resizable", restore_once(fewer, state, test_path("c")));
      MPI_Comm_free(&fewer);
    }
  }
  CHECK_OK(reprieve_checkpoint_destroy(&state));
}

const Test version_tests[] = {{"other_versions", other_versions},
                              {"components", components},
                              {"in_order_of_what_is_no_list", in_order_of_what_is_no_list},
                              {NULL, NULL}};
