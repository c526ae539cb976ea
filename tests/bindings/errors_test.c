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

static Parts one_value(void) {
  const Parts parts = test_parts();
  CHECK_OK(reprieve_add_replicated(parts.state, "value", REPRIEVE_DOUBLE, &value, 0, NULL, NULL));
  return parts;
}

static int open_and_save(double density) {
  Parts parts = one_value();
  CHECK_OK(reprieve_add_constant(parts.state, "case", "tank"));
  CHECK_OK(reprieve_add_constant_integer(parts.state, "cells", 100));
  CHECK_OK(reprieve_add_constant_real(parts.state, "density", density));
  CHECK_OK(test_open_manager(&parts));
  int status = reprieve_manager_restore_latest(parts.manager, NULL, NULL);
  if (status == REPRIEVE_OK) {
    status = reprieve_manager_save_next(parts.manager, NULL);
  }
  test_end(&parts);
  return status;
}

static void another_problem(void) {
  CHECK_OK(open_and_save(1.0));
  CHECK_OK(open_and_save(1.0));
  CHECK_STATUS(REPRIEVE_ERROR_MISMATCH, open_and_save(5.0));
}

static void callbacks_that_fail(void) {
  const int64_t global[] = {test_size()};
  Parts parts = one_value();
  const int last = test_size() - 1;
  CHECK_OK(reprieve_add_distributed_boxes(parts.state, "mesh", REPRIEVE_DOUBLE, 1, global, describe_or_fail, NULL));
  CHECK_OK(reprieve_add_per_rank_custom(parts.state, "own", save_or_fail, load_or_fail, NULL, NULL));
  CHECK_OK(test_open_manager(&parts));
  failing_rank = last;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "failed", reprieve_manager_save(parts.manager, 1));
  CHECK_SAME_MESSAGE();
  CHECK(reprieve_last_error_origin_rank() == last);
  failing_rank = -1;
  CHECK_OK(reprieve_manager_save(parts.manager, 2)); /* the error did no harm */
  uint64_t number = 0;
  reprieve_checkpoint_info info;
  CHECK_OK(reprieve_manager_save_next(parts.manager, &number));
  CHECK(number == 3);
  CHECK_OK(reprieve_manager_save(parts.manager, 1)); /* the newest, though not the highest */
  CHECK_OK(reprieve_manager_latest(parts.manager, NULL, &info));
  CHECK(info.number == 1 && info.run_calls == REPRIEVE_NO_RUN_CALLS);
  CHECK_OK(reprieve_manager_save_next(parts.manager, NULL));
  CHECK_OK(reprieve_manager_latest(parts.manager, NULL, &info));
  CHECK(info.number == 4);
  failing_rank = last;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "failed: bytes of another program", /* values come before arrays */
              reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  CHECK_SAME_MESSAGE();
  failing_rank = -1;
  CHECK_OK(reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  test_end(&parts);
}

static void memory_of_the_wrong_size(void) {
  Parts parts = one_value();
  const int last = test_size() - 1;
  CHECK_OK(reprieve_add_per_rank_resizable(parts.state, "list", REPRIEVE_DOUBLE, 1, memory_or_fail, NULL, NULL));
  CHECK_OK(test_open_manager(&parts));
  CHECK_OK(reprieve_manager_save(parts.manager, 1));
  failing_rank = last;
  CHECK_USAGE("asked to make room for 1 items, but made it 2",
              reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  CHECK(reprieve_last_error_origin_rank() == last);
  CHECK_SAME_MESSAGE();
  failing_rank = -1;
  CHECK_OK(reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  test_end(&parts);
}

static void text_of_a_callback(void) {
  Parts parts = one_value();
  CHECK_OK(reprieve_add_per_rank_custom(parts.state, "own", save_or_fail, load_or_fail, NULL, NULL));
  CHECK_OK(test_open_manager(&parts));
  failing_rank = 0;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the save function of variable 'own' failed: it returned 3",
              reprieve_manager_save(parts.manager, 1));
  failing_rank = -1;
  CHECK_OK(reprieve_manager_save(parts.manager, 1));
  failing_rank = 0;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the load function of variable 'own' failed: bytes of another program",
              reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  CHECK_SAME_MESSAGE();
  failing_rank = -1;
  test_end(&parts);
}

static void mismatches(void) {
  const int64_t three = 3;
  double array[3] = {1, 2, 3};
  float other = 1;
  Parts parts = one_value();
  CHECK_OK(test_open_manager(&parts));
  CHECK_OK(reprieve_manager_save(parts.manager, 1));
  CHECK_OK(reprieve_manager_close(&parts.manager));
  CHECK_OK(reprieve_checkpoint_destroy(&parts.state));

  CHECK_OK(reprieve_checkpoint_create(&parts.state));
  CHECK_OK(reprieve_add_replicated(parts.state, "value", REPRIEVE_DOUBLE, array, 1, &three, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "other", REPRIEVE_FLOAT, &other, 0, NULL, NULL));
  CHECK_ERROR(REPRIEVE_ERROR_MISMATCH, "'value'", test_open_handler(&parts));
  CHECK(strstr(reprieve_last_error_message(), "'other'") != NULL); /* all differences at once */
  CHECK_SAME_MESSAGE();
  CHECK(parts.handler == NULL);
  test_end(&parts);
}

static void ranks_that_register_differently(void) {
  Parts parts = one_value();
  double more = 2;
  if (test_rank() == test_size() - 1) {
    CHECK_OK(reprieve_add_replicated(parts.state, "more", REPRIEVE_DOUBLE, &more, 0, NULL, NULL));
  }
  CHECK_OK(test_open_manager(&parts));
  if (test_size() == 1) {
    CHECK_OK(reprieve_manager_save(parts.manager, 1));
  } else {
    CHECK_ERROR(REPRIEVE_ERROR_MISMATCH, "more", reprieve_manager_save(parts.manager, 1));
    CHECK_SAME_MESSAGE();
  }
  test_end(&parts);
}

/* A second manager on it: the program would wait for itself. */
static void locked_directory(void) {
  Parts parts = one_value();
  reprieve_manager* second = NULL;
  CHECK_OK(test_open_manager(&parts));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE,
               reprieve_manager_open(MPI_COMM_WORLD, parts.state, test_path("c"), parts.config, &second));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, test_open_handler(&parts));
  CHECK_SAME_MESSAGE();
  CHECK(second == NULL && parts.handler == NULL);
  test_end(&parts);
}

/* In a checkpoint of the right form, a file that is none. */
static void corrupt_file(void) {
  Parts parts = one_value();
  reprieve_checkpoint_info info;
  int found = 0;
  CHECK_OK(test_open_manager(&parts));
  CHECK_OK(reprieve_manager_save(parts.manager, 1));
  CHECK_OK(reprieve_manager_latest(parts.manager, &found, &info));
  if (test_rank() == 0) {
    CHECK(truncate(info.path, 100) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_STATUS(REPRIEVE_ERROR_CORRUPT, reprieve_manager_restore_latest(parts.manager, &found, &info));
  CHECK_SAME_MESSAGE();
  CHECK_STATUS(REPRIEVE_ERROR_IO, reprieve_manager_restore(parts.manager, test_path("no-such-file.h5")));
  CHECK_USAGE("the file is NULL", reprieve_manager_restore(parts.manager, NULL));
  test_end(&parts);
}

/* The directory is below a file. */
static void no_directory_to_be_had(void) {
  Parts parts = one_value();
  if (test_rank() == 0) {
    FILE* file = fopen(test_path("file"), "w");
    CHECK(file != NULL && fclose(file) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_STATUS(REPRIEVE_ERROR_IO,
               reprieve_handler_open(MPI_COMM_WORLD, parts.state, test_path("file/c"), parts.config, &parts.handler));
  CHECK_SAME_MESSAGE();
  test_end(&parts);
}

/* The variable of the environment is that of one rank; all hear of it. */
static void settings_from_outside(void) {
  Parts parts = one_value();
  const int last = test_size() - 1;
  if (test_rank() == 0) {
    FILE* file = fopen(test_path("settings.json"), "w");
    CHECK(file != NULL);
    CHECK(fputs("{\"termination\": {\"restart_code\": 77}}", file) >= 0);
    CHECK(fclose(file) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_OK(reprieve_config_load_file(parts.config, test_path("settings.json")));
  CHECK(strstr(reprieve_config_json(parts.config), "77") != NULL);
  setenv("REPRIEVE_TERMINATION_RESTART_CODE", "76", 1);
  CHECK_OK(reprieve_config_apply_environment(parts.config));
  CHECK(strstr(reprieve_config_json(parts.config), "76") != NULL);
  if (test_rank() == last) {
    setenv("REPRIEVE_TERMINATION_RESTART_CODE", "many", 1);
    CHECK_STATUS(REPRIEVE_ERROR_CONFIG, reprieve_config_apply_environment(parts.config));
  }
  unsetenv("REPRIEVE_TERMINATION_RESTART_CODE");
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "REPRIEVE_TERMINATION_RESTART_CODE", test_open_handler(&parts));
  CHECK_SAME_MESSAGE();
  test_end(&parts);
}

/* Nothing but the variables of rank 0: the directory, and a setting. */
static void settings_of_the_environment(void) {
  Parts parts = one_value();
  CHECK_USAGE("no checkpoint directory",
              reprieve_handler_open(MPI_COMM_WORLD, parts.state, NULL, parts.config, &parts.handler));
  if (test_rank() == 0) {
    setenv("REPRIEVE_DIRECTORY", test_path("outside"), 1);
    setenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS", "1", 1);
  } else {
    setenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS", "not looked at", 1);
  }
  for (int read = 1; read >= 0; read--) {
    int status = REPRIEVE_OK;
    CHECK_OK(reprieve_config_read_environment(parts.config, read));
    CHECK_OK(reprieve_handler_open(MPI_COMM_WORLD, parts.state, read == 1 ? NULL : test_path("c"), parts.config,
                                   &parts.handler));
    while (reprieve_next_step(parts.handler, 20, &status)) {
    }
    CHECK_OK(status);
    int saved = 0;
    reprieve_save_report report;
    CHECK_OK(reprieve_last_save(parts.handler, &saved, &report));
    CHECK(saved == read);
    CHECK(saved == 0 || strstr(report.path, "outside") != NULL);
    CHECK_OK(reprieve_handler_close(&parts.handler));
  }
  if (test_rank() == 0) {
    setenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEP", "1", 1);
  }
  CHECK_OK(reprieve_config_read_environment(parts.config, 1));
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "did you mean REPRIEVE_TERMINATION_SAVE_EVERY_STEPS?", test_open_handler(&parts));
  CHECK_SAME_MESSAGE();
  unsetenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEP");
  unsetenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS");
  unsetenv("REPRIEVE_DIRECTORY");
  test_end(&parts);
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
