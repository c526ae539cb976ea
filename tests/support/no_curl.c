/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded: the process finds no libcurl when it looks for one. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void* dlopen(const char* name, int flags);
void* dlopen(const char* name, int flags) {
  static void* (*next)(const char*, int);
  if (next == NULL) {
    *(void**)&next = dlsym(RTLD_NEXT, "dlopen");
  }
  return next(name != NULL && strstr(name, "libcurl") != NULL ? "libcurl-of-nowhere.so" : name, flags);
}
