/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into ranks of MPICH that share cores. MPICH 4.0 as Debian builds it never gives its core away while it
 * waits (libmpich has no call of sched_yield), so that each collective call costs the ranks' time slices. All its
 * waiting goes through this function of UCX. A nap is better than a yield, which newer kernels hardly heed. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned (*progress_fn)(void* worker);

unsigned ucp_worker_progress(void* worker);

unsigned ucp_worker_progress(void* worker) {
  static _Thread_local progress_fn next;
  if (next == NULL) {
    *(void**)&next = dlsym(RTLD_NEXT, "ucp_worker_progress");
    if (next == NULL) {
      abort();
    }
  }
  const unsigned events = next(worker);
  if (events == 0) {
    const struct timespec nap = {0, 1000};
    nanosleep(&nap, NULL);
  }
  return events;
}
