/* SPDX-License-Identifier: BSD-3-Clause */
/* What the Fortran module calls besides reprieve.h. Names in arrays of Fortran are in its order, bounds begin with 1.
 */
#ifndef REPRIEVE_BINDINGS_FORTRAN_DESCRIPTORS_H
#define REPRIEVE_BINDINGS_FORTRAN_DESCRIPTORS_H

#include <ISO_Fortran_binding.h>

#include "reprieve/reprieve.h"

/* Where an array of Fortran lies. The module has the same type. */
typedef struct reprieve_array {
  void* data;
  int64_t element_bytes;
  int32_t type; /* of reprieve.h; 0: one that cannot be stored */
  int32_t rank;
  int64_t extents[CFI_MAX_RANK];
  int64_t strides_bytes[CFI_MAX_RANK];
} reprieve_array;

/* Has to be called by programs themselves: gfortran passes some sections (one component of each element, parts of
 * texts) to procedures of Fortran as copies, but to those of C as they are. */
reprieve_array reprieve_fortran_view(const CFI_cdesc_t* value);

int reprieve_fortran_add_replicated(reprieve_checkpoint* checkpoint, const char* name, const reprieve_array* value);
int reprieve_fortran_add_per_rank(reprieve_checkpoint* checkpoint, const char* name, const reprieve_array* value,
                                  reprieve_redistribute_fn redistribute, void* user);
int reprieve_fortran_add_distributed(reprieve_checkpoint* checkpoint, const char* name, const reprieve_array* value,
                                     int count, const int64_t* global_shape, const int64_t* lower);
/* mold: a scalar of the type of the elements. */
int reprieve_fortran_add_distributed_boxes(reprieve_checkpoint* checkpoint, const char* name,
                                           const reprieve_array* mold, int count, const int64_t* global_shape,
                                           reprieve_describe_fn describe, void* user);
int reprieve_fortran_boxes_add(reprieve_boxes* boxes, const reprieve_array* value, int count, const int64_t* lower);
/* An array as a list: the last dimension counts the items. */
int reprieve_fortran_describe_list(const reprieve_array* value, int* type, int64_t* item_elements, void** data,
                                   int64_t* count);
int reprieve_fortran_stored_read(const reprieve_stored_state* stored, const char* name, const reprieve_array* value);
int reprieve_fortran_stored_read_distributed(const reprieve_stored_state* stored, const char* name,
                                             const reprieve_array* value, int count, const int64_t* global_shape,
                                             const int64_t* lower);
int reprieve_fortran_pieces_read(reprieve_pieces* pieces, int saved_rank, const CFI_cdesc_t* value);
int reprieve_fortran_handler_open(MPI_Fint comm, reprieve_checkpoint* checkpoint, const char* directory,
                                  const reprieve_config* config, reprieve_handler** handler);
int reprieve_fortran_manager_open(MPI_Fint comm, reprieve_checkpoint* checkpoint, const char* directory,
                                  const reprieve_config* config, reprieve_manager** manager);
/* user: the callbacks; NULL: none. */
int reprieve_fortran_config_set_exit_fn(reprieve_config* config, void* user);
int reprieve_fortran_config_set_abort_fn(reprieve_config* config, void* user);

#endif
