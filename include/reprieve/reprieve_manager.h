/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REPRIEVE_REPRIEVE_MANAGER_H
#define REPRIEVE_REPRIEVE_MANAGER_H

/** @file
 * The part of the C interface for what a run and its variables are about, and for checkpoints without a time loop.
 * reprieve/reprieve.h includes it. */

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "reprieve/export.h"
#include "reprieve/reprieve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using, readability-identifier-naming): this is C */

/* ------------------------------------------------------------------------------------------------------------------
 * What a run is about */

/** The name of a case, a parameter, a seed: stored in every checkpoint. Opening a handler, or a restore, on a
 * checkpoint with another value is an error, REPRIEVE_ERROR_MISMATCH, with both values, before anything is touched. A
 * constant that a checkpoint does not have is logged. All ranks say the same. In a Slurm array, the number of the task
 * is such a constant by itself (setting `checkpoints.array_task_is_constant`). Errors: USAGE: the name is not allowed,
 * or taken. */
REPRIEVE_EXPORT int reprieve_add_constant(reprieve_checkpoint* checkpoint, const char* name, const char* value);
REPRIEVE_EXPORT int reprieve_add_constant_integer(reprieve_checkpoint* checkpoint, const char* name, int64_t value);
REPRIEVE_EXPORT int reprieve_add_constant_real(reprieve_checkpoint* checkpoint, const char* name, double value);
/** The same for the content of a file, an input deck for one: its checksum, which rank 0 finds. */
REPRIEVE_EXPORT int reprieve_add_constant_file(reprieve_checkpoint* checkpoint, const char* name, const char* file);

/* ------------------------------------------------------------------------------------------------------------------
 * What a variable means */

/** Says what a registered variable means, for those who read its dataset with h5py or xarray: see
 * Checkpoint::annotate. It changes nothing about a restore, but numbers in other units are warned of in the log. All
 * ranks say the same; what was said of the variable before is replaced.
 * @param units, description  UTF-8; NULL or "" for none
 * @param dimensions  the number of names in `dims`: as many as the variable has dimensions, or 0 for none
 * @param dims  slowest-varying dimension first; NULL if there are none
 * Errors: USAGE: the variable is not registered, a text is not allowed, or a wrong number of names. */
REPRIEVE_EXPORT int reprieve_annotate(reprieve_checkpoint* checkpoint, const char* name, const char* units,
                                      const char* description, int dimensions, const char* const* dims);

/* ------------------------------------------------------------------------------------------------------------------
 * Checkpoints without a time loop */

/** The checkpoints of one directory; see reprieve::CheckpointManager. */
typedef struct reprieve_manager reprieve_manager;

/** Opens the directory, makes it if needed, takes its lock. Arguments and errors as reprieve_handler_open, but for
 * those of a restore. Collective. */
REPRIEVE_EXPORT int reprieve_manager_open(MPI_Comm comm, reprieve_checkpoint* checkpoint, const char* directory,
                                          const reprieve_config* config, reprieve_manager** manager);
/** Commits a save in the background, releases the lock, sets *manager to NULL; nothing if it is NULL already.
 * Collective. */
REPRIEVE_EXPORT int reprieve_manager_close(reprieve_manager** manager);
/** Writes the state as checkpoint `number`, commits it, then retires old ones. It is the newest from now on, whatever
 * its number; one of that number is replaced atomically. Collective. On failure all older checkpoints are untouched.
 * Errors: IO, NO_SPACE, PERMISSION, MISMATCH (ranks registered differently), MPI, UNRESPONSIVE. */
REPRIEVE_EXPORT int reprieve_manager_save(reprieve_manager* manager, uint64_t number);
/** The same with a number that follows all that are in the directory: the steps of the handler that uses this manager
 * if they do, else one more than the greatest. Collective; errors as reprieve_manager_save.
 * @param number  out, may be NULL: the number that was taken */
REPRIEVE_EXPORT int reprieve_manager_save_next(reprieve_manager* manager, uint64_t* number);
/** Copies the state and returns; a thread writes the copy. It becomes a checkpoint in
 * reprieve_manager_finish_background_save, or in the next save, restore or close. Collective; errors as
 * reprieve_manager_save, and USAGE with the mpio writer. */
REPRIEVE_EXPORT int reprieve_manager_save_in_background(reprieve_manager* manager, uint64_t number);
/** 1 if a save in the background has begun that is not committed, else 0. Not collective; the same on every rank. */
REPRIEVE_EXPORT int reprieve_manager_background_save_pending(const reprieve_manager* manager);
/** 1 if this rank's thread has written its part, or there is none. Not collective, and not the same on every rank. */
REPRIEVE_EXPORT int reprieve_manager_background_save_written(const reprieve_manager* manager);
/** Waits for the threads of all ranks, and commits. Nothing if there is nothing to commit. Collective. */
REPRIEVE_EXPORT int reprieve_manager_finish_background_save(reprieve_manager* manager);
/** Copies the state into the memory of the nodes (setting checkpoints.local_directory); a thread completes the copy.
 * The next start restores it if it is newer than all checkpoints. A handler does this by itself. Collective.
 * @param taken  out, may be NULL: 0 if it was left out, since the one before is not complete yet or there is no room
 * Errors: USAGE without a node-local directory; MISMATCH, MPI, UNRESPONSIVE. */
REPRIEVE_EXPORT int reprieve_manager_local_copy(reprieve_manager* manager, uint64_t number, int* taken);
/** The same with a number as reprieve_manager_save_next chooses it. Errors: also USAGE if the saves of this manager
 * were given numbers. Collective.
 * @param taken  out, may be NULL */
REPRIEVE_EXPORT int reprieve_manager_local_copy_next(reprieve_manager* manager, int* taken);
/** Restores the newest valid checkpoint; corrupt ones are passed over and quarantined. Collective.
 * @param restored, info  as reprieve_restored_from; both may be NULL
 * Errors: CORRUPT if there are checkpoints and not one is valid; MISMATCH; IO, PERMISSION, MPI, UNRESPONSIVE. */
REPRIEVE_EXPORT int reprieve_manager_restore_latest(reprieve_manager* manager, int* restored,
                                                    reprieve_checkpoint_info* info);
/** Restores one file. Collective. Errors as above; after one the state is unspecified. */
REPRIEVE_EXPORT int reprieve_manager_restore(reprieve_manager* manager, const char* file);
/** The newest committed checkpoint, without verification of its data. Collective. @param found  out: 1 or 0 */
REPRIEVE_EXPORT int reprieve_manager_latest(reprieve_manager* manager, int* found, reprieve_checkpoint_info* info);
/** All committed checkpoints, oldest first. Collective. @param count, list  out; the list belongs to the manager */
REPRIEVE_EXPORT int reprieve_manager_checkpoints(reprieve_manager* manager, size_t* count,
                                                 const reprieve_checkpoint_info** list);

/* NOLINTEND(modernize-use-using, readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
