/* SPDX-License-Identifier: BSD-3-Clause */
/* Main of the C tests: all ranks run the same tests side by side. A failure on any rank fails the program. */
#define _XOPEN_SOURCE 700

#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static int rank = 0;
static int size = 1;
static int failures = 0;
static const char* running = "before MPI_Init";
static char directory[kPathSize];

int test_rank(void) { return rank; }

int test_size(void) { return size; }

const char* test_path(const char* name) {
  static char paths[2][kPathSize + 64];
  static int next = 0;
  next = 1 - next;
  snprintf(paths[next], sizeof paths[next], "%s/%s", directory, name);
  return paths[next];
}

void test_failed(const char* file, int line, const char* text) {
  ++failures;
  printf("[rank %d/%d] %s: %s:%d: %s\n", rank, size, running, file, line, text);
  fflush(stdout);
}

void check_same_message(const char* file, int line) {
  char of_rank_0[2048] = "";
  if (rank == 0) {
    snprintf(of_rank_0, sizeof of_rank_0, "%s", reprieve_last_error_message());
  }
  MPI_Bcast(of_rank_0, (int)sizeof of_rank_0, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (strncmp(of_rank_0, reprieve_last_error_message(), sizeof of_rank_0 - 1) != 0) {
    char text[5000];
    snprintf(text, sizeof text, "rank 0 has '%s', but this rank '%s'", of_rank_0, reprieve_last_error_message());
    test_failed(file, line, text);
  }
}

reprieve_config* test_config(void) {
  reprieve_config* config = NULL;
  CHECK_OK(reprieve_config_create(&config));
  CHECK_OK(reprieve_config_load_json(config,
                                     "{\"platform\": \"other\", \"termination\": {\"peer_timeout_s\": 60, "
                                     "\"error_timeout_s\": 60, \"metadata\": \"none\"},"
                                     " \"checkpoints\": {\"io_timeout_s\": 60, \"lock_timeout_s\": 0}, \"log\": "
                                     "{\"level\": \"error\", \"other_ranks\": \"error\"}}"));
  CHECK_OK(reprieve_config_set_exit(config, REPRIEVE_EXIT_RETURN));
  return config;
}

Parts test_parts(void) {
  Parts parts = {NULL, test_config(), NULL, NULL};
  CHECK_OK(reprieve_checkpoint_create(&parts.state));
  return parts;
}

int test_open_manager(Parts* parts) {
  return reprieve_manager_open(MPI_COMM_WORLD, parts->state, test_path("c"), parts->config, &parts->manager);
}

int test_open_handler(Parts* parts) {
  return reprieve_handler_open(MPI_COMM_WORLD, parts->state, test_path("c"), parts->config, &parts->handler);
}

void test_end(Parts* parts) {
  CHECK_OK(reprieve_manager_close(&parts->manager));
  CHECK_OK(reprieve_handler_close(&parts->handler));
  CHECK_OK(reprieve_checkpoint_destroy(&parts->state));
  CHECK_OK(reprieve_config_destroy(&parts->config));
  CHECK(parts->manager == NULL && parts->handler == NULL && parts->state == NULL && parts->config == NULL);
}

static int remove_entry(const char* path, const struct stat* status, int type, struct FTW* place) {
  (void)status;
  (void)type;
  (void)place;
  return remove(path);
}

static void make_directory(void) {
  const char* parent = getenv("TMPDIR");
  if (rank == 0) {
    snprintf(directory, sizeof directory, "%s/reprieve-c-test.XXXXXX", parent == NULL ? "/tmp" : parent);
    if (mkdtemp(directory) == NULL) {
      perror(directory);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Bcast(directory, (int)sizeof directory, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void run(const Test* test) {
  running = test->name;
  const int before = failures;
  make_directory();
  test->run();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  }
  int failed = failures - before;
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s %s\n", failed == 0 ? "[ OK ]" : "[FAIL]", test->name);
    fflush(stdout);
  }
}

int main(int argc, char** argv) {
  const Test* const lists[] = {error_tests, state_tests, version_tests, pointer_tests,
                               walk_tests,  fault_tests, loop_tests};
  const char* filter = argc > 1 ? argv[1] : "";
  int count = 0;

  test_before_mpi();
  CHECK_OK(reprieve_watch_signals());
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (size_t list = 0; list < sizeof lists / sizeof *lists; ++list) {
    for (const Test* test = lists[list]; test->name != NULL; ++test) {
      if (strstr(test->name, filter) != NULL) {
        run(test);
        ++count;
      }
    }
  }
  CHECK_OK(reprieve_unwatch_signals());
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return failures == 0 && count > 0 ? 0 : 1;
}
