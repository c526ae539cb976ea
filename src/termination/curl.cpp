// SPDX-License-Identifier: BSD-3-Clause
#include "termination/curl.hpp"

#include <dlfcn.h>

#include <array>
#include <type_traits>
#include <utility>

namespace reprieve::termination {

namespace {

/// The first that knows all options that are set in http.cpp.
constexpr unsigned int kOldest = 0x075700;
constexpr const char* kOldestText = "7.87.0";

/// As distributions name it, who build it with one or another library for TLS.
constexpr std::array<const char*, 3> kNames{"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};

std::string last_failure() {
  const char* text = ::dlerror();
  return text == nullptr ? "it cannot be loaded" : text;
}

/// What it lacks, or nothing.
std::string find_functions(void* library, Curl& curl) {
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing.empty()) {
      missing = last_failure();
    }
  };
  find(curl.global_init, "curl_global_init");
  find(curl.version_info, "curl_version_info");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.multi_init, "curl_multi_init");
  find(curl.multi_cleanup, "curl_multi_cleanup");
  find(curl.multi_add_handle, "curl_multi_add_handle");
  find(curl.multi_remove_handle, "curl_multi_remove_handle");
  find(curl.multi_info_read, "curl_multi_info_read");
  find(curl.multi_perform, "curl_multi_perform");
  find(curl.multi_poll, "curl_multi_poll");
  find(curl.multi_wakeup, "curl_multi_wakeup");
  find(curl.multi_strerror, "curl_multi_strerror");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  return missing;
}

/// Why it cannot be used, or nothing. Without TLS: metadata servers speak plain HTTP.
std::string initialise(const Curl& curl) {
  const curl_version_info_data* version = curl.version_info(CURLVERSION_NOW);
  if (version->version_num < kOldest) {
    return std::string("libcurl ") + version->version + " is older than " + kOldestText;
  }
  return curl.global_init(CURL_GLOBAL_NOTHING) == CURLE_OK ? "" : "libcurl cannot be initialised";
}

/// A library that was found is never closed: it may have made threads, and registered functions for the exit.
Curl load(const char* name) {
  Curl curl;
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    curl.problem = last_failure();
    return curl;
  }
  curl.problem = find_functions(library, curl);
  if (curl.problem.empty()) {
    curl.problem = initialise(curl);
  }
  return curl;
}

}  // namespace

Curl load_curl(std::span<const char* const> names) {
  std::string problems;
  for (const char* name : names) {
    Curl found = load(name);
    if (found.problem.empty()) {
      return found;
    }
    problems += (problems.empty() ? "" : "; ") + found.problem;
  }
  Curl none;
  none.problem = "metadata servers cannot be asked without libcurl (Debian: install libcurl4): " + problems;
  return none;
}

const Curl& curl() {
  static const Curl loaded = load_curl(kNames);
  return loaded;
}

}  // namespace reprieve::termination
