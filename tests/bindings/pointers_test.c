/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that a program registers by the variables that point to them, and swaps or allocates anew. */
#include <stdlib.h>

#include "check.h"

enum { kPoints = 12 };

static void* new_array(size_t size, size_t count) {
  void* array = calloc(count, size);
  if (array == NULL) abort();
  return array;
}

static void fill(double* values, double value) {
  for (int i = 0; i < kPoints + 2; ++i) {
    values[i] = value + i;
  }
}

/* Each rank's part of a field has a ghost point on either side; `mine` is each rank's own. The two change places before
 * the save and before the restore. */
static void swapped(void) {
  const int64_t points = kPoints;
  const int64_t shape[] = {points * test_size()}, offset[] = {points * test_rank()};
  double* arrays[2] = {new_array(sizeof(double), kPoints + 2), new_array(sizeof(double), kPoints + 2)};
  double *field = arrays[0], *mine = arrays[1];
  Parts parts = test_parts();
  CHECK_OK(
      reprieve_add_distributed_at(parts.state, "field", REPRIEVE_DOUBLE, &field, 1, 1, shape, offset, &points, NULL));
  CHECK_OK(reprieve_add_per_rank_at(parts.state, "mine", REPRIEVE_DOUBLE, &mine, 1, &points, NULL, NULL, NULL));
  field = arrays[1];
  mine = arrays[0];
  fill(field, 100 * test_rank());
  fill(mine, 7000 + test_rank());
  CHECK_OK(test_open_manager(&parts));
  CHECK_OK(reprieve_manager_save(parts.manager, 1));
  field = arrays[0];
  mine = arrays[1];
  fill(field, -1000);
  fill(mine, -1000);
  CHECK_OK(reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  CHECK(field[0] == -1000 && field[kPoints + 1] == -1000 + kPoints + 1); /* the ghosts are not the library's */
  for (int i = 0; i < kPoints; ++i) {
    CHECK(field[i + 1] == 100 * test_rank() + i + 1 && mine[i] == 7000 + test_rank() + i);
  }
  test_end(&parts);
  free(arrays[0]);
  free(arrays[1]);
}

static void allocated_anew(void) {
  const int64_t three = 3;
  int32_t* values = new_array(sizeof(int32_t), 3);
  Parts parts = test_parts();
  CHECK_OK(reprieve_add_replicated_at(parts.state, "values", REPRIEVE_INT32, &values, 1, &three, NULL));
  CHECK_OK(test_open_manager(&parts));
  free(values);
  values = new_array(sizeof(int32_t), 3);
  values[2] = 5;
  CHECK_OK(reprieve_manager_save(parts.manager, 1));
  values[2] = 0;
  CHECK_OK(reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  CHECK(values[2] == 5);
  free(values);
  values = NULL;
  CHECK_USAGE("null", reprieve_manager_save(parts.manager, 2));
  test_end(&parts);
}

static void mistakes(void) {
  const int64_t one = 1, zero = 0;
  double* null = NULL;
  double value = 1;
  double* pointer = &value;
  Parts parts = test_parts();
  CHECK_USAGE("the address of the pointer is NULL",
              reprieve_add_replicated_at(parts.state, "a", REPRIEVE_DOUBLE, NULL, 1, &one, NULL));
  CHECK_USAGE("NULL", reprieve_add_replicated_at(parts.state, "b", REPRIEVE_DOUBLE, &null, 1, &one, NULL));
  CHECK_USAGE("the first element is -1",
              reprieve_add_distributed_at(parts.state, "c", REPRIEVE_DOUBLE, &pointer, -1, 1, &one, &zero, &one, NULL));
  test_end(&parts);
}

const Test pointer_tests[] = {{"pointers.swapped", swapped},
                              {"pointers.allocated_anew", allocated_anew},
                              {"pointers.mistakes", mistakes},
                              {NULL, NULL}};
