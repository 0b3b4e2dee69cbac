// What the HTTP layer and what answers requests know of each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string id;  // of the client's x-request-id header where that is fit to print, else drawn
  std::string method;
  std::string target;                          // a path with its query
  std::map<std::string, std::string> headers;  // names in small letters; of repeated ones the first
  std::string body;
  std::chrono::steady_clock::time_point received = {};

  std::string path() const { return target.substr(0, target.find('?')); }
  std::string_view header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : found->second;
  }
};

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers = {};
};

// Where one request's response goes. From any thread; never blocks. Either send() once, or begin_stream(),
// write()s and end(). Once the client is gone everything is dropped.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(HttpAnswer answer) = 0;
  virtual void begin_stream(Headers headers) = 0;  // of server-sent events
  virtual void write(std::string bytes) = 0;
  virtual void end() = 0;
  // Called once, on the I/O thread, if the client leaves, or is dropped because it does not read, before the
  // response has ended; at once if it already has.
  virtual void on_gone(std::function<void()> callback) = 0;
};

// A request that is over, for the log.
struct AccessRecord {
  std::string client;
  std::string id, method, target;
  int status = 0;  // 0: none was sent
  uint64_t bytes = 0;
  double seconds = 0;
  bool gone = false;  // the client left before the end
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // On the I/O thread, when the head of a request has come and its body has not: an answer that needs no
  // work, or a refusal. Must return at once.
  virtual std::optional<HttpAnswer> at_once(const HttpRequest& head) = 0;
  // On a worker thread: everything else.
  virtual void handle(HttpRequest request, std::shared_ptr<Reply> reply) = 0;
  // On any thread: a refusal in the shape of the protocol that the target belongs to.
  virtual HttpAnswer refusal(const HttpRequest& request, int status, const std::string& message) = 0;
  // On the I/O thread: headers that every response to this request carries.
  virtual Headers common_headers(const HttpRequest& request) = 0;
  // On the I/O thread.
  virtual void record(const AccessRecord& record) = 0;
};

}  // namespace weir::server
