/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REPRIEVE_REPRIEVE_H
#define REPRIEVE_REPRIEVE_H

/**
 * @file
 * The C interface of Reprieve: everything that a C program includes. C99, and C++.
 *
 * Every function that can fail returns a code: REPRIEVE_OK (0), one of the REPRIEVE_ERROR_... or REPRIEVE_PREEMPTED.
 * The text that belongs to it is reprieve_last_error_message(). No C++ exception leaves a function, and none ends the
 * process, but through the exit function of the configuration (see reprieve_config_set_exit) and by reprieve_abort.
 *
 * What goes wrong while variables are registered or settings are made (a negative shape, an unknown key) is returned at
 * once, and also kept: reprieve_handler_open and reprieve_manager_open then fail with it on every rank, even if it
 * happened on one only. So it is enough to check the result of `open`.
 *
 * Functions marked "collective" are called by all ranks of the communicator in the same order, and return the same code
 * with the same message on every rank. A handle is used by one thread at a time; collective functions are called from
 * the thread that initialised MPI (MPI_THREAD_FUNNELED is enough).
 *
 *     reprieve_watch_signals();
 *     MPI_Init(&argc, &argv);
 *     reprieve_checkpoint* state = NULL;
 *     reprieve_handler* handler = NULL;
 *     reprieve_checkpoint_create(&state);
 *     reprieve_add_distributed(state, "field", REPRIEVE_DOUBLE, field, 2, shape, offset, extent, NULL);
 *     int status = reprieve_handler_open(MPI_COMM_WORLD, state, "checkpoints", NULL, &handler);
 *     while (status == REPRIEVE_OK && reprieve_next_step(handler, steps, &status)) { advance(field); }
 *     if (status != REPRIEVE_OK) { reprieve_abort(); }
 *     reprieve_handler_close(&handler);
 *     reprieve_checkpoint_destroy(&state);
 *     MPI_Finalize();
 */

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "reprieve/export.h"
#include "reprieve/version.hpp" /* macros only */

#ifdef __cplusplus
extern "C" {
#endif

/* In the style of C: NOLINTBEGIN(modernize-use-using, readability-identifier-naming) */

/* ---- Errors ---- */

/** What a function returns. The numbers of the errors are those of reprieve::ErrorCode. */
enum reprieve_status {
  REPRIEVE_OK = 0,
  REPRIEVE_ERROR_CONFIG = 1,     /**< a setting is unknown, of the wrong type or out of range */
  REPRIEVE_ERROR_USAGE = 2,      /**< the interface was used against its rules */
  REPRIEVE_ERROR_IO = 3,         /**< a file system call failed, or a device */
  REPRIEVE_ERROR_NO_SPACE = 4,   /**< disk full or over quota */
  REPRIEVE_ERROR_PERMISSION = 5, /**< missing rights, or a read-only file system */
  REPRIEVE_ERROR_LOCKED = 6,     /**< another living run uses the checkpoint directory */
  REPRIEVE_ERROR_CORRUPT = 7,    /**< a checkpoint file is corrupt */
  REPRIEVE_ERROR_MISMATCH = 8,   /**< a valid checkpoint does not fit the registered state */
  REPRIEVE_ERROR_MPI = 9,        /**< an MPI call failed */
  REPRIEVE_ERROR_CLUSTER = 10,   /**< the application failed on some rank */
  /** Ranks did not come to a collective call in time. End the process, without MPI_Finalize, which would wait for them.
   */
  REPRIEVE_ERROR_UNRESPONSIVE = 12,
  REPRIEVE_ERROR_INTERNAL = 13,  /**< a promise inside the library was broken: please report it */
  REPRIEVE_ERROR_NO_MEMORY = 14, /**< a rank could not get the memory that the library asked for */
  /** Not an error: the state is saved, and the program must leave with reprieve_exit_code(). With REPRIEVE_EXIT_RETURN
   * only. */
  REPRIEVE_PREEMPTED = 100
};

/** The message of the last function that failed on this thread; empty if none has. Valid until the next one fails. */
REPRIEVE_EXPORT const char* reprieve_last_error_message(void);
/** The rank (of the communicator in use) that met the last error, or -1 if it is not tied to one. */
REPRIEVE_EXPORT int reprieve_last_error_origin_rank(void);
/** Lower-case name of a code, for logs: "no_space", "ok", "preempted"; "unknown" for other numbers. */
REPRIEVE_EXPORT const char* reprieve_status_name(int status);
/** Ends the job because of the last function that failed on this thread, and does not return: for programs that do not
 * treat the error otherwise. One rank prints the message for all (those that have the same error wait for it, at most
 * five seconds) and ends the job by MPI_Abort, with exit code 1. After REPRIEVE_PREEMPTED, which is no error, the
 * process ends with the restart code. Not collective: ranks without an error may continue until they are ended. */
REPRIEVE_EXPORT void reprieve_abort(void);
/** Sets the text for an error that a callback is about to report. Returns 1, so that a callback can end with
 * `return reprieve_callback_error("no memory for the particles");`. */
REPRIEVE_EXPORT int reprieve_callback_error(const char* message);

/** The version of the library that is running, "major.minor.patch"; REPRIEVE_VERSION is that of this header. */
REPRIEVE_EXPORT const char* reprieve_version(void);
/** Which library is running, in five lines: version, commit, MPI, HDF5 and the options of its build, for the report of
 * a problem. Before MPI_Init, too; not collective. The text stays as long as the thread; "" if there is no memory for
 * it. */
REPRIEVE_EXPORT const char* reprieve_version_details(void);

/* ---- The state ---- */

/** Types of array elements. */
typedef enum reprieve_type {
  REPRIEVE_INT8 = 1,
  REPRIEVE_INT16 = 2,
  REPRIEVE_INT32 = 3,
  REPRIEVE_INT64 = 4,
  REPRIEVE_UINT8 = 5,
  REPRIEVE_UINT16 = 6,
  REPRIEVE_UINT32 = 7,
  REPRIEVE_UINT64 = 8,
  REPRIEVE_FLOAT = 9,
  REPRIEVE_DOUBLE = 10,
  REPRIEVE_LONG_DOUBLE = 11,
  REPRIEVE_COMPLEX_FLOAT = 12, /**< `float _Complex`: two floats */
  REPRIEVE_COMPLEX_DOUBLE = 13,
  REPRIEVE_COMPLEX_LONG_DOUBLE = 14,
  REPRIEVE_BOOL = 15,   /**< `_Bool`: one byte, 0 or 1 */
  REPRIEVE_CHAR = 16,   /**< text, a byte each */
  REPRIEVE_BYTE = 17,   /**< opaque bytes; a struct is an array of sizeof(struct) of them */
  REPRIEVE_BOOL16 = 18, /**< logicals of other widths, 0 or 1, as Fortran has them */
  REPRIEVE_BOOL32 = 19,
  REPRIEVE_BOOL64 = 20,
  REPRIEVE_HALF = 21 /**< IEEE 754 numbers of 16 bits: `_Float16` */
} reprieve_type;

/** The registry of a program's state: named variables, each replicated, distributed or per-rank. It keeps references:
 * the memory must live as long as handlers and managers use it. All ranks register the same names with the same kinds.
 *
 * Names form a tree with `/` between the parts, as in `optimizer/momentum`; see reprieve::Checkpoint.
 * Shapes, offsets and extents count elements per dimension, slowest-varying first (C order). Strides are distances in
 * bytes between neighbours in memory, per dimension; NULL: dense, in C order. They are copied, and need to live only
 * during the call. Nothing in this section is collective; nothing does I/O. Errors: REPRIEVE_ERROR_USAGE. */
typedef struct reprieve_checkpoint reprieve_checkpoint;

REPRIEVE_EXPORT int reprieve_checkpoint_create(reprieve_checkpoint** checkpoint);
/** Frees it and sets *checkpoint to NULL; nothing if it is NULL already. REPRIEVE_ERROR_USAGE, and nothing is freed,
 * while a handler or a manager uses it: close that first. */
REPRIEVE_EXPORT int reprieve_checkpoint_destroy(reprieve_checkpoint** checkpoint);

/** Registers a value that is equal on all ranks: rank 0's is written, every rank restores it.
 * @param data  its address is kept: what is swapped or reallocated is registered by its pointer, see below
 * @param dimensions  0 for a scalar; then shape and strides_bytes are NULL */
REPRIEVE_EXPORT int reprieve_add_replicated(reprieve_checkpoint* checkpoint, const char* name, int type, void* data,
                                            int dimensions, const int64_t* shape, const ptrdiff_t* strides_bytes);

/** Registers this rank's box of an n-dimensional array that is spread over the ranks. Boxes must not overlap; elements
 * of no rank are stored as zero. On restore every rank gets its present box, whatever the split was.
 * @param data  first element of the box; with ghost layers the first interior one, and strides that step over them. Its
 * address is kept: what is swapped or reallocated is registered by its pointer. NULL only if the box holds nothing */
REPRIEVE_EXPORT int reprieve_add_distributed(reprieve_checkpoint* checkpoint, const char* name, int type, void* data,
                                             int dimensions, const int64_t* global_shape, const int64_t* offset,
                                             const int64_t* extent, const ptrdiff_t* strides_bytes);

/** The same for an array that moves: `pointer` is the address of the variable that points to it (`&u`), and is kept.
 * Every save and restore reads that variable, so a program may swap pointers and reallocate. Type, shape and strides
 * stay.
 * @param first_element  where in the array the box begins: what the ghost layers before it take, else 0 */
REPRIEVE_EXPORT int reprieve_add_distributed_at(reprieve_checkpoint* checkpoint, const char* name, int type,
                                                const void* pointer, int64_t first_element, int dimensions,
                                                const int64_t* global_shape, const int64_t* offset,
                                                const int64_t* extent, const ptrdiff_t* strides_bytes);
/** The same for a replicated array. */
REPRIEVE_EXPORT int reprieve_add_replicated_at(reprieve_checkpoint* checkpoint, const char* name, int type,
                                               const void* pointer, int dimensions, const int64_t* shape,
                                               const ptrdiff_t* strides_bytes);

/** This rank's boxes of a distributed array, to be filled in by a reprieve_describe_fn. */
typedef struct reprieve_boxes reprieve_boxes;
/** Adds a box, as in reprieve_add_distributed. */
REPRIEVE_EXPORT int reprieve_boxes_add(reprieve_boxes* boxes, void* data, const int64_t* offset, const int64_t* extent,
                                       const ptrdiff_t* strides_bytes);
/** Callbacks return 0, or anything else for an error, which is then one on all ranks (see reprieve_callback_error; the
 * code of a call of this library that failed brings that call's message).
 * They run on the thread that saves or restores, and must not call MPI or functions of this library other than those
 * that their arguments are made for. */
typedef int (*reprieve_describe_fn)(reprieve_boxes* boxes, void* user);
/** Registers any number of boxes per rank (adaptive meshes), or one that moves: `describe` is called at every save and
 * restore, so memory may be reallocated or swapped, and boxes may come and go. */
REPRIEVE_EXPORT int reprieve_add_distributed_boxes(reprieve_checkpoint* checkpoint, const char* name, int type,
                                                   int dimensions, const int64_t* global_shape,
                                                   reprieve_describe_fn describe, void* user);

/** What a per-rank variable was on each of the ranks that saved it; for a reprieve_redistribute_fn. */
typedef struct reprieve_pieces reprieve_pieces;
/** Number of ranks that saved; 0 if pieces is NULL. */
REPRIEVE_EXPORT int reprieve_pieces_count(const reprieve_pieces* pieces);
/** Size in bytes of what a rank saved. Reads and verifies that piece. Errors: USAGE (no such rank), CORRUPT, IO. */
REPRIEVE_EXPORT int reprieve_pieces_size(reprieve_pieces* pieces, int saved_rank, size_t* size_bytes);
/** Copies what a rank saved. @param size_bytes  of the buffer: exactly that of the piece. Errors as above. */
REPRIEVE_EXPORT int reprieve_pieces_read(reprieve_pieces* pieces, int saved_rank, void* buffer, size_t size_bytes);
/** Makes this rank's value from the saved ones. `rank` and `size`: of the restarted run. Called on every rank. */
typedef int (*reprieve_redistribute_fn)(reprieve_pieces* pieces, int rank, int size, void* user);

/** Registers a value that every rank has for itself; shapes may differ between ranks. It restores on the same number
 * of ranks; on another number `redistribute` is called. If that is NULL, it is a mismatch that names the variable.
 * @param dimensions  0 for a scalar; then shape and strides_bytes are NULL
 * @param user  is passed to redistribute */
REPRIEVE_EXPORT int reprieve_add_per_rank(reprieve_checkpoint* checkpoint, const char* name, int type, void* data,
                                          int dimensions, const int64_t* shape, const ptrdiff_t* strides_bytes,
                                          reprieve_redistribute_fn redistribute, void* user);

/** The same for an array that moves: see reprieve_add_distributed_at. */
REPRIEVE_EXPORT int reprieve_add_per_rank_at(reprieve_checkpoint* checkpoint, const char* name, int type,
                                             const void* pointer, int dimensions, const int64_t* shape,
                                             const ptrdiff_t* strides_bytes, reprieve_redistribute_fn redistribute,
                                             void* user);

/** The memory of a value that can change its length (particles, lists).
 * @param wanted  -1: return the address and the length. Otherwise: first make it so many items long; its old content
 *                is not needed any more
 * @param data, count  out: first element, and number of items */
typedef int (*reprieve_memory_fn)(int64_t wanted, void** data, int64_t* count, void* user);
/** Registers a value whose length a restore may change.
 * @param item_elements  elements of one item, 3 for a list of x, y, z, x, y, z, ...; the file shows a table of items if
 * it is more than 1
 * @param user  is passed to the callbacks */
REPRIEVE_EXPORT int reprieve_add_replicated_resizable(reprieve_checkpoint* checkpoint, const char* name, int type,
                                                      int64_t item_elements, reprieve_memory_fn memory, void* user);
/** The same for per-rank values. @param redistribute  see reprieve_add_per_rank; may be NULL */
REPRIEVE_EXPORT int reprieve_add_per_rank_resizable(reprieve_checkpoint* checkpoint, const char* name, int type,
                                                    int64_t item_elements, reprieve_memory_fn memory,
                                                    reprieve_redistribute_fn redistribute, void* user);

/** A reprieve_redistribute_fn for resizable values: the lists of all ranks, one after the other, are cut into parts as
 * even as possible. Lists that belong together (positions and velocities) stay together if each has as many items on
 * every rank. */
REPRIEVE_EXPORT int reprieve_in_order(reprieve_pieces* pieces, int rank, int size, void* user);

/** Turns a value of the program's own kind into bytes. @param bytes, size_bytes  out; the bytes must stay valid and
 * unchanged until the next call */
typedef int (*reprieve_save_fn)(const void** bytes, size_t* size_bytes, void* user);
/** Makes the value from bytes that reprieve_save_fn gave. Must reject (not 0) what it does not know. */
typedef int (*reprieve_load_fn)(const void* bytes, size_t size_bytes, void* user);
/** Registers a value that callbacks save and load; stored as opaque bytes. @param user  is passed to the callbacks */
REPRIEVE_EXPORT int reprieve_add_replicated_custom(reprieve_checkpoint* checkpoint, const char* name,
                                                   reprieve_save_fn save, reprieve_load_fn load, void* user);
/** The same for per-rank values. @param redistribute  see reprieve_add_per_rank; may be NULL */
REPRIEVE_EXPORT int reprieve_add_per_rank_custom(reprieve_checkpoint* checkpoint, const char* name,
                                                 reprieve_save_fn save, reprieve_load_fn load,
                                                 reprieve_redistribute_fn redistribute, void* user);

/** A value while its parts are saved or restored. */
typedef struct reprieve_walk reprieve_walk;
/** One function for both directions: it names the parts of a value, by the calls below, in the same order each time. It
 * returns 0, or another number for an error of its own. After an error of a call the others do nothing, and what called
 * the function fails with it. */
typedef int (*reprieve_walk_fn)(reprieve_walk* walk, void* user);
/** 1 if the parts come from a checkpoint, 0 if they are saved. */
REPRIEVE_EXPORT int reprieve_walk_restores(const reprieve_walk* walk);
/** A part of so many bytes. @param name  a restore finds out if it is another one, or if the size is */
REPRIEVE_EXPORT void reprieve_walk_bytes(reprieve_walk* walk, const char* name, void* data, size_t size_bytes);
/** A list in memory of malloc, or NULL where it is empty: a restore makes it as long as it was saved, by realloc or
 * free.
 * @param pointer  the address of the variable that points to it @param count  of its items now
 * @return the number of items that it has afterwards */
REPRIEVE_EXPORT int64_t reprieve_walk_list(reprieve_walk* walk, const char* name, void* pointer, int64_t count,
                                           size_t item_bytes);
/** Registers a value whose parts `walk` names; stored as opaque bytes. A failed restore leaves it with some parts of
 * the checkpoint. @param user  is passed to the function */
REPRIEVE_EXPORT int reprieve_add_replicated_walk(reprieve_checkpoint* checkpoint, const char* name,
                                                 reprieve_walk_fn walk, void* user);
/** The same for per-rank values. @param redistribute  see reprieve_add_per_rank; may be NULL */
REPRIEVE_EXPORT int reprieve_add_per_rank_walk(reprieve_checkpoint* checkpoint, const char* name, reprieve_walk_fn walk,
                                               reprieve_redistribute_fn redistribute, void* user);
/** For that redistribute: restores what a rank had saved, by `walk`, into a value of its own (`user`). */
REPRIEVE_EXPORT int reprieve_pieces_walk(reprieve_pieces* pieces, int saved_rank, reprieve_walk_fn walk, void* user);

/** Takes over all variables of *part, with everything that was said about them; their names become `<name>/<name in the
 * part>`. Frees *part and sets it to NULL; after an error too. */
REPRIEVE_EXPORT int reprieve_add_component(reprieve_checkpoint* checkpoint, const char* name,
                                           reprieve_checkpoint** part);

/** Called on every rank in the middle of a restore: the replicated and the per-rank variables have their values, the
 * distributed ones are not described yet. An adaptive mesh makes its blocks here. */
typedef int (*reprieve_restored_fn)(void* user);
REPRIEVE_EXPORT int reprieve_when_values_restored(reprieve_checkpoint* checkpoint, reprieve_restored_fn prepare,
                                                  void* user);

/** Writes files, whose paths begin with prefix, or reads them if restores is 1; on all ranks at the same time. */
typedef int (*reprieve_files_fn)(const char* prefix, int restores, void* user);
/** State that the program, or a library of its, writes and reads as files on all ranks together: restart files that it
 * has already. See reprieve/library_files.hpp. Collective over comm.
 * @param comm  of the manager's ranks; saves and restores use MPI on it
 * @param directory  that all ranks see, for files that last as long as the call */
REPRIEVE_EXPORT int reprieve_add_files(reprieve_checkpoint* checkpoint, const char* name, MPI_Comm comm,
                                       const char* directory, reprieve_files_fn files, void* user);

/** Boxes of a distributed variable may overlap (nodes on the border of two ranks): see Checkpoint::allow_shared. */
REPRIEVE_EXPORT int reprieve_allow_shared(reprieve_checkpoint* checkpoint, const char* name);
/** A restore from a checkpoint without this variable leaves it as it is. USAGE if it is not registered. */
REPRIEVE_EXPORT int reprieve_allow_missing(reprieve_checkpoint* checkpoint, const char* name);
/** The variable was called `former` in older versions of the program. USAGE if `name` is not registered. */
REPRIEVE_EXPORT int reprieve_add_former_name(reprieve_checkpoint* checkpoint, const char* name, const char* former);
/** A stored variable of this name, or below it in the tree, that is not registered is left out of a restore. */
REPRIEVE_EXPORT int reprieve_allow_dropped(reprieve_checkpoint* checkpoint, const char* name);

/** Whose memory an address is, for a reprieve_owner_fn: not of this space; of it, and the host cannot reach it, or can.
 */
enum reprieve_memory_owner { REPRIEVE_MEMORY_OTHER = 0, REPRIEVE_MEMORY_DEVICE = 1, REPRIEVE_MEMORY_UNIFIED = 2 };
/** One of these; anything else is an error. Must not touch the memory. */
typedef int (*reprieve_owner_fn)(const void* address, void* user);
/** For the device of the address: waits for the work of the program, or for the copies that were begun. */
typedef int (*reprieve_device_fn)(const void* address, void* user);
/** Begins to copy rows of bytes. @param to_pitch, from_pitch  bytes from one row to the next */
typedef int (*reprieve_copy_fn)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes,
                                size_t rows, void* user);
/** Adds a kind of device memory, for the process; see reprieve::MemorySpace. That of CUDA and HIP needs none of this:
 * its addresses are passed to the functions above (apps/guide/devices.md).
 * @param synchronize  waits for the program's work */
REPRIEVE_EXPORT int reprieve_add_memory_space(const char* name, reprieve_owner_fn owner_of,
                                              reprieve_device_fn synchronize, reprieve_copy_fn copy_out,
                                              reprieve_copy_fn copy_in, reprieve_device_fn wait, void* user);
/** Says in which space the memory of a registered variable is: see Checkpoint::set_memory_space. Seldom needed.
 * @param space  "cuda", "hip", or an added one @param stream  (CUDA, HIP) to be waited for; NULL: the whole device */
REPRIEVE_EXPORT int reprieve_set_memory_space(reprieve_checkpoint* checkpoint, const char* name, const char* space,
                                              void* stream);

/** A checkpoint that is being restored, by the names that are stored; for a reprieve_migration_fn. */
typedef struct reprieve_stored_state reprieve_stored_state;
/** 1 if there is such a variable; 0 if not, or if an argument is NULL. */
REPRIEVE_EXPORT int reprieve_stored_contains(const reprieve_stored_state* stored, const char* name);
/** Reads a replicated value; arguments as in reprieve_add_replicated. Errors: USAGE, MISMATCH (type, shape), CORRUPT,
 * IO. */
REPRIEVE_EXPORT int reprieve_stored_read(const reprieve_stored_state* stored, const char* name, int type, void* data,
                                         int dimensions, const int64_t* shape, const ptrdiff_t* strides_bytes);
/** Reads a box of a distributed array; arguments as in reprieve_add_distributed. Errors as above. */
REPRIEVE_EXPORT int reprieve_stored_read_distributed(const reprieve_stored_state* stored, const char* name, int type,
                                                     void* data, int dimensions, const int64_t* global_shape,
                                                     const int64_t* offset, const int64_t* extent,
                                                     const ptrdiff_t* strides_bytes);
/** Called on every rank at the end of a restore from a checkpoint in which variables were missing, or had to be left
 * out: makes what is new from what is old. */
typedef int (*reprieve_migration_fn)(const reprieve_stored_state* stored, void* user);
REPRIEVE_EXPORT int reprieve_on_migration(reprieve_checkpoint* checkpoint, reprieve_migration_fn migrate, void* user);

/** For bindings of other languages: reports a registration that the binding refuses, as the library reports its own.
 * @param checkpoint  keeps the error for its `open`; NULL: nothing does
 * @return REPRIEVE_ERROR_USAGE */
REPRIEVE_EXPORT int reprieve_registration_error(reprieve_checkpoint* checkpoint, const char* message);

/* ---- Settings ---- */

/** All settings of handlers and managers. configs/README.md lists the keys. Not collective; nothing here is but for
 * what all ranks must do alike. */
typedef struct reprieve_config reprieve_config;

/** Settings as they are by default. */
REPRIEVE_EXPORT int reprieve_config_create(reprieve_config** config);
/** Frees it and sets *config to NULL. Handlers and managers have copies of their own. */
REPRIEVE_EXPORT int reprieve_config_destroy(reprieve_config** config);
/** Replaces all settings but functions by those of a JSON file. Errors: CONFIG with the key; IO, PERMISSION; USAGE. */
REPRIEVE_EXPORT int reprieve_config_load_file(reprieve_config* config, const char* path);
/** The same for a JSON text. */
REPRIEVE_EXPORT int reprieve_config_load_json(reprieve_config* config, const char* json);
/** Overrides one: "termination.grace_period_s", "30", written as in a variable. Errors: CONFIG; USAGE. */
REPRIEVE_EXPORT int reprieve_config_set(reprieve_config* config, const char* key, const char* value);
/** Overrides settings by the environment now, instead of when opening; see configs/README.md. Errors: CONFIG; USAGE. */
REPRIEVE_EXPORT int reprieve_config_apply_environment(reprieve_config* config);
/** Whether rank 0's variables REPRIEVE_... go before these settings (1, the default) or are not read (0). */
REPRIEVE_EXPORT int reprieve_config_read_environment(reprieve_config* config, int read);
/** All settings as JSON text, valid until the next call with this config; NULL after an error. */
REPRIEVE_EXPORT const char* reprieve_config_json(reprieve_config* config);

/** How to leave after the last save. */
typedef enum reprieve_exit {
  REPRIEVE_EXIT_DEFAULT = 0, /**< what fits the platform: LEAVE, or HOLD on accelerators under a manager */
  /** All ranks meet, and end the process with the restart code, without MPI_Finalize and atexit functions. */
  REPRIEVE_EXIT_LEAVE = 1,
  REPRIEVE_EXIT_HOLD = 2, /**< waits until the processes of the run are being taken, then leaves */
  /** The call returns REPRIEVE_PREEMPTED on every rank, and the program leaves in its own order: it closes the handler,
   * finalizes MPI, and returns reprieve_exit_code() from main. */
  REPRIEVE_EXIT_RETURN = 3,
  /** The call returns REPRIEVE_OK, reprieve_preempted() stays 1, and step boundaries save nothing more: the program
   * ends its loop when it likes, and returns reprieve_exit_code() from main. For loops that have an end of their own.
   */
  REPRIEVE_EXIT_LATER = 4
} reprieve_exit;
REPRIEVE_EXPORT int reprieve_config_set_exit(reprieve_config* config, int way);

/** Leaves the process, or returns 0: then the program continues as if nothing had been noticed. */
typedef int (*reprieve_exit_fn)(MPI_Comm comm, int exit_code, const char* checkpoint_path, void* user);
/** A way to leave of the program's own; overrides reprieve_config_set_exit. Called on every rank. NULL: none. */
REPRIEVE_EXPORT int reprieve_config_set_exit_fn(reprieve_config* config, reprieve_exit_fn exit, void* user);

/** The program's own part of a save, called on every rank before the commit.
 * @param write_directory  where this rank may write. Rank 0's files there are committed with the checkpoint, as the
 *                         directory `<prefix>-<number>.files`; those of other ranks are scratch and vanish */
typedef int (*reprieve_save_files_fn)(const char* write_directory, uint64_t number, int is_chief, void* user);
REPRIEVE_EXPORT int reprieve_config_set_save_fn(reprieve_config* config, reprieve_save_files_fn save, void* user);

/** The program's own count of steps, for loops in which a step is not one of reprieve_next_step: sub-cycles, or
 * boundaries at every hundredth step. It names the checkpoints, and `termination.save_every_steps` counts in it. The
 * same on all ranks, never falling. */
typedef uint64_t (*reprieve_step_fn)(void* user);
REPRIEVE_EXPORT int reprieve_config_set_step_fn(reprieve_config* config, reprieve_step_fn step, void* user);

/** Asked every `termination.poll_interval_s`, from a thread of the library's own, until it gives a notice. Must not
 * call MPI.
 * @param message  a buffer of message_size bytes for a text about the notice, empty at first
 * @param time_left_s  out: seconds until the end, if that is known; negative at first, which means it is not
 * @return 1: the job is about to end; 0: nothing yet */
typedef int (*reprieve_watcher_fn)(char* message, size_t message_size, double* time_left_s, void* user);
REPRIEVE_EXPORT int reprieve_config_set_watcher_fn(reprieve_config* config, reprieve_watcher_fn watcher, void* user);

/** Called on a rank that failed, if its error never reaches the others: they are stuck in a collective call of the
 * program. Should end the job. The default is MPI_Abort. */
typedef void (*reprieve_abort_fn)(MPI_Comm comm, int exit_code, void* user);
REPRIEVE_EXPORT int reprieve_config_set_abort_fn(reprieve_config* config, reprieve_abort_fn abort_job, void* user);

/** Called on rank 0 after each commit, with the path of the checkpoint, for example to copy it. It must not call MPI or
 * this library. A result other than 0 is a warning. See reprieve::ManagerOptions::after_commit. */
typedef int (*reprieve_after_commit_fn)(const char* checkpoint, void* user);
REPRIEVE_EXPORT int reprieve_config_set_after_commit_fn(reprieve_config* config, reprieve_after_commit_fn after_commit,
                                                        void* user);

/* ---- The time loop ---- */

#define REPRIEVE_NO_RUN_CALLS UINT64_MAX

/** What is known about a checkpoint. Texts belong to the handle they came from, and are valid until the next call with
 * it. */
typedef struct reprieve_checkpoint_info {
  const char* path;
  uint64_t number;             /**< from the file name */
  uint64_t run_calls;          /**< reprieve_total_run_calls() at the save; REPRIEVE_NO_RUN_CALLS without a handler */
  int world_size;              /**< ranks that saved */
  double time_s;               /**< of the save, in seconds since 1970 */
  uint64_t size_bytes;         /**< of the file */
  const char* reason;          /**< "user", "periodic" or "preemption" */
  const char* files_directory; /**< rank 0's files of the save function; empty if there are none */
} reprieve_checkpoint_info;

/** Figures of a save. */
typedef struct reprieve_save_report {
  const char* path; /**< belongs to the handler, and is valid until the next save */
  uint64_t number;
  uint64_t size_bytes;    /**< of the state, all ranks together */
  double seconds;         /**< to the commit, the slowest rank's */
  double blocked_seconds; /**< for how much of that the program stood still */
} reprieve_save_report;

/** What a rank learned about the end of the job. Texts belong to the handler. */
typedef struct reprieve_notice {
  int rank;            /**< the rank that learned it */
  const char* host;    /**< its host */
  const char* source;  /**< "signal SIGTERM", "watcher function", "file PREEMPT", ... */
  const char* message; /**< free text */
  int has_deadline;    /**< whether it is known when the job will be killed */
  double time_left_s;  /**< until then; may be negative. 0 if it is not known */
} reprieve_notice;

/** Coordinates all ranks to save one checkpoint when any of them is about to be taken away; see
 * reprieve::PreemptionCheckpointHandler. */
typedef struct reprieve_handler reprieve_handler;

/** Records the signals that announce an end (SIGTERM and SIGUSR1 at least) from here on, in the whole process. Call it
 * first thing in main, before MPI_Init: a notice that comes while the program starts is kept. Not collective. */
REPRIEVE_EXPORT int reprieve_watch_signals(void);
/** Gives the signals back to the handlers from before: a signal then ends the program again. Not collective. */
REPRIEVE_EXPORT int reprieve_unwatch_signals(void);

/** Opens the directory, and restores the newest valid checkpoint if there is one. Collective.
 * @param comm  duplicated; needs to live only during the call
 * @param checkpoint  the state; all its variables are registered
 * @param directory  of the checkpoints; NULL: the setting `directory`
 * @param config  NULL: defaults
 * Errors: CONFIG, USAGE (also those of registration, on whichever rank), IO, NO_SPACE, PERMISSION, LOCKED, CORRUPT,
 * MISMATCH, MPI, UNRESPONSIVE. *handler is NULL then. */
REPRIEVE_EXPORT int reprieve_handler_open(MPI_Comm comm, reprieve_checkpoint* checkpoint, const char* directory,
                                          const reprieve_config* config, reprieve_handler** handler);
/** The last agreement: returns what went wrong on any rank since the last boundary, as reprieve_step_begin, but acts on
 * no notice; commits a save in the background; ends open scopes, and returns their error. Sets *handler to NULL;
 * nothing if it is NULL already. After REPRIEVE_PREEMPTED it is still there, for reprieve_exit_code and another close.
 * If a loop of reprieve_next_step came to its end just before, it saves the last step, and marks the run as finished,
 * as reprieve_handler_finish does. Collective. */
REPRIEVE_EXPORT int reprieve_handler_close(reprieve_handler** handler);

/** One call per iteration: ends the step before, then begins the next one, unless `steps` are done.
 *
 *     int status;
 *     while (reprieve_next_step(handler, steps, &status)) { advance(field); }
 *     if (status != REPRIEVE_OK) { ... }
 *
 * The begin is a step boundary: if all ranks have agreed that this is the save step, the state is saved, and the
 * process left. When all steps are done it waits for all ranks, as reprieve_handler_finish does, but other loops may
 * follow. A notice that has come by then is no reason to leave: the last step is saved, and 0 returned. Collective.
 * @param steps  how many to make in all, over all restarts; REPRIEVE_NO_LIMIT: the program leaves the loop by itself
 * @param status  out: REPRIEVE_OK if a step began or all are done; otherwise as reprieve_step_begin. With NULL an error
 * ends the job by reprieve_abort; reprieve_preempted reports a preemption, with REPRIEVE_EXIT_RETURN
 * @return 1: make a step; 0: all are done, or there was an error
 * Cost without a notice: a clock reading and a few loads; one small reduction per half a check interval (8 ms), or per
 * step if steps are longer. */
REPRIEVE_EXPORT int reprieve_next_step(reprieve_handler* handler, uint64_t steps, int* status);
#define REPRIEVE_NO_LIMIT UINT64_MAX

/** A step boundary, after which a step is open. Collective.
 * Errors: CLUSTER on every rank if reprieve_fail was called on any; those of a save (NO_SPACE, ...): all older
 * checkpoints are untouched, and the handler stays usable; UNRESPONSIVE; USAGE: a step is open, or ranks call
 * differently. REPRIEVE_PREEMPTED with REPRIEVE_EXIT_RETURN. */
REPRIEVE_EXPORT int reprieve_step_begin(reprieve_handler* handler);
/** The step that is open is complete, and counts. Not collective. USAGE if no step is open. In a loop of
 * reprieve_next_step it is needed only before reprieve_save_if_preempted and reprieve_scope_end. */
REPRIEVE_EXPORT int reprieve_step_end(reprieve_handler* handler);

/** The last step boundary, for loops without reprieve_next_step or that were left before their end. A step that is open
 * counts. Waits for all ranks, reports what went wrong on any of them since the last boundary, saves the last step
 * unless a checkpoint holds it (setting `termination.save_at_finish`), and marks the run as finished. With a notice it
 * returns REPRIEVE_OK too, so that the program can write its results; but where reprieve_preempted was 1 for it, the
 * loop may have ended early: then it leaves, unless `termination.total_steps` are made. Ends open scopes. No boundary
 * comes after it; a second call does nothing. Collective; errors as reprieve_step_begin. */
REPRIEVE_EXPORT int reprieve_handler_finish(reprieve_handler* handler);

/** A step boundary without a step, for phases between steps (set-up, evaluation, output). It does not count in
 * reprieve_total_run_calls. Collective; errors as reprieve_step_begin. */
REPRIEVE_EXPORT int reprieve_save_if_preempted(reprieve_handler* handler);

/** What step boundaries do in a scope if the job is about to end: save and leave, as outside of it, or mark it, so that
 * the end of the scope does, or the last boundary that is safe if it is known when the job will be killed. */
typedef enum reprieve_scope_mode { REPRIEVE_SCOPE_SAVE_NOW = 0, REPRIEVE_SCOPE_SAVE_AT_END = 1 } reprieve_scope_mode;
/** A scope (SAVE_NOW, or of a mode) until the matching reprieve_scope_end. May be nested. Not collective. */
REPRIEVE_EXPORT int reprieve_scope_begin(reprieve_handler* handler);
REPRIEVE_EXPORT int reprieve_scope_begin_with(reprieve_handler* handler, int mode);
/** A boundary; of the outermost scope it saves and leaves. Collective; errors as reprieve_step_begin. */
REPRIEVE_EXPORT int reprieve_scope_end(reprieve_handler* handler);

/** This rank cannot continue: every rank gets REPRIEVE_ERROR_CLUSTER with the message, the others at their next step
 * boundary. After that the handler can only be closed. Called by the failing rank alone; returns when the others know
 * it, or after `termination.error_timeout_s`, when the abort function was called. */
REPRIEVE_EXPORT int reprieve_fail(reprieve_handler* handler, const char* message);

/** Steps of another length begin, longer ones above all: the next boundary asks for notices. Collective. As in C++. */
REPRIEVE_EXPORT int reprieve_begin_phase(reprieve_handler* handler);
/** Steps that are complete, over all restarts. Not collective; the same on every rank. UINT64_MAX if the handler is
 * NULL. */
REPRIEVE_EXPORT uint64_t reprieve_total_run_calls(const reprieve_handler* handler);
/** 1 if all ranks have agreed that the job is about to end, 0 if not (or if the handler is NULL). Not collective; the
 * same on every rank at the same boundary. */
REPRIEVE_EXPORT int reprieve_preempted(const reprieve_handler* handler);
/** The notice that all ranks have agreed on. Not collective. USAGE if there is none: see reprieve_preempted. */
REPRIEVE_EXPORT int reprieve_preemption_notice(const reprieve_handler* handler, reprieve_notice* notice);
/** Whether reprieve_handler_open restored a checkpoint. Not collective; the same on every rank.
 * @param restored  out: 1 or 0
 * @param info  out, may be NULL: filled in if it did, cleared if not */
REPRIEVE_EXPORT int reprieve_restored_from(const reprieve_handler* handler, int* restored,
                                           reprieve_checkpoint_info* info);
/** Whether an earlier run in this directory was finished and nothing was saved since. The state is that of its last
 * step: there is nothing to do but for more steps. Not collective; the same on every rank. @param finished  out: 1 or
 * 0. @param steps  out, may be NULL: at which */
REPRIEVE_EXPORT int reprieve_already_finished(const reprieve_handler* handler, int* finished, uint64_t* steps);
/** The latest checkpoint that this handler has committed. Not collective; the same on every rank between the same
 * boundaries. @param saved  out: 1 or 0. @param report  out, may be NULL */
REPRIEVE_EXPORT int reprieve_last_save(const reprieve_handler* handler, int* saved, reprieve_save_report* report);
/** Asks for a checkpoint at one of the next step boundaries, without an exit. Not collective: one rank is enough. */
REPRIEVE_EXPORT int reprieve_request_checkpoint(reprieve_handler* handler);
/** The code to leave with after REPRIEVE_PREEMPTED (42 unless configured). USAGE, and -1 in *exit_code, before that.
 * With the setting `termination.return_when_saved` calls return REPRIEVE_OK after the last save; then too it is this
 * code. */
REPRIEVE_EXPORT int reprieve_exit_code(const reprieve_handler* handler, int* exit_code);

/* ---- Recovery in place ---- */

/** What the ranks that work do, see reprieve_run_resilient. Errors of MPI in `ranks` come back as codes, as those of
 * this library do: then the body frees what it made, and returns the code, or another one that is not 0. A step whose
 * calls of MPI failed may end as if they had not: the next boundary has the error. */
typedef int (*reprieve_body_fn)(MPI_Comm ranks, void* user);
/** Calls the body with the ranks that work; when ranks die, again with those that live. Collective over comm. As
 * run_resilient in run_resilient.hpp, which says what it needs and what the body may do.
 * @param spare_ranks  the last ranks, which wait @param min_ranks  with fewer the process is left with code 42; at
 * least 1
 * @param worked  out, may be NULL: 0 on a rank that was a spare to the end */
REPRIEVE_EXPORT int reprieve_run_resilient(MPI_Comm comm, int spare_ranks, int min_ranks, reprieve_body_fn body,
                                           void* user, int* worked);

/* NOLINTEND(modernize-use-using, readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#include "reprieve/reprieve_manager.h" /* the rest of the interface */

#endif
