// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// libcurl, loaded when a metadata server is really asked: programs do not link it, and need it on clouds alone. Its
/// header gives the types; the functions are those of the library that is found.

#include <curl/curl.h>

#include <span>
#include <string>

namespace reprieve::termination {

/// Those of its functions that are used here, without their "curl_".
struct Curl {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&::curl_multi_strerror) multi_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;

  std::string problem;  ///< why it cannot be used; empty if it can
};

/// Loads and initialises the first of the libraries @p names that can be used. It stays loaded until the process ends.
/// Nothing is thrown but std::bad_alloc. Thread: any.
Curl load_curl(std::span<const char* const> names);

/// That of this process: loaded at the first call, and the same from then on, also if it cannot be used. Thread: any.
const Curl& curl();

}  // namespace reprieve::termination
