/* SPDX-License-Identifier: BSD-3-Clause */
/* What Fortran passes: arrays as descriptors (ISO_Fortran_binding.h), communicators as integers. On top of reprieve.h.
 */
#include "bindings/fortran/descriptors.h"

#include <stdio.h>

enum { kMaxDimensions = CFI_MAX_RANK + 1 }; /* one more for the characters of a text */

/* An array as reprieve.h wants it: C order, so the dimensions are those of Fortran in reverse. */
typedef struct Array {
  int type;
  int dimensions;
  int text_dimensions; /* 1 if the last dimension is not one of Fortran's */
  int64_t shape[kMaxDimensions];
  ptrdiff_t strides[kMaxDimensions];
  void* data;
} Array;

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
  reprieve_array array = {value->base_addr, (int64_t)value->elem_len, type_of_number(value), value->rank, {0}, {0}};
  if (array.type == 0) {
    array.type = type_of_compiler(value);
  }
  for (int d = 0; d < value->rank; ++d) {
    array.extents[d] = value->dim[d].extent;
    array.strides_bytes[d] = value->dim[d].sm;
  }
  return array;
}

/* checkpoint: keeps the error for its open; may be null. */
static int refuse(reprieve_checkpoint* checkpoint, const char* name, const char* problem) {
  char text[512];
  snprintf(text, sizeof text, "variable '%s': %s", name, problem);
  return reprieve_registration_error(checkpoint, text);
}

static int array_from(reprieve_checkpoint* checkpoint, const char* name, const reprieve_array* value, Array* array) {
  const int rank = value->rank;
  array->type = value->type;
  if (array->type == 0) {
    return refuse(
        checkpoint, name,
        "values of this type cannot be stored: register the components of a derived type one by one, or add it "
        "as a custom value");
  }
  if (rank > 0 && value->extents[rank - 1] < 0) {
    return refuse(checkpoint, name,
                  "an assumed-size array, x(*), does not know its size: pass a section with an upper bound");
  }
  array->data = value->data;
  array->dimensions = rank;
  for (int d = 0; d < rank; ++d) {
    array->shape[d] = value->extents[rank - 1 - d];
    array->strides[d] = (ptrdiff_t)value->strides_bytes[rank - 1 - d];
  }
  array->text_dimensions = array->type == REPRIEVE_BYTE || (array->type == REPRIEVE_CHAR && value->element_bytes != 1);
  if (array->text_dimensions == 1) {
    array->shape[rank] = value->element_bytes;
    array->strides[rank] = 1;
    ++array->dimensions;
  }
  return REPRIEVE_OK;
}

/* From lower bounds and shapes of Fortran, which begin with 1 and with the fastest dimension. */
static int to_c_order(reprieve_checkpoint* checkpoint, const char* name, const Array* array, int count,
                      const int64_t* values, int64_t first, int64_t* result) {
  const int rank = array->dimensions - array->text_dimensions;
  if (count != rank) {
    char text[160];
    snprintf(text, sizeof text, "%d numbers were given for the %d dimensions of the array", count, rank);
    return refuse(checkpoint, name, text);
  }
  for (int d = 0; d < rank; ++d) {
    result[d] = values[rank - 1 - d] - first;
  }
  if (array->text_dimensions == 1) {
    result[rank] = 0;
  }
  return REPRIEVE_OK;
}

/* Shape and offset of a distributed array. */
static int place_of(reprieve_checkpoint* checkpoint, const char* name, const Array* array, int count,
                    const int64_t* global_shape, const int64_t* lower, int64_t* global, int64_t* offset) {
  int status = to_c_order(checkpoint, name, array, count, global_shape, 0, global);
  if (status == REPRIEVE_OK) {
    status = to_c_order(checkpoint, name, array, count, lower, 1, offset);
  }
  if (status == REPRIEVE_OK && array->text_dimensions == 1) {
    global[array->dimensions - 1] = array->shape[array->dimensions - 1];
  }
  return status;
}

int reprieve_fortran_add_replicated(reprieve_checkpoint* checkpoint, const char* name, const reprieve_array* value) {
  Array a;
  const int status = array_from(checkpoint, name, value, &a);
  return status != REPRIEVE_OK
             ? status
             : reprieve_add_replicated(checkpoint, name, a.type, a.data, a.dimensions, a.shape, a.strides);
}

int reprieve_fortran_add_per_rank(reprieve_checkpoint* checkpoint, const char* name, const reprieve_array* value,
                                  reprieve_redistribute_fn redistribute, void* user) {
  Array a;
  const int status = array_from(checkpoint, name, value, &a);
  return status != REPRIEVE_OK ? status
                               : reprieve_add_per_rank(checkpoint, name, a.type, a.data, a.dimensions, a.shape,
                                                       a.strides, redistribute, user);
}

int reprieve_fortran_add_distributed(reprieve_checkpoint* checkpoint, const char* name, const reprieve_array* value,
                                     int count, const int64_t* global_shape, const int64_t* lower) {
  Array a;
  int64_t global[kMaxDimensions];
  int64_t offset[kMaxDimensions];
  int status = array_from(checkpoint, name, value, &a);
  if (status == REPRIEVE_OK) {
    status = place_of(checkpoint, name, &a, count, global_shape, lower, global, offset);
  }
  return status != REPRIEVE_OK ? status
                               : reprieve_add_distributed(checkpoint, name, a.type, a.data, a.dimensions, global,
                                                          offset, a.shape, a.strides);
}

int reprieve_fortran_add_distributed_boxes(reprieve_checkpoint* checkpoint, const char* name,
                                           const reprieve_array* mold, int count, const int64_t* global_shape,
                                           reprieve_describe_fn describe, void* user) {
  Array element;
  int64_t global[kMaxDimensions];
  const int status = array_from(checkpoint, name, mold, &element);
  if (status != REPRIEVE_OK) {
    return status;
  }
  if (mold->rank != 0 || count < 0 || count > CFI_MAX_RANK) {
    return refuse(checkpoint, name, "the mold must be a scalar, and the global shape have 1 to 15 numbers");
  }
  for (int d = 0; d < count; ++d) {
    global[d] = global_shape[count - 1 - d];
  }
  if (element.text_dimensions == 1) {
    global[count] = element.shape[0];
  }
  return reprieve_add_distributed_boxes(checkpoint, name, element.type, count + element.text_dimensions, global,
                                        describe, user);
}

int reprieve_fortran_boxes_add(reprieve_boxes* boxes, const reprieve_array* value, int count, const int64_t* lower) {
  Array a;
  int64_t offset[kMaxDimensions];
  int status = array_from(NULL, "in a list of boxes", value, &a);
  if (status == REPRIEVE_OK) {
    status = to_c_order(NULL, "in a list of boxes", &a, count, lower, 1, offset);
  }
  return status != REPRIEVE_OK ? status : reprieve_boxes_add(boxes, a.data, offset, a.shape, a.strides);
}

int reprieve_fortran_describe_list(const reprieve_array* value, int* type, int64_t* item_elements, void** data,
                                   int64_t* count) {
  Array a;
  const int status = array_from(NULL, "a list", value, &a);
  if (status != REPRIEVE_OK) {
    return status;
  }
  if (value->rank == 0) {
    return reprieve_registration_error(NULL, "a list is an array, of which the last dimension counts the items");
  }
  int64_t elements = 1;
  for (int d = a.dimensions - 1; d >= 0; --d) {
    const ptrdiff_t element_size = d == a.dimensions - 1 ? a.strides[d] : a.strides[d + 1] * (ptrdiff_t)a.shape[d + 1];
    if (a.shape[d] > 1 && a.strides[d] != element_size) {
      return reprieve_registration_error(
          NULL, "a list must be contiguous: pass the array itself, not every other element of it");
    }
    elements *= d == 0 ? 1 : a.shape[d];
  }
  *type = a.type;
  *item_elements = elements;
  *data = a.data;
  *count = a.shape[0];
  return REPRIEVE_OK;
}

int reprieve_fortran_stored_read(const reprieve_stored_state* stored, const char* name, const reprieve_array* value) {
  Array a;
  const int status = array_from(NULL, name, value, &a);
  return status != REPRIEVE_OK ? status
                               : reprieve_stored_read(stored, name, a.type, a.data, a.dimensions, a.shape, a.strides);
}

int reprieve_fortran_stored_read_distributed(const reprieve_stored_state* stored, const char* name,
                                             const reprieve_array* value, int count, const int64_t* global_shape,
                                             const int64_t* lower) {
  Array a;
  int64_t global[kMaxDimensions];
  int64_t offset[kMaxDimensions];
  int status = array_from(NULL, name, value, &a);
  if (status == REPRIEVE_OK) {
    status = place_of(NULL, name, &a, count, global_shape, lower, global, offset);
  }
  return status != REPRIEVE_OK ? status
                               : reprieve_stored_read_distributed(stored, name, a.type, a.data, a.dimensions, global,
                                                                  offset, a.shape, a.strides);
}

int reprieve_fortran_pieces_read(reprieve_pieces* pieces, int saved_rank, const CFI_cdesc_t* value) {
  if (!CFI_is_contiguous(value) && value->rank > 0) {
    return reprieve_registration_error(NULL, "a piece is read into contiguous memory: pass the array itself");
  }
  size_t size_bytes = value->elem_len;
  for (int d = 0; d < value->rank; ++d) {
    size_bytes *= (size_t)value->dim[d].extent;
  }
  return reprieve_pieces_read(pieces, saved_rank, value->base_addr, size_bytes);
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

/* Communicators are handles of C's own kind, which differ between MPIs. */
static int leave(MPI_Comm comm, int exit_code, const char* checkpoint_path, void* user) {
  return reprieve_fortran_call_leave((int)MPI_Comm_c2f(comm), exit_code, checkpoint_path, user);
}

static void abort_job(MPI_Comm comm, int exit_code, void* user) {
  reprieve_fortran_call_abort((int)MPI_Comm_c2f(comm), exit_code, user);
}

int reprieve_fortran_config_set_exit_fn(reprieve_config* config, void* user) {
  return reprieve_config_set_exit_fn(config, user == NULL ? NULL : leave, user);
}

int reprieve_fortran_config_set_abort_fn(reprieve_config* config, void* user) {
  return reprieve_config_set_abort_fn(config, user == NULL ? NULL : abort_job, user);
}
