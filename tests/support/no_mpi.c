/* SPDX-License-Identifier: BSD-3-Clause */
/* As LD_AUDIT: the loader finds neither MPI nor HDF5, whoever asks for them. */

#define _GNU_SOURCE
#include <link.h>
#include <string.h>

unsigned int la_version(unsigned int version);
unsigned int la_version(unsigned int version) { return version; }

char* la_objsearch(const char* name, uintptr_t* cookie, unsigned int flag);
char* la_objsearch(const char* name, uintptr_t* cookie, unsigned int flag) {
  (void)cookie;
  (void)flag;
  return strstr(name, "libmpi") != NULL || strstr(name, "libhdf5") != NULL ? NULL : (char*)name;
}
