/* SPDX-License-Identifier: BSD-3-Clause */
/* What the Fortran module calls besides reprieve.h. */
#ifndef REPRIEVE_BINDINGS_FORTRAN_DESCRIPTORS_H
#define REPRIEVE_BINDINGS_FORTRAN_DESCRIPTORS_H

#include <ISO_Fortran_binding.h>

#include "reprieve/reprieve.h"

enum { REPRIEVE_MAX_DIMENSIONS = CFI_MAX_RANK + 1 }; /* one more for the characters of a text */

/* An array of Fortran as reprieve.h wants it: C order, so the dimensions are those of Fortran in reverse. The module
 * has the same type. */
typedef struct reprieve_array {
  void* data;
  int64_t element_bytes;
  int type;       /* of reprieve.h; 0: one that cannot be stored */
  int rank;       /* in Fortran */
  int dimensions; /* in C: one more for what is stored as texts or bytes */
  int64_t shape[REPRIEVE_MAX_DIMENSIONS];
  ptrdiff_t strides[REPRIEVE_MAX_DIMENSIONS];
} reprieve_array;

/* Has to be called by programs themselves: gfortran passes some sections (one component of each element, parts of
 * texts) to procedures of Fortran as copies, but to those of C as they are. */
reprieve_array reprieve_fortran_view(const CFI_cdesc_t* value);

int reprieve_fortran_pieces_read(reprieve_pieces* pieces, int saved_rank, const CFI_cdesc_t* value);
/* A part of a walk, and one that a restore allocates as it was saved. */
int reprieve_fortran_walk_value(reprieve_walk* walk, const char* name, const CFI_cdesc_t* value);
int reprieve_fortran_walk_array(reprieve_walk* walk, const char* name, CFI_cdesc_t* array);
int reprieve_fortran_add_files(reprieve_checkpoint* checkpoint, const char* name, MPI_Fint comm, const char* directory,
                               reprieve_files_fn files, void* user);
int reprieve_fortran_handler_open(MPI_Fint comm, reprieve_checkpoint* checkpoint, const char* directory,
                                  const reprieve_config* config, reprieve_handler** handler);
int reprieve_fortran_manager_open(MPI_Fint comm, reprieve_checkpoint* checkpoint, const char* directory,
                                  const reprieve_config* config, reprieve_manager** manager);
int reprieve_fortran_run_resilient(MPI_Fint comm, int spare_ranks, int min_ranks, void* user, int* worked);
/* user: the callbacks; NULL: none. */
int reprieve_fortran_config_set_exit_fn(reprieve_config* config, void* user);
int reprieve_fortran_config_set_abort_fn(reprieve_config* config, void* user);

#endif
