// SPDX-License-Identifier: BSD-3-Clause
#include "support/http_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace reprieve::test {

namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

constexpr int kPollMs = 20;
constexpr std::size_t kFloodBytes = 200'000'000;
constexpr std::size_t kLongestHead = 64 * 1024;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void parse_head(const std::string& head, ServedRequest& request) {
  std::istringstream lines(head);
  lines >> request.method >> request.target;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    while (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    const auto colon = line.find(':');
    if (colon != std::string::npos) {
      const auto value = line.find_first_not_of(' ', colon + 1);
      request.headers[lower(line.substr(0, colon))] = value == std::string::npos ? "" : line.substr(value);
    }
  }
}

}  // namespace

HttpServer::HttpServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* general = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, general, size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, general, &size) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { accept_connections(); });
}

HttpServer::~HttpServer() {
  stop_ = true;
  thread_.join();
  for (std::thread& connection : connections_) {
    connection.join();
  }
  ::close(listener_);
}

std::string HttpServer::address() const { return "127.0.0.1:" + std::to_string(port_); }

std::vector<ServedRequest> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

bool HttpServer::wait_for(int connection, short event) const {
  while (!stop_) {
    pollfd descriptor{connection, event, 0};
    if (::poll(&descriptor, 1, kPollMs) > 0) {
      return true;
    }
  }
  return false;
}

void HttpServer::accept_connections() {
  while (wait_for(listener_, POLLIN)) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) {
      connections_.emplace_back([this, connection] { serve(connection); });
    }
  }
}

void HttpServer::serve(int connection) {
  ServedRequest request;
  if (read_request(connection, request)) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    reply(connection, handler_(request));
  }
  ::close(connection);
}

bool HttpServer::read_request(int connection, ServedRequest& request) const {
  std::string text;
  std::array<char, 4096> buffer{};
  auto head_end = std::string::npos;
  std::size_t body_size = 0;
  while (head_end == std::string::npos || text.size() < head_end + 4 + body_size) {
    if (text.size() > kLongestHead || !wait_for(connection, POLLIN)) {
      return false;
    }
    const ssize_t got = ::recv(connection, buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      return false;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (head_end == std::string::npos && (head_end = text.find("\r\n\r\n")) != std::string::npos) {
      parse_head(text.substr(0, head_end), request);
      const auto length = request.headers.find("content-length");
      body_size = length == request.headers.end() ? 0 : std::stoul(length->second);
    }
  }
  request.body = text.substr(head_end + 4);
  return true;
}

bool HttpServer::send_all(int connection, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    if (!wait_for(connection, POLLOUT)) {
      return false;
    }
    const ssize_t count = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      return false;
    }
    sent += static_cast<std::size_t>(count);
    bytes_sent_ += static_cast<std::size_t>(count);
  }
  return true;
}

void HttpServer::pause(std::chrono::milliseconds time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!stop_ && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(time, 10ms));
  }
}

void HttpServer::reply(int connection, const ServedReply& reply) {
  using Form = ServedReply::Form;
  pause(reply.delay);
  if (reply.form == Form::garbage) {
    send_all(connection, "\x16\x03\x01 this is no HTTP\r\n\0\xff\xfe\r\n\r\n"s);
    return;
  }
  if (reply.form == Form::silence) {
    while (!stop_) {
      pollfd descriptor{connection, POLLIN, 0};
      std::array<char, 1> byte{};
      if (::poll(&descriptor, 1, kPollMs) > 0 && ::recv(connection, byte.data(), 1, 0) <= 0) {
        return;  // the client has gone
      }
    }
    return;
  }
  const std::size_t size = reply.form == Form::proper  ? reply.body.size()
                           : reply.form == Form::flood ? kFloodBytes
                                                       : std::size_t{1'000'000};
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) +
                     " Reply\r\nConnection: close\r\nContent-Length: " + std::to_string(size) + "\r\n";
  for (const std::string& header : reply.headers) {
    head += header + "\r\n";
  }
  if (!send_all(connection, head + "\r\n")) {
    return;
  }
  if (reply.form == Form::proper) {
    send_all(connection, reply.body);
    return;
  }
  const std::string piece(reply.form == Form::drip ? 1 : 1'000'000, 'x');
  for (std::size_t sent = 0; sent < size && !stop_ && send_all(connection, piece); sent += piece.size()) {
    pause(reply.form == Form::drip ? 50ms : 0ms);
  }
}

}  // namespace reprieve::test
