// SPDX-License-Identifier: BSD-3-Clause
#include "termination/http.hpp"

#include <strings.h>  // NOLINT: strncasecmp is POSIX

#include <memory>
#include <string_view>

#include "termination/curl.hpp"

namespace reprieve::termination {

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
