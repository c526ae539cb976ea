/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of variable: saved on all ranks, overwritten, restored on all ranks, and on one rank fewer. */
#include <complex.h>
#include <stdbool.h>
#include <stdlib.h>

#include "check.h"

/* ---- All types, as scalars, arrays and with strides. ---- */

typedef struct Particle {
  double position[3];
  int32_t id;
} Particle;

typedef struct AllTypes {
  int8_t i8;
  int16_t i16;
  int32_t i32;
  int64_t i64;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
  float f;
  double d;
  long double ld;
  float _Complex cf;
  double _Complex cd;
  long double _Complex cld;
  bool b;
  char text[6];
  unsigned char bytes[3];
  double matrix[3][2];
  Particle particles[4]; /* of which the ids are registered */
} AllTypes;

static const AllTypes kFull = {-8,
                               -1600,
                               -320000,
                               -6400000000,
                               200,
                               60000,
                               4000000000U,
                               18000000000000000000U,
                               1.5F,
                               -2.25,
                               3.125L,
                               4.0F,
                               5.0,
                               6.0L,
                               true,
                               "hello",
                               {1, 2, 3},
                               {{1, 2}, {3, 4}, {5, 6}},
                               {{{0, 0, 0}, 10}, {{0, 0, 0}, 11}, {{0, 0, 0}, 12}, {{0, 0, 0}, 13}}};

static Parts all_types(AllTypes* v) {
  const int64_t six = 6;
  const int64_t four = 4;
  const int64_t matrix[] = {3, 2};
  const int64_t bytes[] = {1, 3};
  const ptrdiff_t particle = sizeof(Particle);
  const Parts parts = test_parts();
  CHECK_OK(reprieve_add_replicated(parts.state, "i8", REPRIEVE_INT8, &v->i8, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "i16", REPRIEVE_INT16, &v->i16, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "i32", REPRIEVE_INT32, &v->i32, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "i64", REPRIEVE_INT64, &v->i64, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "u8", REPRIEVE_UINT8, &v->u8, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "u16", REPRIEVE_UINT16, &v->u16, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "u32", REPRIEVE_UINT32, &v->u32, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "u64", REPRIEVE_UINT64, &v->u64, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "f", REPRIEVE_FLOAT, &v->f, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "d", REPRIEVE_DOUBLE, &v->d, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "ld", REPRIEVE_LONG_DOUBLE, &v->ld, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "cf", REPRIEVE_COMPLEX_FLOAT, &v->cf, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "cd", REPRIEVE_COMPLEX_DOUBLE, &v->cd, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "cld", REPRIEVE_COMPLEX_LONG_DOUBLE, &v->cld, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "b", REPRIEVE_BOOL, &v->b, 0, NULL, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "text", REPRIEVE_CHAR, v->text, 1, &six, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "bytes", REPRIEVE_BYTE, v->bytes, 2, bytes, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "matrix", REPRIEVE_DOUBLE, v->matrix, 2, matrix, NULL));
  CHECK_OK(reprieve_add_replicated(parts.state, "ids", REPRIEVE_INT32, &v->particles[0].id, 1, &four, &particle));
  return parts;
}

static void check_equal(const AllTypes* a, const AllTypes* b) {
  CHECK(a->i8 == b->i8 && a->i16 == b->i16 && a->i32 == b->i32 && a->i64 == b->i64);
  CHECK(a->u8 == b->u8 && a->u16 == b->u16 && a->u32 == b->u32 && a->u64 == b->u64);
  CHECK(a->f == b->f && a->d == b->d && a->ld == b->ld);
  CHECK(a->cf == b->cf && a->cd == b->cd && a->cld == b->cld);
  CHECK(a->b == b->b);
  CHECK(memcmp(a->text, b->text, sizeof a->text) == 0);
  CHECK(memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0);
  CHECK(memcmp(a->matrix, b->matrix, sizeof a->matrix) == 0);
  for (int i = 0; i < 4; ++i) {
    CHECK(a->particles[i].id == b->particles[i].id);
    CHECK(a->particles[i].position[2] == b->particles[i].position[2]);
  }
}

static void every_type(void) {
  AllTypes values = kFull;
  Parts parts = all_types(&values);
  reprieve_checkpoint_info info;
  int found = 7;
  CHECK_OK(test_open_manager(&parts));
  CHECK_OK(reprieve_manager_latest(parts.manager, &found, &info));
  CHECK(found == 0 && info.path[0] == '\0');
  size_t count = 7;
  const reprieve_checkpoint_info* list = NULL;
  CHECK_OK(reprieve_manager_checkpoints(parts.manager, &count, &list));
  CHECK(count == 0);
  CHECK_OK(reprieve_manager_restore_latest(parts.manager, &found, NULL));
  CHECK(found == 0);
  CHECK_USAGE("close its handler or manager first", reprieve_checkpoint_destroy(&parts.state));
  CHECK_OK(reprieve_manager_save(parts.manager, 7));
  memset(&values, 0, sizeof values);
  CHECK_OK(reprieve_manager_restore_latest(parts.manager, &found, &info));
  CHECK(found == 1 && info.number == 7 && info.world_size == test_size() && strcmp(info.reason, "user") == 0);
  CHECK(info.size_bytes > 0 && info.time_s > 1e9 && strstr(info.path, "ckpt-") != NULL);
  check_equal(&values, &kFull);

  CHECK(!reprieve_manager_background_save_pending(parts.manager) &&
        reprieve_manager_background_save_written(parts.manager));
  CHECK_OK(reprieve_manager_save_in_background(parts.manager, 8));
  CHECK(reprieve_manager_background_save_pending(parts.manager));
  while (!reprieve_manager_background_save_written(parts.manager)) {
  }
  CHECK(reprieve_manager_background_save_pending(parts.manager)); /* until it is committed */
  CHECK_OK(reprieve_manager_finish_background_save(parts.manager));
  CHECK(!reprieve_manager_background_save_pending(parts.manager));
  CHECK_OK(reprieve_manager_latest(parts.manager, &found, &info));
  CHECK(found == 1 && info.number == 8);
  CHECK_USAGE("numbers of the program", reprieve_manager_local_copy_next(parts.manager, &found));
  CHECK_USAGE("local_directory", reprieve_manager_local_copy(parts.manager, 9, &found));
  CHECK_OK(reprieve_manager_checkpoints(parts.manager, &count, &list));
  CHECK(count == 2 && list[0].number == 7 && list[1].number == 8 && strcmp(list[1].path, list[0].path) != 0);
  CHECK_USAGE("pass the address", reprieve_manager_checkpoints(parts.manager, &count, NULL));
  memset(&values, 0, sizeof values);
  char path[kPathSize];
  snprintf(path, sizeof path, "%s", info.path);
  CHECK_OK(reprieve_manager_restore(parts.manager, path));
  check_equal(&values, &kFull);
  test_end(&parts);
}

/* ---- Arrays that are spread over the ranks, restored on another number of them. ---- */

enum { kRows = 10, kColumns = 4, kGhost = 1 };

/* The rows of one rank: with a ghost row on either side, and the same rows as a list of blocks of one row each. */
typedef struct Field {
  int first;
  int count;
  double* padded;
  double* blocks;
} Field;

static Field make_field(int rank, int size) {
  Field field = {rank * kRows / size, (rank + 1) * kRows / size - rank * kRows / size, NULL, NULL};
  field.padded = calloc((size_t)(field.count + 2 * kGhost) * kColumns, sizeof(double));
  field.blocks = calloc((size_t)field.count * kColumns + 1, sizeof(double));
  return field;
}

static void free_field(Field* field) {
  free(field->padded);
  free(field->blocks);
}

static double* interior(const Field* field) { return field->padded + kGhost * kColumns; }

static int describe_rows(reprieve_boxes* boxes, void* user) {
  const Field* field = user;
  for (int i = 0; i < field->count; ++i) {
    const int64_t offset[] = {field->first + i, 0};
    const int64_t extent[] = {1, kColumns};
    if (reprieve_boxes_add(boxes, field->blocks + i * kColumns, offset, extent, NULL) != REPRIEVE_OK) {
      return reprieve_callback_error(reprieve_last_error_message());
    }
  }
  return 0;
}

static void add_field(reprieve_checkpoint* state, Field* field) {
  const int64_t global[] = {kRows, kColumns};
  const int64_t offset[] = {field->first, 0};
  const int64_t extent[] = {field->count, kColumns};
  /* The second time every other column, seen as an array of its own. */
  const int64_t half_global[] = {kRows, kColumns / 2};
  const int64_t half_extent[] = {field->count, kColumns / 2};
  const ptrdiff_t strides[] = {kColumns * sizeof(double), 2 * sizeof(double)};
  CHECK_OK(reprieve_add_distributed(state, "field", REPRIEVE_DOUBLE, interior(field), 2, global, offset, extent, NULL));
  CHECK_OK(reprieve_add_distributed(state, "half", REPRIEVE_DOUBLE, interior(field), 2, half_global, offset,
                                    half_extent, strides));
  CHECK_OK(reprieve_add_distributed_boxes(state, "blocks", REPRIEVE_DOUBLE, 2, global, describe_rows, field));
}

static double expected(int row, int column) { return 100.0 * row + column + 0.5; }

/* ---- Values of each rank's own. ---- */

typedef struct Own {
  int32_t fixed[2];
  double* list; /* items of three */
  int64_t count;
  char note[64];
} Own;

static int list_memory(int64_t wanted, void** data, int64_t* count, void* user) {
  Own* own = user;
  if (wanted >= 0) {
    free(own->list);
    own->list = malloc((size_t)wanted * 3 * sizeof(double) + 1);
    if (own->list == NULL) {
      return reprieve_callback_error("no memory for the list");
    }
    own->count = wanted;
  }
  *data = own->list;
  *count = own->count;
  return 0;
}

static int save_note(const void** bytes, size_t* size_bytes, void* user) {
  Own* own = user;
  *bytes = own->note;
  *size_bytes = strlen(own->note);
  return 0;
}

static int load_note(const void* bytes, size_t size_bytes, void* user) {
  Own* own = user;
  if (size_bytes >= sizeof own->note) {
    return reprieve_callback_error("the note is too long");
  }
  memcpy(own->note, bytes, size_bytes);
  own->note[size_bytes] = '\0';
  return 0;
}

/* Every rank takes the sums over the saved ones. */
static int sum_fixed(reprieve_pieces* pieces, int rank, int size, void* user) {
  Own* own = user;
  (void)rank;
  (void)size;
  memset(own->fixed, 0, sizeof own->fixed);
  for (int saved = 0; saved < reprieve_pieces_count(pieces); ++saved) {
    int32_t part[2];
    if (reprieve_pieces_read(pieces, saved, part, sizeof part) != REPRIEVE_OK) {
      return reprieve_callback_error(reprieve_last_error_message());
    }
    own->fixed[0] += part[0];
    own->fixed[1] += part[1];
  }
  /* What it must not ask for. */
  size_t bytes = 0;
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_pieces_size(pieces, reprieve_pieces_count(pieces), &bytes));
  CHECK_STATUS(REPRIEVE_ERROR_USAGE, reprieve_pieces_size(pieces, -1, &bytes));
  CHECK_USAGE("pass the address", reprieve_pieces_size(pieces, 0, NULL));
  CHECK_USAGE("pass the address", reprieve_pieces_read(pieces, 0, NULL, 8));
  CHECK_USAGE("ask reprieve_pieces_size", reprieve_pieces_read(pieces, 0, own->fixed, 7));
  return 0;
}

/* The lists of the saved ranks go round. */
static int deal_lists(reprieve_pieces* pieces, int rank, int size, void* user) {
  Own* own = user;
  int64_t items = 0;
  void* data = NULL;
  for (int pass = 0; pass < 2; ++pass) {
    int64_t filled = 0;
    for (int saved = rank; saved < reprieve_pieces_count(pieces); saved += size) {
      size_t bytes = 0;
      int status = reprieve_pieces_size(pieces, saved, &bytes);
      if (status == REPRIEVE_OK && pass == 1) {
        status = reprieve_pieces_read(pieces, saved, own->list + 3 * filled, bytes);
      }
      if (status != REPRIEVE_OK) {
        return reprieve_callback_error(reprieve_last_error_message());
      }
      filled += (int64_t)(bytes / (3 * sizeof(double)));
    }
    if (pass == 0 && list_memory(filled, &data, &items, own) != 0) {
      return 1;
    }
  }
  return 0;
}

static int join_notes(reprieve_pieces* pieces, int rank, int size, void* user) {
  Own* own = user;
  (void)size;
  snprintf(own->note, sizeof own->note, "rank %d of %d saved", rank, reprieve_pieces_count(pieces));
  return 0;
}

static void add_own(reprieve_checkpoint* state, Own* own) {
  const int64_t two = 2;
  CHECK_OK(reprieve_add_per_rank(state, "own/fixed", REPRIEVE_INT32, own->fixed, 1, &two, NULL, sum_fixed, own));
  CHECK_OK(reprieve_add_per_rank_resizable(state, "own/list", REPRIEVE_DOUBLE, 3, list_memory, deal_lists, own));
  CHECK_OK(reprieve_add_per_rank_custom(state, "own/note", save_note, load_note, join_notes, own));
}

static void fill(Field* field, Own* own, int rank) {
  for (int i = 0; i < field->count * kColumns; ++i) {
    const double value = expected(field->first + i / kColumns, i % kColumns);
    interior(field)[i] = value;
    field->blocks[i] = -value;
  }
  own->fixed[0] = rank + 1;
  own->fixed[1] = 10 * rank;
  void* data = NULL;
  CHECK(list_memory(rank + 2, &data, &own->count, own) == 0);
  for (int i = 0; i < 3 * (rank + 2); ++i) {
    own->list[i] = 1000.0 * rank + i;
  }
  snprintf(own->note, sizeof own->note, "a note of rank %d", rank);
}

static void check_field(const Field* field) {
  for (int i = 0; i < field->count * kColumns; ++i) {
    const double value = expected(field->first + i / kColumns, i % kColumns);
    CHECK(interior(field)[i] == value);
    CHECK(field->blocks[i] == -value);
  }
  for (int i = 0; i < kColumns; ++i) { /* the ghosts are not the library's */
    CHECK(field->padded[i] == 0);
    CHECK(interior(field)[field->count * kColumns + i] == 0);
  }
}

static void check_own_of(const Own* own, int rank) {
  char note[64];
  snprintf(note, sizeof note, "a note of rank %d", rank);
  CHECK(own->fixed[0] == rank + 1 && own->fixed[1] == 10 * rank);
  CHECK(own->count == rank + 2);
  CHECK(own->count == rank + 2 && own->list[3 * (rank + 2) - 1] == 1000.0 * rank + 3 * (rank + 2) - 1);
  CHECK(strcmp(own->note, note) == 0);
}

static void check_redistributed(const Own* own, int rank, int size, int saved_size) {
  int64_t count = 0;
  int32_t sum = 0;
  for (int saved = 0; saved < saved_size; ++saved) {
    sum += saved + 1;
    count += saved % size == rank ? saved + 2 : 0;
  }
  CHECK(own->fixed[0] == sum);
  CHECK(own->count == count);
  CHECK(own->count == 0 || own->list[0] == 1000.0 * rank);
  CHECK(strstr(own->note, "saved") != NULL);
}

static void save_restore(MPI_Comm comm, const char* directory, int saved_size) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  Field field = make_field(rank, size);
  Own own = {{0, 0}, NULL, 0, ""};
  Parts parts = test_parts();
  int restored = 0;
  add_field(parts.state, &field);
  add_own(parts.state, &own);
  CHECK_OK(reprieve_manager_open(comm, parts.state, directory, parts.config, &parts.manager));
  if (saved_size == 0) {
    fill(&field, &own, rank);
    CHECK_OK(reprieve_manager_save(parts.manager, 1));
    memset(interior(&field), 0, (size_t)field.count * kColumns * sizeof(double));
    memset(field.blocks, 0, (size_t)field.count * kColumns * sizeof(double));
    own.count = 0;
    own.fixed[0] = own.fixed[1] = 0;
    own.note[0] = '\0';
  }
  CHECK_OK(reprieve_manager_restore_latest(parts.manager, &restored, NULL));
  CHECK(restored == 1);
  check_field(&field);
  if (saved_size == 0) {
    check_own_of(&own, rank);
  } else {
    check_redistributed(&own, rank, size, saved_size);
  }
  test_end(&parts);
  free_field(&field);
  free(own.list);
}

static void all_kinds_and_another_number_of_ranks(void) {
  save_restore(MPI_COMM_WORLD, test_path("c"), 0);
  if (test_size() > 1) {
    MPI_Comm fewer = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, test_rank() == 0 ? MPI_UNDEFINED : 1, test_rank(), &fewer);
    if (fewer != MPI_COMM_NULL) {
      save_restore(fewer, test_path("c"), test_size());
      MPI_Comm_free(&fewer);
    }
  }
}

/* ---- Files that the program writes and reads itself. ---- */

static int restart_files(const char* prefix, int restores, void* user) {
  int* const value = user;
  const MPI_Offset offset = (MPI_Offset)sizeof *value * test_rank();
  const int mode = restores ? MPI_MODE_RDONLY : MPI_MODE_CREATE | MPI_MODE_WRONLY;
  char path[kPathSize];
  MPI_File file;
  snprintf(path, sizeof path, "%s.values", prefix);
  if (*value < 0 || MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS) {
    return 1;
  }
  if (restores) {
    MPI_File_read_at_all(file, offset, value, 1, MPI_INT, MPI_STATUS_IGNORE);
  } else {
    MPI_File_write_at_all(file, offset, value, 1, MPI_INT, MPI_STATUS_IGNORE);
  }
  return MPI_File_close(&file);
}

static void files_of_the_program(void) {
  int value = 10 + test_rank();
  Parts parts = test_parts();
  CHECK_OK(reprieve_add_files(parts.state, "restart", MPI_COMM_WORLD, test_path(""), restart_files, &value));
  CHECK_OK(test_open_manager(&parts));
  CHECK_OK(reprieve_manager_save(parts.manager, 1));
  value = 0;
  CHECK_OK(reprieve_manager_restore_latest(parts.manager, NULL, NULL));
  CHECK(value == 10 + test_rank());
  value = -1;
  CHECK_ERROR(REPRIEVE_ERROR_CLUSTER, "the function for the files of variable 'restart'",
              reprieve_manager_save(parts.manager, 2));
  test_end(&parts);
  parts = test_parts();
  CHECK_USAGE("is NULL", reprieve_add_files(parts.state, "restart", MPI_COMM_WORLD, test_path(""), NULL, NULL));
  test_end(&parts);
}

const Test state_tests[] = {{"every_type", every_type},
                            {"all_kinds_and_another_number_of_ranks", all_kinds_and_another_number_of_ranks},
                            {"state.files_of_the_program", files_of_the_program},
                            {NULL, NULL}};
