// HTTP/1.1 on TCP and UNIX sockets: one I/O thread that never computes, and two workers that read requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http.h"

namespace weir::server {

struct HttpLimits {
  uint32_t header_bytes = 16 * 1024;
  uint64_t body_bytes = uint64_t{16} << 20;
  size_t connections = 512;
  uint64_t unread_bytes = uint64_t{4}
                          << 20;  // of a response that the client leaves unread, then it is dropped
  std::chrono::milliseconds read_time{30'000};     // for a whole request, from its first byte
  std::chrono::milliseconds idle_time{75'000};     // between requests
  std::chrono::milliseconds write_time{30'000};    // until a client takes what is sent
  std::chrono::milliseconds comment_time{10'000};  // silence in a stream before a keep-alive comment
};

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  uint16_t port = 0;               // 0: a free one
  std::string unix_path;           // if not empty, this socket instead of host and port
  HttpLimits limits;
};

// Whether `host` can only be reached from this machine. Error: kInvalidArgument when it is no address.
Result<bool> is_loopback(const std::string& host);

class HttpServer {
 public:
  // `handler` must outlive the server. Errors: kInvalidArgument for an address that is none or cannot be
  // bound, or a path where something else is.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, HttpHandler& handler);

  ~HttpServer();  // ends all connections at once

  // "http://127.0.0.1:8080" or "unix:/path".
  const std::string& address() const;

  void stop_accepting();

  // Closes connections as soon as they have no response to send, for at most `time`, then the rest.
  void finish(std::chrono::milliseconds time);

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weir::server
