/* SPDX-License-Identifier: BSD-3-Clause */
/* Every function with what it must refuse: a code, and a text that says what to do. Errors of each class, from where
 * they come from: the same code and message on every rank, and the library continues. */
#define _XOPEN_SOURCE 700

#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static double value = 1;
static const int64_t shape[] = {4, 4};
static const int64_t offset[] = {0, 0};
static const int64_t negative[] = {4, -4};

static int nothing_in_memory(int64_t wanted, void** data, int64_t* count, void* user) {
  (void)wanted;
  (void)user;
  *data = NULL;
  *count = 0;
  return 0;
}
static int no_boxes(reprieve_boxes* boxes, void* user) {
  (void)boxes;
  (void)user;
  return 0;
}
static int save_nothing(const void** bytes, size_t* size_bytes, void* user) {
  (void)user;
  *bytes = NULL;
  *size_bytes = 0;
  return 0;
}
static int load_nothing(const void* bytes, size_t size_bytes, void* user) {
  (void)bytes;
  (void)size_bytes;
  (void)user;
  return 0;
}

void test_before_mpi(void) {
  reprieve_checkpoint* state = NULL;
  reprieve_handler* handler = NULL;
  reprieve_manager* manager = NULL;
  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_USAGE("call MPI_Init", reprieve_handler_open(MPI_COMM_WORLD, state, "nowhere", NULL, &handler));
  CHECK_USAGE(" [RPV-0601]", reprieve_handler_open(MPI_COMM_WORLD, state, "nowhere", NULL, &handler));
  CHECK_USAGE("call MPI_Init", reprieve_manager_open(MPI_COMM_WORLD, state, "nowhere", NULL, &manager));
  CHECK(handler == NULL && manager == NULL);
  CHECK_OK(reprieve_checkpoint_destroy(&state));
}

static void names_of_codes(void) {
  const struct {
    int code;
    const char* name;
  } names[] = {{REPRIEVE_OK, "ok"},
               {REPRIEVE_ERROR_CONFIG, "config"},
               {REPRIEVE_ERROR_USAGE, "usage"},
               {REPRIEVE_ERROR_IO, "io"},
               {REPRIEVE_ERROR_NO_SPACE, "no_space"},
               {REPRIEVE_ERROR_PERMISSION, "permission"},
               {REPRIEVE_ERROR_LOCKED, "locked"},
               {REPRIEVE_ERROR_CORRUPT, "corrupt"},
               {REPRIEVE_ERROR_MISMATCH, "mismatch"},
               {REPRIEVE_ERROR_MPI, "mpi"},
               {REPRIEVE_ERROR_CLUSTER, "cluster"},
               {11, "unknown"},
               {REPRIEVE_ERROR_UNRESPONSIVE, "unresponsive"},
               {REPRIEVE_ERROR_INTERNAL, "internal"},
               {REPRIEVE_ERROR_NO_MEMORY, "no_memory"},
               {REPRIEVE_PREEMPTED, "preempted"},
               {77, "unknown"},
               {-1, "unknown"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    CHECK(strcmp(reprieve_status_name(names[i].code), names[i].name) == 0);
  }
  CHECK(strcmp(reprieve_version(), REPRIEVE_VERSION) == 0);
  CHECK(strncmp(reprieve_version_details(), "reprieve " REPRIEVE_VERSION "\ncommit   ",
                19 + strlen(REPRIEVE_VERSION)) == 0);
  CHECK(reprieve_callback_error("text") == 1);
  CHECK(reprieve_callback_error(NULL) == 1);
}

static void null_handles(void) {
  int number = 7;
  size_t size_bytes = 7;
  reprieve_notice notice;
  const char* gone = "is NULL: it was not made or opened";
  CHECK_USAGE(gone, reprieve_add_replicated(NULL, "a", REPRIEVE_DOUBLE, &value, 0, NULL, NULL));
  CHECK_USAGE(gone, reprieve_add_distributed(NULL, "a", REPRIEVE_DOUBLE, &value, 2, shape, offset, shape, NULL));
  CHECK_USAGE(gone, reprieve_add_distributed_boxes(NULL, "a", REPRIEVE_DOUBLE, 2, shape, no_boxes, NULL));
  CHECK_USAGE(gone, reprieve_add_per_rank(NULL, "a", REPRIEVE_DOUBLE, &value, 0, NULL, NULL, NULL, NULL));
  CHECK_USAGE(gone, reprieve_add_replicated_resizable(NULL, "a", REPRIEVE_DOUBLE, 1, nothing_in_memory, NULL));
  CHECK_USAGE(gone, reprieve_add_per_rank_resizable(NULL, "a", REPRIEVE_DOUBLE, 1, nothing_in_memory, NULL, NULL));
  CHECK_USAGE(gone, reprieve_add_replicated_custom(NULL, "a", save_nothing, load_nothing, NULL));
  CHECK_USAGE(gone, reprieve_add_per_rank_custom(NULL, "a", save_nothing, load_nothing, NULL, NULL));
  CHECK_USAGE(gone, reprieve_boxes_add(NULL, &value, offset, shape, NULL));
  CHECK(reprieve_pieces_count(NULL) == 0);
  CHECK_USAGE(gone, reprieve_pieces_size(NULL, 0, &size_bytes));
  CHECK_USAGE(gone, reprieve_pieces_read(NULL, 0, &value, sizeof value));
  CHECK_USAGE(gone, reprieve_config_load_file(NULL, "a.json"));
  CHECK_USAGE(gone, reprieve_config_load_json(NULL, "{}"));
  CHECK_USAGE(gone, reprieve_config_set(NULL, "directory", "a"));
  CHECK_USAGE(gone, reprieve_config_apply_environment(NULL));
  CHECK(reprieve_config_json(NULL) == NULL);
  CHECK_USAGE(gone, reprieve_config_set_exit(NULL, REPRIEVE_EXIT_LEAVE));
  CHECK_USAGE(gone, reprieve_config_set_exit_fn(NULL, NULL, NULL));
  CHECK_USAGE(gone, reprieve_config_set_save_fn(NULL, NULL, NULL));
  CHECK_USAGE(gone, reprieve_config_set_watcher_fn(NULL, NULL, NULL));
  CHECK_USAGE(gone, reprieve_config_set_after_commit_fn(NULL, NULL, NULL));
  CHECK_USAGE(gone, reprieve_config_set_abort_fn(NULL, NULL, NULL));
  CHECK(reprieve_next_step(NULL, 1, &number) == 0 && number == REPRIEVE_ERROR_USAGE);
  CHECK_USAGE(gone, reprieve_step_begin(NULL));
  CHECK_USAGE(gone, reprieve_step_end(NULL));
  CHECK_USAGE(gone, reprieve_save_if_preempted(NULL));
  CHECK_USAGE(gone, reprieve_scope_begin(NULL));
  CHECK_USAGE(gone, reprieve_scope_end(NULL));
  CHECK_USAGE(gone, reprieve_fail(NULL, "text"));
  CHECK(reprieve_total_run_calls(NULL) == UINT64_MAX);
  CHECK(reprieve_preempted(NULL) == 0);
  CHECK_USAGE(gone, reprieve_preemption_notice(NULL, &notice));
  CHECK_USAGE(gone, reprieve_restored_from(NULL, &number, NULL));
  CHECK_USAGE(gone, reprieve_last_save(NULL, &number, NULL));
  CHECK_USAGE(gone, reprieve_already_finished(NULL, &number, NULL));
  CHECK_USAGE(gone, reprieve_add_constant(NULL, "a", "b"));
  CHECK_USAGE(gone, reprieve_config_set_step_fn(NULL, NULL, NULL));
  CHECK_USAGE(gone, reprieve_request_checkpoint(NULL));
  CHECK_USAGE(gone, reprieve_begin_phase(NULL));
  CHECK_USAGE(gone, reprieve_exit_code(NULL, &number));
  CHECK_USAGE(gone, reprieve_manager_save(NULL, 1));
  CHECK_USAGE(gone, reprieve_manager_save_next(NULL, NULL));
  CHECK_USAGE(gone, reprieve_manager_save_in_background(NULL, 1));
  CHECK_USAGE(gone, reprieve_manager_finish_background_save(NULL));
  CHECK_USAGE(gone, reprieve_manager_local_copy_next(NULL, NULL));
  CHECK_USAGE(gone, reprieve_manager_local_copy(NULL, 1, NULL));
  size_t count = 7;
  const reprieve_checkpoint_info* list = NULL;
  CHECK_USAGE(gone, reprieve_manager_checkpoints(NULL, &count, &list));
  CHECK(count == 0);
  CHECK(!reprieve_manager_background_save_pending(NULL) && !reprieve_manager_background_save_written(NULL));
  CHECK_USAGE(gone, reprieve_manager_restore_latest(NULL, &number, NULL));
  CHECK_USAGE(gone, reprieve_manager_restore(NULL, "a.h5"));
  CHECK_USAGE(gone, reprieve_manager_latest(NULL, &number, NULL));
}

static void null_places(void) {
  reprieve_checkpoint* checkpoint = NULL;
  reprieve_config* config = NULL;
  reprieve_handler* handler = NULL;
  reprieve_manager* manager = NULL;
  const char* place = "pass the address of a variable";
  CHECK_USAGE(place, reprieve_checkpoint_create(NULL));
  CHECK_USAGE(place, reprieve_checkpoint_destroy(NULL));
  CHECK_USAGE(place, reprieve_config_create(NULL));
  CHECK_USAGE(place, reprieve_config_destroy(NULL));
  CHECK_USAGE(place, reprieve_handler_close(NULL));
  CHECK_USAGE(place, reprieve_manager_close(NULL));
  /* What was never there, or is gone already, can be given back once more. */
  CHECK_OK(reprieve_checkpoint_destroy(&checkpoint));
  CHECK_OK(reprieve_config_destroy(&config));
  CHECK_OK(reprieve_handler_close(&handler));
  CHECK_OK(reprieve_manager_close(&manager));
}

static void wrong_registrations(void) {
  const ptrdiff_t narrow[] = {32, 4};
  const int64_t huge[] = {INT64_MAX, 3};
  reprieve_checkpoint* state = NULL;
  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_USAGE("the name is NULL", reprieve_add_replicated(state, NULL, REPRIEVE_DOUBLE, &value, 0, NULL, NULL));
  CHECK_USAGE("REPRIEVE_DOUBLE", reprieve_add_replicated(state, "a", 0, &value, 0, NULL, NULL));
  CHECK_USAGE("element type 99", reprieve_add_replicated(state, "a", 99, &value, 0, NULL, NULL));
  CHECK_USAGE("the data pointer is NULL", reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, NULL, 2, shape, NULL));
  CHECK_USAGE("-1 dimensions", reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, &value, -1, shape, NULL));
  CHECK_USAGE("33 dimensions", reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, &value, 33, shape, NULL));
  CHECK_USAGE("pass 2 numbers", reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, &value, 2, NULL, NULL));
  CHECK_USAGE("the shape is -4 in dimension 1",
              reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, &value, 2, negative, NULL));
  CHECK_USAGE("2^63", reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, &value, 2, huge, NULL));
  CHECK_USAGE("the stride of 4 bytes in dimension 1",
              reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, &value, 2, shape, narrow));
  CHECK_USAGE("the shape is -4",
              reprieve_add_per_rank(state, "a", REPRIEVE_DOUBLE, &value, 2, negative, NULL, NULL, NULL));
  CHECK_USAGE("the global shape is -4",
              reprieve_add_distributed(state, "a", REPRIEVE_DOUBLE, &value, 2, negative, offset, shape, NULL));
  CHECK_USAGE("the offset is -4",
              reprieve_add_distributed(state, "a", REPRIEVE_DOUBLE, &value, 2, shape, negative, shape, NULL));
  CHECK_USAGE("the extent is NULL",
              reprieve_add_distributed(state, "a", REPRIEVE_DOUBLE, &value, 2, shape, offset, NULL, NULL));
  CHECK_USAGE("no dimensions",
              reprieve_add_distributed(state, "a", REPRIEVE_DOUBLE, &value, 0, NULL, NULL, NULL, NULL));
  CHECK_USAGE("not inside",
              reprieve_add_distributed(state, "a", REPRIEVE_DOUBLE, &value, 2, shape, shape, shape, NULL));
  CHECK_USAGE("null", reprieve_add_distributed(state, "a", REPRIEVE_DOUBLE, NULL, 2, shape, offset, shape, NULL));
  CHECK_USAGE("describe function is NULL",
              reprieve_add_distributed_boxes(state, "a", REPRIEVE_DOUBLE, 2, shape, NULL, NULL));
  CHECK_USAGE("memory function is NULL", reprieve_add_replicated_resizable(state, "a", REPRIEVE_DOUBLE, 1, NULL, NULL));
  CHECK_USAGE("0 elements",
              reprieve_add_per_rank_resizable(state, "a", REPRIEVE_DOUBLE, 0, nothing_in_memory, NULL, NULL));
  CHECK_USAGE("save function is NULL", reprieve_add_replicated_custom(state, "a", NULL, load_nothing, NULL));
  CHECK_USAGE("load function is NULL", reprieve_add_per_rank_custom(state, "a", save_nothing, NULL, NULL, NULL));
  CHECK_USAGE("'a//b'", reprieve_add_replicated(state, "a//b", REPRIEVE_DOUBLE, &value, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, &value, 0, NULL, NULL));
  CHECK_USAGE("registered already", reprieve_add_replicated(state, "a", REPRIEVE_DOUBLE, &value, 0, NULL, NULL));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
  CHECK(state == NULL);
}

static void wrong_settings(void) {
  reprieve_config* config = NULL;
  CHECK_OK(reprieve_config_create(&config));
  CHECK_USAGE("the path is NULL", reprieve_config_load_file(config, NULL));
  CHECK_ERROR(REPRIEVE_ERROR_IO, "no-such-file", reprieve_config_load_file(config, test_path("no-such-file.json")));
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "terminatoin", reprieve_config_load_json(config, "{\"terminatoin\": {}}"));
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "", reprieve_config_load_json(config, "{"));
  CHECK_USAGE("the key is NULL", reprieve_config_set(config, NULL, "1"));
  CHECK_USAGE("the value is NULL", reprieve_config_set(config, "directory", NULL));
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "termination.restart_code", reprieve_config_set(config, "restart_code", "9"));
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "check_interval_ms: gone",
              reprieve_config_set(config, "termination.check_interval_ms", "9"));
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "termination.restart_code",
              reprieve_config_set(config, "termination.restart_code", "1000"));
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "checkpoints.durable",
              reprieve_config_set(config, "checkpoints.durable", "maybe"));
  CHECK_USAGE("REPRIEVE_EXIT_DEFAULT", reprieve_config_set_exit(config, 9));
  CHECK_OK(reprieve_config_set(config, "termination.restart_code", "75"));
  CHECK(strstr(reprieve_config_json(config), "75") != NULL);
  CHECK_OK(reprieve_config_destroy(&config));
  CHECK(config == NULL);
}

/* One rank alone did something wrong: all are told, and none hangs. */
static void open_tells_what_was_wrong_on_one_rank(void) {
  Parts parts = test_parts();
  const int last = test_size() - 1;
  if (test_rank() == last) {
    CHECK_STATUS(REPRIEVE_ERROR_USAGE,
                 reprieve_add_replicated(parts.state, "a", REPRIEVE_DOUBLE, &value, 2, negative, NULL));
  }
  CHECK_USAGE("the shape is -4", test_open_handler(&parts));
  CHECK_SAME_MESSAGE();
  CHECK(reprieve_last_error_origin_rank() == last);
  CHECK_USAGE("the shape is -4", test_open_manager(&parts));
  CHECK_OK(reprieve_checkpoint_destroy(&parts.state));

  CHECK_OK(reprieve_checkpoint_create(&parts.state));
  CHECK_USAGE("the checkpoint is NULL", reprieve_handler_open(MPI_COMM_WORLD, test_rank() == last ? NULL : parts.state,
                                                              test_path("c"), parts.config, &parts.handler));
  CHECK_USAGE("pass the address", reprieve_handler_open(MPI_COMM_WORLD, parts.state, test_path("c"), parts.config,
                                                        test_rank() == last ? NULL : &parts.handler));
  CHECK_USAGE("there is no checkpoint directory",
              reprieve_handler_open(MPI_COMM_WORLD, parts.state, test_rank() == last ? NULL : test_path("c"),
                                    parts.config, &parts.handler));
  CHECK_SAME_MESSAGE();
  CHECK_USAGE("MPI_COMM_NULL",
              reprieve_handler_open(MPI_COMM_NULL, parts.state, test_path("c"), parts.config, &parts.handler));
  if (test_rank() == last) {
    CHECK_STATUS(REPRIEVE_ERROR_CONFIG, reprieve_config_set(parts.config, "termination.grace_period_s", "-3"));
  }
  CHECK_ERROR(REPRIEVE_ERROR_CONFIG, "termination.grace_period_s", test_open_handler(&parts));
  CHECK(parts.handler == NULL && parts.manager == NULL);
  test_end(&parts);
}

static void annotations(void) {
  const char* const dims[] = {"y", "x"};
  const char* const no_names[] = {"y", NULL};
  static double grid[6];
  const int64_t six[] = {2, 3};
  reprieve_checkpoint* state = NULL;
  CHECK_OK(reprieve_checkpoint_create(&state));
  CHECK_OK(reprieve_add_replicated(state, "grid", REPRIEVE_DOUBLE, grid, 2, six, NULL));
  CHECK_OK(reprieve_annotate(state, "grid", "K", "temperature", 2, dims));
  CHECK_OK(reprieve_annotate(state, "grid", NULL, NULL, 0, NULL));
  CHECK_USAGE("'gird'", reprieve_annotate(state, "gird", "K", NULL, 0, NULL));
  CHECK_USAGE("the names of its 2 dimensions", reprieve_annotate(state, "grid", "K", NULL, 2, NULL));
  CHECK_USAGE("the name of a dimension is NULL", reprieve_annotate(state, "grid", "K", NULL, 2, no_names));
  CHECK_OK(reprieve_checkpoint_destroy(&state));
}

/* ---- Errors of each class. ---- */

static int failing_rank = -1;

static int describe_or_fail(reprieve_boxes* boxes, void* user) {
  const int64_t at[] = {test_rank()};
  const int64_t extent[] = {1};
  (void)user;
  if (test_rank() == failing_rank) {
    return reprieve_callback_error("the mesh is being rebuilt");
  }
  return reprieve_boxes_add(boxes, &value, at, extent, NULL);
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
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER,
              "the load function of variable 'own' failed: bytes of another program", /* values come before arrays */
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
  CHECK_SAME_MESSAGE();
  failing_rank = -1;
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
  unsetenv("REPRIEVE_TERMINATION_SAVE_EVERY_STEPS");
  unsetenv("REPRIEVE_DIRECTORY");
  test_end(&parts);
}

const Test error_tests[] = {{"names_of_codes", names_of_codes},
                            {"null_handles", null_handles},
                            {"null_places", null_places},
                            {"wrong_registrations", wrong_registrations},
                            {"annotations", annotations},
                            {"wrong_settings", wrong_settings},
                            {"open_tells_what_was_wrong_on_one_rank", open_tells_what_was_wrong_on_one_rank},
                            {"another_problem", another_problem},
                            {"callbacks_that_fail", callbacks_that_fail},
                            {"memory_of_the_wrong_size", memory_of_the_wrong_size},
                            {"text_of_a_callback", text_of_a_callback},
                            {"corrupt_file", corrupt_file},
                            {"settings_from_outside", settings_from_outside},
                            {"settings_of_the_environment", settings_of_the_environment},
                            {NULL, NULL}};
