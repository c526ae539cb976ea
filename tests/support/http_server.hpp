// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A small HTTP server on a real socket, which can also be a bad one.

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace reprieve::test {

struct ServedRequest {
  std::string method;
  std::string target;                          ///< path and query
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

struct ServedReply {
  enum class Form {
    proper,
    garbage,  ///< bytes that are no HTTP
    silence,  ///< the connection stays open, and nothing comes
    drip,     ///< the body comes byte by byte, one every 50 ms, for ever
    flood,    ///< a body of 200 MB
  };
  int status = 200;
  std::string body = {};
  std::vector<std::string> headers = {};
  std::chrono::milliseconds delay{0};
  Form form = Form::proper;
};

/// Listens on a free port of 127.0.0.1 until it is destroyed.
class HttpServer {
 public:
  /// Called from several threads.
  using Handler = std::function<ServedReply(const ServedRequest&)>;

  /// @throws std::runtime_error if there is no port to be had
  explicit HttpServer(Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "127.0.0.1:port"
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::string url() const { return "http://" + address(); }
  /// What was asked so far.
  [[nodiscard]] std::vector<ServedRequest> requests() const;
  /// How many bytes of bodies were sent so far.
  [[nodiscard]] std::size_t bytes_sent() const noexcept { return bytes_sent_; }

 private:
  void accept_connections();
  void serve(int connection);
  [[nodiscard]] bool read_request(int connection, ServedRequest& request) const;
  [[nodiscard]] bool wait_for(int connection, short event) const;
  bool send_all(int connection, const std::string& text);
  void pause(std::chrono::milliseconds time) const;
  void reply(int connection, const ServedReply& reply);

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> bytes_sent_{0};
  mutable std::mutex mutex_;
  std::vector<ServedRequest> requests_;
  std::list<std::thread> connections_;
  std::thread thread_;
};

}  // namespace reprieve::test
