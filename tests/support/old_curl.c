/* SPDX-License-Identifier: BSD-3-Clause */
/* A libcurl of another time, whose functions are not to be called. */

#include <stdlib.h>

/* As far as its header promises what stands where. */
struct version {
  int age;
  const char* text;
  unsigned int number;
};

const struct version* curl_version_info(int age);
const struct version* curl_version_info(int age) {
  static const struct version old = {0, "7.61.1", 0x073D01};
  (void)age;
  return &old;
}

#define NOT_TO_BE_CALLED(name) \
  void name(void);             \
  void name(void) { abort(); }
NOT_TO_BE_CALLED(curl_global_init)
NOT_TO_BE_CALLED(curl_easy_init)
NOT_TO_BE_CALLED(curl_easy_cleanup)
NOT_TO_BE_CALLED(curl_easy_setopt)
NOT_TO_BE_CALLED(curl_easy_getinfo)
NOT_TO_BE_CALLED(curl_easy_strerror)
NOT_TO_BE_CALLED(curl_multi_init)
NOT_TO_BE_CALLED(curl_multi_cleanup)
NOT_TO_BE_CALLED(curl_multi_add_handle)
NOT_TO_BE_CALLED(curl_multi_remove_handle)
NOT_TO_BE_CALLED(curl_multi_info_read)
NOT_TO_BE_CALLED(curl_multi_perform)
NOT_TO_BE_CALLED(curl_multi_poll)
NOT_TO_BE_CALLED(curl_multi_wakeup)
NOT_TO_BE_CALLED(curl_multi_strerror)
NOT_TO_BE_CALLED(curl_slist_append)
NOT_TO_BE_CALLED(curl_slist_free_all)
