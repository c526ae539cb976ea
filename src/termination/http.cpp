// SPDX-License-Identifier: BSD-3-Clause
#include "termination/http.hpp"

#include <dlfcn.h>
#include <strings.h>  // NOLINT: strncasecmp is POSIX

#include <array>
#include <memory>
#include <string_view>
#include <type_traits>

#include "termination/curl.hpp"

namespace reprieve::termination {

namespace {

/// The first that knows all options that are set in below.
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

namespace {

/// How often a stop is looked for at the latest; it also wakes the transfer by itself.
constexpr int kTransferPollMs = 100;
constexpr const char* kNoHandle = "libcurl gives no handle";

/// To libcurl's C interface CURL and CURLM are the same type.
template <auto Function>
struct Cleanup {
  template <class T>
  void operator()(T* handle) const {
    (curl().*Function)(handle);
  }
};
using Easy = std::unique_ptr<CURL, Cleanup<&Curl::easy_cleanup>>;
using Multi = std::unique_ptr<CURLM, Cleanup<&Curl::multi_cleanup>>;
using List = std::unique_ptr<curl_slist, Cleanup<&Curl::slist_free_all>>;

/// One exchange. Does not move: libcurl keeps pointers to it.
class Transfer {
 public:
  Transfer(const HttpRequest& request, const HttpLimits& limits) : limit_(limits.bytes), easy_(curl().easy_init()) {
    answer_.error = easy_ == nullptr ? kNoHandle : prepare(request, limits);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  [[nodiscard]] CURL* handle() const noexcept { return easy_.get(); }
  [[nodiscard]] bool ready() const noexcept { return answer_.error.empty(); }
  [[nodiscard]] const HttpAnswer& answer() const noexcept { return answer_; }

  void end(CURLcode code) {
    done_ = true;
    long status = 0;
    curl().easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    answer_.status = static_cast<int>(status);
    if (too_long_) {
      answer_.error = "the answer is longer than " + std::to_string(limit_) + " bytes";
    } else if (code != CURLE_OK) {
      answer_.error = curl().easy_strerror(code);
    }
  }
  /// After the last chance.
  void give_up(const std::string& why) {
    if (!done_ && answer_.error.empty()) {
      answer_.error = why;
    }
  }

 private:
  /// What went wrong, or nothing.
  std::string prepare(const HttpRequest& request, const HttpLimits& limits) {
    for (const std::string& header : request.headers) {
      curl_slist* longer = curl().slist_append(headers_.get(), header.c_str());
      if (longer == nullptr) {
        return "no memory for the headers";
      }
      static_cast<void>(headers_.release());
      headers_.reset(longer);
    }
    bool good = true;
    const auto set = [&](CURLoption option, auto value) {
      good = good && curl().easy_setopt(easy_.get(), option, value) == CURLE_OK;  // NOLINT: that is its interface
    };
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    set(CURLOPT_HTTPHEADER, headers_.get());
    if (!request.body.empty()) {
      set(CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
      set(CURLOPT_COPYPOSTFIELDS, request.body.c_str());
    }
    set(CURLOPT_PROTOCOLS_STR, "http");
    set(CURLOPT_PROXY, "");       // a proxy cannot reach a link-local address, and must not learn a token
    set(CURLOPT_NOSIGNAL, 1L);    // signals belong to the application
    set(CURLOPT_QUICK_EXIT, 1L);  // do not wait for a resolver that hangs
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(limits.connect.count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(limits.whole.count()));
    set(CURLOPT_WRITEFUNCTION, &Transfer::take_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_HEADERFUNCTION, &Transfer::take_header);
    set(CURLOPT_HEADERDATA, this);
    return good ? "" : "libcurl refuses the request";
  }

  static std::size_t take_body(const char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    std::string& body = transfer.answer_.body;
    if (body.size() + size * count > transfer.limit_) {
      transfer.too_long_ = true;
      return 0;  // ends the transfer
    }
    body.append(data, size * count);
    return size * count;
  }

  static std::size_t take_header(const char* data, std::size_t size, std::size_t count, void* self) {
    constexpr std::string_view kFlavor = "metadata-flavor:";
    const std::string_view line(data, size * count);
    if (line.size() >= kFlavor.size() && ::strncasecmp(line.data(), kFlavor.data(), kFlavor.size()) == 0) {
      static_cast<Transfer*>(self)->answer_.flavor = trimmed(line.substr(kFlavor.size()));
    }
    return size * count;
  }

  std::size_t limit_;
  HttpAnswer answer_;
  bool done_ = false;
  bool too_long_ = false;
  List headers_;
  Easy easy_;
};

void take_ended(CURLM* multi, const std::vector<std::unique_ptr<Transfer>>& transfers) {
  int left = 0;
  while (const CURLMsg* message = curl().multi_info_read(multi, &left)) {
    for (const auto& transfer : transfers) {
      if (message->msg == CURLMSG_DONE && message->easy_handle == transfer->handle()) {
        transfer->end(message->data.result);
      }
    }
  }
}

/// Until all have ended, whose own limits see to that, or a stop is requested. Returns why it gave up.
std::string drive(CURLM* multi, const std::vector<std::unique_ptr<Transfer>>& transfers, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [multi] { curl().multi_wakeup(multi); });
  int running = 1;
  while (running > 0) {
    if (stop.stop_requested()) {
      return "given up";
    }
    if (const CURLMcode code = curl().multi_perform(multi, &running); code != CURLM_OK) {
      return curl().multi_strerror(code);
    }
    take_ended(multi, transfers);
    if (running > 0) {
      if (const CURLMcode code = curl().multi_poll(multi, nullptr, 0, kTransferPollMs, nullptr); code != CURLM_OK) {
        return curl().multi_strerror(code);
      }
    }
  }
  return "no answer";
}

}  // namespace

std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  const auto end = text.find_last_not_of(" \t\r\n");
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

const std::string& http_problem() { return curl().problem; }

std::vector<HttpAnswer> exchange(const std::vector<HttpRequest>& requests, const HttpLimits& limits,
                                 const std::stop_token& stop) {
  if (!http_problem().empty()) {
    return std::vector<HttpAnswer>(requests.size(), HttpAnswer{.error = http_problem()});
  }
  std::vector<std::unique_ptr<Transfer>> transfers;
  transfers.reserve(requests.size());
  for (const HttpRequest& request : requests) {
    transfers.push_back(std::make_unique<Transfer>(request, limits));
  }
  const Multi multi(curl().multi_init());
  std::string why = kNoHandle;
  if (multi != nullptr) {
    for (const auto& transfer : transfers) {
      if (transfer->ready() && curl().multi_add_handle(multi.get(), transfer->handle()) != CURLM_OK) {
        transfer->give_up("libcurl refuses the request");
      }
    }
    why = drive(multi.get(), transfers, stop);
  }
  std::vector<HttpAnswer> answers;
  answers.reserve(transfers.size());
  for (const auto& transfer : transfers) {
    transfer->give_up(why);
    if (multi != nullptr && transfer->handle() != nullptr) {
      curl().multi_remove_handle(multi.get(), transfer->handle());
    }
    answers.push_back(transfer->answer());
  }
  return answers;
}

HttpAnswer exchange(const HttpRequest& request, const HttpLimits& limits, const std::stop_token& stop) {
  return exchange(std::vector<HttpRequest>{request}, limits, stop).front();
}

}  // namespace reprieve::termination
