/* SPDX-License-Identifier: BSD-3-Clause */
/* What the C tests have in common: checks that count failures, and a main that runs named tests under mpirun. */
#ifndef REPRIEVE_TESTS_BINDINGS_CHECK_H
#define REPRIEVE_TESTS_BINDINGS_CHECK_H

#include <reprieve/reprieve.h>
#include <stdio.h>
#include <string.h>

enum { kPathSize = 4096 };

/* Of MPI_COMM_WORLD. */
int test_rank(void);
int test_size(void);
/* The directory of the running test, for all ranks; it goes with the test. Below it: test_path("a"). The text is valid
 * until the next but one call. */
const char* test_path(const char* name);
/* Notes a failure of this rank. */
void test_failed(const char* file, int line, const char* text);
/* A config with which a test that hangs ends: ranks are waited for a minute. The exit returns. */
reprieve_config* test_config(void);

/* What most tests open, all ranks in the directory "c" of the test. */
typedef struct Parts {
  reprieve_checkpoint* state;
  reprieve_config* config; /* test_config() */
  reprieve_manager* manager;
  reprieve_handler* handler;
} Parts;

/* A state with nothing in it; nothing is open yet. */
Parts test_parts(void);
int test_open_manager(Parts* parts);
int test_open_handler(Parts* parts);
/* Closes what is open, and gives back the rest. */
void test_end(Parts* parts);

#define CHECK(condition)                           \
  do {                                             \
    if (!(condition)) {                            \
      test_failed(__FILE__, __LINE__, #condition); \
    }                                              \
  } while (0)

/* The call returns this code; otherwise its message is shown. */
#define CHECK_STATUS(expected, call)                                                                             \
  do {                                                                                                           \
    const int check_status = (call);                                                                             \
    if (check_status != (expected)) {                                                                            \
      char check_text[2048];                                                                                     \
      snprintf(check_text, sizeof check_text, "%s is %s, not %s: %s", #call, reprieve_status_name(check_status), \
               reprieve_status_name(expected), check_status == 0 ? "" : reprieve_last_error_message());          \
      test_failed(__FILE__, __LINE__, check_text);                                                               \
    }                                                                                                            \
  } while (0)

#define CHECK_OK(call) CHECK_STATUS(REPRIEVE_OK, call)

/* The call fails with this code, and the message has this in it. */
#define CHECK_ERROR(expected, text, call)                                                              \
  do {                                                                                                 \
    CHECK_STATUS(expected, call);                                                                      \
    if (strstr(reprieve_last_error_message(), text) == NULL) {                                         \
      char check_text[2048];                                                                           \
      snprintf(check_text, sizeof check_text, "no '%s' in '%s'", text, reprieve_last_error_message()); \
      test_failed(__FILE__, __LINE__, check_text);                                                     \
    }                                                                                                  \
  } while (0)

#define CHECK_USAGE(text, call) CHECK_ERROR(REPRIEVE_ERROR_USAGE, text, call)

/* The message of the last error is the same on every rank. Collective. */
void check_same_message(const char* file, int line);
#define CHECK_SAME_MESSAGE() check_same_message(__FILE__, __LINE__)

typedef struct Test {
  const char* name;
  void (*run)(void);
} Test;

/* Each file of tests has a list, which ends with a null name. */
extern const Test state_tests[];
extern const Test loop_tests[];
extern const Test error_tests[];
extern const Test fault_tests[];
extern const Test version_tests[];
extern const Test pointer_tests[];
extern const Test walk_tests[];
/* Run before MPI_Init. */
void test_before_mpi(void);

#endif
