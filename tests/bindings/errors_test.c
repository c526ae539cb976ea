/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of each class, from where they come from: the same code and message on every rank, and the library continues.
 */
#define _XOPEN_SOURCE 700

#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static double value = 1;
static int failing_rank = -1;

static int describe_or_fail(reprieve_boxes* boxes, void* user) {
  const int64_t offset[] = {test_rank()};
  const int64_t extent[] = {1};
  (void)user;
  if (test_rank() == failing_rank) {
    return reprieve_callback_error("the mesh is being rebuilt");
  }
  return reprieve_boxes_add(boxes, &value, offset, extent, NULL);
}

static int save_or_fail(const void** bytes, size_t* size_bytes, void* user) {
  (void)user;
  *bytes = &value;
  *size_bytes = sizeof value;
  return test_rank() == failing_rank ? 3 : 0;
}

static int load_or_fail(const void* bytes, size_t size_bytes, void* user) {
  (void)bytes;
  (void)size_bytes;
  (void)user;
  return test_rank() == failing_rank ? reprieve_callback_error("bytes of another program") : 0;
}

static int memory_or_fail(int64_t wanted, void** data, int64_t* count, void* user) {
  (void)user;
  *data = &value;
  *count = wanted >= 0 && test_rank() == failing_rank ? wanted + 1 : 1;
  return 0;
}

static reprieve_checkpoint* one_value(void) {
  reprieve_checkpoint* state = NULL;
  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_OK(reprieve_add_replicated(state, "value", REPRIEVE_DOUBLE, &value, 0, NULL, NULL));
  return state;
}

static int open_and_save(double density) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  CHECK_OK(reprieve_add_constant(state, "case", "tank"));
  CHECK_OK(reprieve_add_constant_integer(state, "cells", 100));
  CHECK_OK(reprieve_add_constant_real(state, "density", density));
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &manager));
  int status = reprieve_manager_restore_latest(manager, NULL, NULL);
  if (status == REPRIEVE_OK) {
    status = reprieve_manager_save_next(manager, NULL);
  }
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
  return status;
}

static void another_problem(void) {
  CHECK_OK(open_and_save(1.0));
  CHECK_OK(open_and_save(1.0));
  CHECK_STATUS(REPRIEVE_ERROR_MISMATCH, open_and_save(5.0));
}

static void callbacks_that_fail(void) {
  const int64_t global[] = {test_size()};
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  const int last = test_size() - 1;
  CHECK_OK(reprieve_add_distributed_boxes(state, "mesh", REPRIEVE_DOUBLE, 1, global, describe_or_fail, NULL));
  CHECK_OK(reprieve_add_per_rank_custom(state, "own", save_or_fail, load_or_fail, NULL, NULL));
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &manager));
  failing_rank = last;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "failed", reprieve_manager_save(manager, 1));
  CHECK_SAME_MESSAGE();
  CHECK(reprieve_last_error_origin_rank() == last);
  failing_rank = -1;
  CHECK_OK(reprieve_manager_save(manager, 2)); /* the error did no harm */
  uint64_t number = 0;
  reprieve_checkpoint_info info;
  CHECK_OK(reprieve_manager_save_next(manager, &number));
  CHECK(number == 3);
  CHECK_OK(reprieve_manager_save(manager, 1)); /* the newest, though not the highest */
  CHECK_OK(reprieve_manager_latest(manager, NULL, &info));
  CHECK(info.number == 1 && info.run_calls == REPRIEVE_NO_RUN_CALLS);
  CHECK_OK(reprieve_manager_save_next(manager, NULL));
  CHECK_OK(reprieve_manager_latest(manager, NULL, &info));
  CHECK(info.number == 4);
  failing_rank = last;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "failed: bytes of another program", /* values come before arrays */
              reprieve_manager_restore_latest(manager, NULL, NULL));
  CHECK_SAME_MESSAGE();
  failing_rank = -1;
  CHECK_OK(reprieve_manager_restore_latest(manager, NULL, NULL));
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

static void memory_of_the_wrong_size(void) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  const int last = test_size() - 1;
  CHECK_OK(reprieve_add_per_rank_resizable(state, "list", REPRIEVE_DOUBLE, 1, memory_or_fail, NULL, NULL));
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &manager));
  CHECK_OK(reprieve_manager_save(manager, 1));
  failing_rank = last;
  CHECK_ERROR(REPRIEVE_ERROR_USAGE, "asked to make room for 1 items, but made it 2",
              reprieve_manager_restore_latest(manager, NULL, NULL));
  CHECK(reprieve_last_error_origin_rank() == last);
  CHECK_SAME_MESSAGE();
  failing_rank = -1;
  CHECK_OK(reprieve_manager_restore_latest(manager, NULL, NULL));
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

static void text_of_a_callback(void) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  CHECK_OK(reprieve_add_per_rank_custom(state, "own", save_or_fail, load_or_fail, NULL, NULL));
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &manager));
  failing_rank = 0;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the save function of variable 'own' failed: it returned 3",
              reprieve_manager_save(manager, 1));
  failing_rank = -1;
  CHECK_OK(reprieve_manager_save(manager, 1));
  failing_rank = 0;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the load function of variable 'own' failed: bytes of another program",
              reprieve_manager_restore_latest(manager, NULL, NULL));
  CHECK_SAME_MESSAGE();
  failing_rank = -1;
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

static void mismatches(void) {
  const int64_t three = 3;
  double array[3] = {1, 2, 3};
  float other = 1;
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  reprieve_handler* handler = NULL;
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &manager));
  CHECK_OK(reprieve_manager_save(manager, 1));
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_checkpoint_destroy(&state));

  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_OK(reprieve_add_replicated(state, "value", REPRIEVE_DOUBLE, array, 1, &three, NULL));
  CHECK_OK(reprieve_add_replicated(state, "other", REPRIEVE_FLOAT, &other, 0, NULL, NULL));
  CHECK_ERROR(REPRIEVE_ERROR_MISMATCH, "'value'",
              reprieve_handler_open(MPI_COMM_WORLD, state, test_path("c"), config, &handler));
  CHECK(strstr(reprieve_last_error_message(), "'other'") != NULL); /* all differences at once */
  CHECK_SAME_MESSAGE();
  CHECK(handler == NULL);
  CHECK_OK(reprieve_checkpoint_destroy(&state)); /* the failed open does not use it */
  CHECK_OK(reprieve_config_destroy(&config));
}

static void ranks_that_register_differently(void) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  double more = 2;
  if (test_rank() == test_size() - 1) {
    CHECK_OK(reprieve_add_replicated(state, "more", REPRIEVE_DOUBLE, &more, 0, NULL, NULL));
  }
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &manager));
  if (test_size() == 1) {
    CHECK_OK(reprieve_manager_save(manager, 1));
  } else {
    CHECK_ERROR(REPRIEVE_ERROR_MISMATCH, "more", reprieve_manager_save(manager, 1));
    CHECK_SAME_MESSAGE();
  }
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

/* A second manager on it: the program would wait for itself. */
static void locked_directory(void) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  reprieve_manager* second = NULL;
  reprieve_handler* handler = NULL;
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &manager));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &second));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_handler_open(MPI_COMM_WORLD, state, test_path("c"), config, &handler));
  CHECK_SAME_MESSAGE();
  CHECK(second == NULL && handler == NULL);
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

/* In a checkpoint of the right form, a file that is none. */
static void corrupt_file(void) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_manager* manager = NULL;
  reprieve_checkpoint_info info;
  int found = 0;
  CHECK_OK(reprieve_manager_open(MPI_COMM_WORLD, state, test_path("c"), config, &manager));
  CHECK_OK(reprieve_manager_save(manager, 1));
  CHECK_OK(reprieve_manager_latest(manager, &found, &info));
  if (test_rank() == 0) {
    CHECK(truncate(info.path, 100) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_STATUS(REPRIEVE_ERROR_CORRUPT, reprieve_manager_restore_latest(manager, &found, &info));
  CHECK_SAME_MESSAGE();
  CHECK_STATUS(REPRIEVE_ERROR_IO, reprieve_manager_restore(manager, test_path("no-such-file.h5")));
  CHECK_ERROR(REPRIEVE_ERROR_USAGE, "the file is NULL", reprieve_manager_restore(manager, NULL));
  CHECK_OK(reprieve_manager_close(&manager));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

/* The directory is below a file. */
static void no_directory_to_be_had(void) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_handler* handler = NULL;
  if (test_rank() == 0) {
    FILE* file = fopen(test_path("file"), "w");
    CHECK(file != NULL && fclose(file) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_STATUS(REPRIEVE_ERROR_IO, reprieve_handler_open(MPI_COMM_WORLD, state, test_path("file/c"), config, &handler));
  CHECK_SAME_MESSAGE();
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

/* The variable of the environment is that of one rank; all hear of it. */
static void settings_from_outside(void) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_handler* handler = NULL;
  const int last = test_size() - 1;
  if (test_rank() == 0) {
    FILE* file = fopen(test_path("settings.json"), "w");
    CHECK(file != NULL);
    CHECK(fputs("{\"termination\": {\"restart_code\": 77}}", file) >= 0);
    CHECK(fclose(file) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_OK(reprieve_config_load_file(config, test_path("settings.json")));
  CHECK(strstr(reprieve_config_json(config), "77") != NULL);
  setenv("REPRIEVE_TERMINATION_RESTART_CODE", "76", 1);
  CHECK_OK(reprieve_config_apply_environment(config));
  CHECK(strstr(reprieve_config_json(config), "76") != NULL);
  if (test_rank() == last) {
    setenv("REPRIEVE_TERMINATION_RESTART_CODE", "many", 1);
    CHECK_STATUS(REPRIEVE_ERROR_CONFIG, reprieve_config_apply_environment(config));
  }
  unsetenv("REPRIEVE_TERMINATION_RESTART_CODE");
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "REPRIEVE_TERMINATION_RESTART_CODE",
              reprieve_handler_open(MPI_COMM_WORLD, state, test_path("c"), config, &handler));
  CHECK_SAME_MESSAGE();
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

/* Nothing but the variables of rank 0: the directory, and a setting. */
static void settings_of_the_environment(void) {
  reprieve_checkpoint* state = one_value();
  reprieve_config* config = test_config();
  reprieve_handler* handler = NULL;
  CHECK_ERROR(REPRIEVE_ERROR_USAGE, "no checkpoint directory",
              reprieve_handler_open(MPI_COMM_WORLD, state, NULL, config, &handler));
  if (test_rank() == 0) {
    setenv("REPRIEVE_DIRECTORY", test_path("outside"), 1);
    setenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS", "1", 1);
  } else {
    setenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS", "not looked at", 1);
  }
  for (int read = 1; read >= 0; read--) {
    int status = REPRIEVE_OK;
    CHECK_OK(reprieve_config_read_environment(config, read));
    CHECK_OK(reprieve_handler_open(MPI_COMM_WORLD, state, read == 1 ? NULL : test_path("c"), config, &handler));
    while (reprieve_next_step(handler, 20, &status)) {
    }
    CHECK_OK(status);
    int saved = 0;
    reprieve_save_report report;
    CHECK_OK(reprieve_last_save(handler, &saved, &report));
    CHECK(saved == read);
    CHECK(saved == 0 || strstr(report.path, "outside") != NULL);
    CHECK_OK(reprieve_handler_close(&handler));
  }
  if (test_rank() == 0) {
    setenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEP", "1", 1);
  }
  CHECK_OK(reprieve_config_read_environment(config, 1));
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "did you mean REPRIEVE_TERMINATION_SAVE_EVERY_STEPS?",
              reprieve_handler_open(MPI_COMM_WORLD, state, test_path("c"), config, &handler));
  CHECK_SAME_MESSAGE();
  unsetenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEP");
  unsetenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS");
  unsetenv("REPRIEVE_DIRECTORY");
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK_OK(reprieve_config_destroy(&config));
}

const Test error_tests[] = {{"another_problem", another_problem},
                            {"callbacks_that_fail", callbacks_that_fail},
                            {"memory_of_the_wrong_size", memory_of_the_wrong_size},
                            {"text_of_a_callback", text_of_a_callback},
                            {"mismatches", mismatches},
                            {"ranks_that_register_differently", ranks_that_register_differently},
                            {"locked_directory", locked_directory},
                            {"corrupt_file", corrupt_file},
                            {"no_directory_to_be_had", no_directory_to_be_had},
                            {"settings_from_outside", settings_from_outside},
                            {"settings_of_the_environment", settings_of_the_environment},
                            {NULL, NULL}};
