// One connection: requests in, responses out, one after the other.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http_server.h"

namespace weir::server {

// Everything but the Reply runs on the I/O thread. While a response is being made, a pending read notices
// that the client has left.
class Connection : public Reply, public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  struct Server {  // outlives the connection
    HttpHandler& handler;
    boost::asio::thread_pool& workers;
    const HttpLimits& limits;
    std::function<void(const std::shared_ptr<Connection>&)> closed;
  };

  Connection(Socket socket, std::string client, Server& server);

  void start();
  void close_when_idle();  // now, or behind the present response
  void drop();             // now; the present response ends as if the client had left

  void send(HttpAnswer answer) override;
  void begin_stream(Headers headers) override;
  void write(std::string bytes) override;
  void end() override;
  void on_gone(std::function<void()> callback) override;

 private:
  using ErrorCode = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Phase { kWaiting, kReading, kResponding, kLingering, kClosed };

  void wait_for_request();
  void read_head();
  void on_head(ErrorCode error);
  void on_read_error(ErrorCode error);
  HttpRequest take_head();
  bool refuse_head();  // true when it has
  void continue_body();
  void read_body();
  void hand_over();
  void watch();
  void on_watched(ErrorCode error, size_t bytes);

  void send_now(HttpAnswer answer);
  void refuse(int status, const std::string& message);
  void begin_response(int status, Headers headers);
  void append(std::string_view bytes);
  void flush();
  void on_written(ErrorCode error, size_t bytes);
  void end_response();
  void finish_response();
  void linger();
  void discard();
  void keep_alive_later();
  void close();
  void arm(std::chrono::milliseconds time);

  template <class Task>
  void on_io_thread(Task task);

  Socket socket_;
  std::string client_;
  Server& server_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer comment_timer_;
  boost::beast::flat_buffer in_;
  std::optional<Parser> parser_;

  Phase phase_ = Phase::kWaiting;
  bool closing_ = false;    // behind the present response
  bool body_left_ = false;  // the request was refused before its body was read
  bool http_1_1_ = true;
  bool watching_ = false;

  HttpRequest request_;  // its head; the body goes to the worker
  std::function<void()> gone_callback_;
  AccessRecord record_;
  bool chunked_ = false;
  bool streaming_ = false;
  bool ended_ = false;
  bool writing_ = false;
  bool silent_ = false;                    // nothing was sent since the comment timer was set
  std::string waiting_, flying_;           // bytes to send, and those being sent
  std::atomic<uint64_t> unread_bytes_{0};  // handed to write() and not sent yet
};

}  // namespace weir::server
