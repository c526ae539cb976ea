/* SPDX-License-Identifier: BSD-3-Clause */
/* What Fortran passes: arrays as descriptors (ISO_Fortran_binding.h), communicators as integers. On top of reprieve.h.
 */
#include "bindings/fortran/descriptors.h"

#include <string.h>

/* 0 if there is no such type, or it is stored as bytes. */
static int type_of_number(const CFI_cdesc_t* value) {
  if (value->type == CFI_type_long_double) { /* not among the cases, since it may be double */
    return sizeof(long double) == sizeof(double) ? REPRIEVE_DOUBLE : REPRIEVE_LONG_DOUBLE;
  }
  if (value->type == CFI_type_long_double_Complex) {
    return sizeof(long double) == sizeof(double) ? REPRIEVE_COMPLEX_DOUBLE : REPRIEVE_COMPLEX_LONG_DOUBLE;
  }
  switch (value->type) {
    case CFI_type_int8_t:
      return REPRIEVE_INT8;
    case CFI_type_int16_t:
      return REPRIEVE_INT16;
    case CFI_type_int32_t:
      return REPRIEVE_INT32;
    case CFI_type_int64_t:
      return REPRIEVE_INT64;
    case CFI_type_float:
      return REPRIEVE_FLOAT;
    case CFI_type_double:
      return REPRIEVE_DOUBLE;
    case CFI_type_float_Complex:
      return REPRIEVE_COMPLEX_FLOAT;
    case CFI_type_double_Complex:
      return REPRIEVE_COMPLEX_DOUBLE;
    case CFI_type_Bool:
      return REPRIEVE_BOOL;
    case CFI_type_char:
      return REPRIEVE_CHAR;
    default:
      return 0;
  }
}

/* Types for which the standard has no code. gfortran keeps the class of the type in the low byte. */
static int type_of_compiler(const CFI_cdesc_t* value) {
#ifdef CFI_type_mask
  switch (value->type & CFI_type_mask) {
    case CFI_type_Logical:
      return value->elem_len == 2 ? REPRIEVE_BOOL16 : value->elem_len == 4 ? REPRIEVE_BOOL32 : REPRIEVE_BOOL64;
    case CFI_type_Real: /* quadruple precision where `long double` is none: no type of HDF5's is known for it */
    case CFI_type_Complex:
    case CFI_type_Integer: /* of 16 bytes */
      return REPRIEVE_BYTE;
    default:
      return 0;
  }
#else
  (void)value;
  return 0;
#endif
}

reprieve_array reprieve_fortran_view(const CFI_cdesc_t* value) {
  const int rank = value->rank;
  const int number = type_of_number(value);
  const int type = number != 0 ? number : type_of_compiler(value);
  reprieve_array array = {value->base_addr, (int64_t)value->elem_len, type, rank, rank, {0}, {0}};
  for (int d = 0; d < rank; ++d) {
    array.shape[d] = value->dim[rank - 1 - d].extent;
    array.strides[d] = value->dim[rank - 1 - d].sm;
  }
  if (type == REPRIEVE_BYTE || (type == REPRIEVE_CHAR && value->elem_len != 1)) {
    array.shape[rank] = array.element_bytes;
    array.strides[rank] = 1;
    ++array.dimensions;
  }
  return array;
}

/* @return an error if they do not lie side by side */
static int count_bytes(const CFI_cdesc_t* value, size_t* size_bytes) {
  *size_bytes = value->elem_len;
  for (int d = 0; d < value->rank; ++d) {
    *size_bytes *= (size_t)value->dim[d].extent;
  }
  return value->rank == 0 || *size_bytes == 0 || CFI_is_contiguous(value)
             ? REPRIEVE_OK
             : reprieve_registration_error(NULL, "the memory must be contiguous: pass the array itself");
}

int reprieve_fortran_pieces_read(reprieve_pieces* pieces, int saved_rank, const CFI_cdesc_t* value) {
  size_t size_bytes = 0;
  const int status = count_bytes(value, &size_bytes);
  return status != REPRIEVE_OK ? status : reprieve_pieces_read(pieces, saved_rank, value->base_addr, size_bytes);
}

int reprieve_fortran_walk_value(reprieve_walk* walk, const char* name, const CFI_cdesc_t* value) {
  size_t size_bytes = 0;
  const int status = count_bytes(value, &size_bytes);
  if (status == REPRIEVE_OK) {
    reprieve_walk_bytes(walk, name, value->base_addr, size_bytes);
  }
  return status;
}

int reprieve_fortran_walk_array(reprieve_walk* walk, const char* name, CFI_cdesc_t* array) {
  const int rank = array->rank;
  /* Whether it is allocated, and its lower and upper bounds. */
  CFI_index_t present[1 + 2 * CFI_MAX_RANK] = {array->base_addr != NULL}, stored[1 + 2 * CFI_MAX_RANK];
  for (int d = 0; present[0] && d < rank; ++d) {
    present[1 + d] = array->dim[d].lower_bound;
    present[1 + rank + d] = array->dim[d].lower_bound + array->dim[d].extent - 1;
  }
  memcpy(stored, present, sizeof stored);
  reprieve_walk_bytes(walk, name, stored, (1 + 2 * (size_t)rank) * sizeof *stored);
  if (memcmp(stored, present, sizeof stored) != 0) {
    if (present[0]) {
      CFI_deallocate(array);
    }
    if (stored[0] && CFI_allocate(array, stored + 1, stored + 1 + rank, array->elem_len) != CFI_SUCCESS) {
      return reprieve_registration_error(NULL, "an array of a walk cannot be allocated");
    }
  }
  return stored[0] ? reprieve_fortran_walk_value(walk, name, array) : REPRIEVE_OK;
}

int reprieve_fortran_add_files(reprieve_checkpoint* checkpoint, const char* name, MPI_Fint comm, const char* directory,
                               reprieve_files_fn files, void* user) {
  return reprieve_add_files(checkpoint, name, MPI_Comm_f2c(comm), directory, files, user);
}

int reprieve_fortran_handler_open(MPI_Fint comm, reprieve_checkpoint* checkpoint, const char* directory,
                                  const reprieve_config* config, reprieve_handler** handler) {
  return reprieve_handler_open(MPI_Comm_f2c(comm), checkpoint, directory, config, handler);
}

int reprieve_fortran_manager_open(MPI_Fint comm, reprieve_checkpoint* checkpoint, const char* directory,
                                  const reprieve_config* config, reprieve_manager** manager) {
  return reprieve_manager_open(MPI_Comm_f2c(comm), checkpoint, directory, config, manager);
}

/* Of the module: calls the procedure in the callbacks at `user`. */
int reprieve_fortran_call_leave(int comm, int exit_code, const char* checkpoint, void* user);
void reprieve_fortran_call_abort(int comm, int exit_code, void* user);

int reprieve_fortran_call_body(int ranks, void* user);

/* Communicators are handles of C's own kind, which differ between MPIs. */
static int leave(MPI_Comm comm, int exit_code, const char* checkpoint_path, void* user) {
  return reprieve_fortran_call_leave((int)MPI_Comm_c2f(comm), exit_code, checkpoint_path, user);
}

static void abort_job(MPI_Comm comm, int exit_code, void* user) {
  reprieve_fortran_call_abort((int)MPI_Comm_c2f(comm), exit_code, user);
}

static int run_body(MPI_Comm ranks, void* user) { return reprieve_fortran_call_body((int)MPI_Comm_c2f(ranks), user); }

int reprieve_fortran_run_resilient(MPI_Fint comm, int spare_ranks, int min_ranks, void* user, int* worked) {
  return reprieve_run_resilient(MPI_Comm_f2c(comm), spare_ranks, min_ranks, run_body, user, worked);
}

int reprieve_fortran_config_set_exit_fn(reprieve_config* config, void* user) {
  return reprieve_config_set_exit_fn(config, user == NULL ? NULL : leave, user);
}

int reprieve_fortran_config_set_abort_fn(reprieve_config* config, void* user) {
  return reprieve_config_set_abort_fn(config, user == NULL ? NULL : abort_job, user);
}
