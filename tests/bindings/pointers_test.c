/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that a program registers by the variables that point to them, and swaps: a wave with three time levels,
 * stopped at a step after which the levels are not where they began. */
#include <stdlib.h>

#include "check.h"

enum { kPoints = 12, kSteps = 20 };

/* Each rank's part of the wave has a ghost point on either side; `own` is equal on all ranks, `mine` is not. */
typedef struct Wave {
  double* before;
  double* now;
  double* next;
  int32_t* own;
  int32_t* other;
  double* mine;
  double* spare;
} Wave;

static void* new_array(size_t size, size_t count) {
  void* array = calloc(count, size);
  if (array == NULL) abort();
  return array;
}

static Wave new_wave(void) {
  Wave wave;
  wave.before = new_array(sizeof(double), kPoints + 2);
  wave.now = new_array(sizeof(double), kPoints + 2);
  wave.next = new_array(sizeof(double), kPoints + 2);
  wave.own = new_array(sizeof(int32_t), 3);
  wave.other = new_array(sizeof(int32_t), 3);
  wave.mine = new_array(sizeof(double), 2);
  wave.spare = new_array(sizeof(double), 2);
  for (int i = 1; i <= kPoints; ++i) {
    wave.before[i] = wave.now[i] = (double)(i % 5) + test_rank();
  }
  return wave;
}

static void free_wave(Wave* wave) {
  free(wave->before);
  free(wave->now);
  free(wave->next);
  free(wave->own);
  free(wave->other);
  free(wave->mine);
  free(wave->spare);
}

static void step(Wave* wave) {
  double* const oldest = wave->before;
  int32_t* const own = wave->own;
  double* const mine = wave->mine;
  for (int i = 1; i <= kPoints; ++i) {
    wave->next[i] =
        2 * wave->now[i] - wave->before[i] + 0.25 * (wave->now[i - 1] - 2 * wave->now[i] + wave->now[i + 1]);
  }
  wave->before = wave->now;
  wave->now = wave->next;
  wave->next = oldest;
  for (int i = 0; i < 3; ++i) {
    wave->other[i] = own[i] + i + 1;
  }
  wave->own = wave->other;
  wave->other = own;
  for (int i = 0; i < 2; ++i) {
    wave->spare[i] = mine[i] + test_rank() + 1;
  }
  wave->mine = wave->spare;
  wave->spare = mine;
}

static Parts parts_of(Wave* wave) {
  const int64_t points = kPoints, three = 3, two = 2;
  const int64_t shape[] = {points * test_size()}, offset[] = {points * test_rank()};
  const Parts parts = test_parts();
  CHECK_OK(reprieve_add_distributed_at(parts.state, "before", REPRIEVE_DOUBLE, &wave->before, 1, 1, shape, offset,
                                       &points, NULL));
  CHECK_OK(
      reprieve_add_distributed_at(parts.state, "now", REPRIEVE_DOUBLE, &wave->now, 1, 1, shape, offset, &points, NULL));
  CHECK_OK(reprieve_add_replicated_at(parts.state, "own", REPRIEVE_INT32, &wave->own, 1, &three, NULL));
  CHECK_OK(reprieve_add_per_rank_at(parts.state, "mine", REPRIEVE_DOUBLE, &wave->mine, 1, &two, NULL, NULL, NULL));
  return parts;
}

/* Saves at step 7, and makes more steps than that. */
static void run(Wave* wave, unsigned steps) {
  Parts parts = parts_of(wave);
  int status = REPRIEVE_OK;
  CHECK_OK(reprieve_config_set(parts.config, "termination.save_every_steps", "7"));
  CHECK_OK(reprieve_config_set(parts.config, "termination.save_at_finish", "false"));
  CHECK_OK(test_open_handler(&parts));
  while (reprieve_next_step(parts.handler, steps, &status)) {
    step(wave);
  }
  CHECK_OK(status);
  test_end(&parts);
}

static void swapped_at_every_step(void) {
  Wave undisturbed = new_wave(), first = new_wave(), second = new_wave();
  for (int i = 0; i < kSteps; ++i) {
    step(&undisturbed);
  }
  run(&first, 9);
  run(&second, kSteps); /* resumes at step 7 */
  CHECK(memcmp(second.now + 1, undisturbed.now + 1, kPoints * sizeof(double)) == 0);
  CHECK(memcmp(second.before + 1, undisturbed.before + 1, kPoints * sizeof(double)) == 0);
  CHECK(memcmp(second.own, undisturbed.own, 3 * sizeof(int32_t)) == 0);
  CHECK(memcmp(second.mine, undisturbed.mine, 2 * sizeof(double)) == 0);
  free_wave(&first);
  free_wave(&second);
  free_wave(&undisturbed);
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

const Test pointer_tests[] = {{"pointers.swapped_at_every_step", swapped_at_every_step},
                              {"pointers.allocated_anew", allocated_anew},
                              {"pointers.mistakes", mistakes},
                              {NULL, NULL}};
