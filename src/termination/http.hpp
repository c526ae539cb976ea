// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Small HTTP exchanges with servers that may not be there. By libcurl, which is loaded for it.

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace reprieve::termination {

struct HttpRequest {
  std::string method = "GET";
  std::string url;                        ///< http only
  std::vector<std::string> headers = {};  ///< "Name: value"
  std::string body = {};
};

struct HttpLimits {
  std::chrono::milliseconds connect{1000};
  std::chrono::milliseconds whole{2000};
  std::size_t bytes = std::size_t{256} * 1024;  ///< of an answer
};

struct HttpAnswer {
  int status = 0;
  std::string body{};
  std::string flavor{};  ///< the header Metadata-Flavor
  std::string error{};   ///< why there is no answer; empty if there is one
};

/// Without the blanks and the ends of lines around it.
[[nodiscard]] std::string trimmed(std::string_view text);

/// Why nothing can be asked on this machine; empty if it can. Loads libcurl. Thread: any.
const std::string& http_problem();

/// Sends all requests side by side and returns their answers, in order, when all have answered or failed; never later
/// than the limit. No proxies, no redirections. An error is an answer too, also that there is no libcurl: nothing is
/// thrown but std::bad_alloc. Thread: any.
/// @param stop  gives up at once when it is requested
std::vector<HttpAnswer> exchange(const std::vector<HttpRequest>& requests, const HttpLimits& limits,
                                 const std::stop_token& stop = {});

/// The same of one.
HttpAnswer exchange(const HttpRequest& request, const HttpLimits& limits, const std::stop_token& stop = {});

}  // namespace reprieve::termination
