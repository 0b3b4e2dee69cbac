#include "server/http_connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <cctype>
#include <utility>

#include "server/http_message.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr size_t kBufferBytes = 64 * 1024;
constexpr size_t kWatchBytes = 4096;
constexpr std::chrono::seconds kLingerTime{2};

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

template <class View>
std::string text_of(const View& view) {
  return std::string(view.data(), view.size());
}

}  // namespace

Connection::Connection(Socket socket, std::string client, Server& server)
    : socket_(std::move(socket)),
      client_(std::move(client)),
      server_(server),
      deadline_(socket_.get_executor()),
      comment_timer_(socket_.get_executor()),
      in_(kBufferBytes) {}

template <class Task>
void Connection::on_io_thread(Task task) {
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), task = std::move(task)]() mutable { task(*self); });
}

void Connection::start() {
  wait_for_request();
}

void Connection::wait_for_request() {
  phase_ = Phase::kWaiting;
  if (closing_) return close();
  if (in_.size() > 0) return read_head();
  arm(server_.limits.idle_time);
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (self->phase_ == Phase::kClosed) return;
    error ? self->close() : self->read_head();
  });
}

void Connection::read_head() {
  phase_ = Phase::kReading;
  parser_.emplace();
  parser_->header_limit(server_.limits.header_bytes);
  parser_->body_limit(server_.limits.body_bytes);
  record_ = {};
  arm(server_.limits.read_time);
  http::async_read_header(socket_, in_, *parser_,
                          [self = shared_from_this()](ErrorCode error, size_t) { self->on_head(error); });
}

void Connection::on_head(ErrorCode error) {
  if (phase_ == Phase::kClosed) return;
  request_ = take_head();
  if (error) return on_read_error(error);
  if (refuse_head()) return;
  if (auto answer = server_.handler.at_once(request_)) {
    body_left_ = closing_ = closing_ || !parser_->is_done();
    phase_ = Phase::kResponding;
    return send_now(std::move(*answer));
  }
  const std::string expectation = in_small_letters(std::string(request_.header("expect")));
  if (expectation.empty() || parser_->is_done()) return read_body();
  if (expectation == "100-continue") return continue_body();
  refuse(417, "the expectation '" + expectation + "' cannot be met");
}

void Connection::on_read_error(ErrorCode error) {
  if (error == asio::error::operation_aborted) {
    const auto time = std::chrono::duration_cast<std::chrono::seconds>(server_.limits.read_time);
    return refuse(408, "the request did not come within " + std::to_string(time.count()) + " seconds");
  }
  if (error == http::error::header_limit) return refuse(431, "the headers are too long");
  if (error == http::error::body_limit) {
    return refuse(
        413, "the body is longer than the limit of " + std::to_string(server_.limits.body_bytes) + " bytes");
  }
  const bool protocol_error = error.category() == http::make_error_code(http::error::bad_target).category();
  if (protocol_error && error != http::error::end_of_stream && error != http::error::partial_message) {
    return refuse(400, "this is no HTTP request: " + error.message());
  }
  close();
}

HttpRequest Connection::take_head() {
  HttpRequest request;
  request.received = std::chrono::steady_clock::now();
  const auto& head = parser_->get();
  request.method = text_of(head.method_string());
  request.target = text_of(head.target());
  for (const auto& field : head) {
    request.headers.emplace(in_small_letters(text_of(field.name_string())), text_of(field.value()));
  }
  if (auto whole = absolute_target(request.target)) {
    request.target = std::move(whole->target);
    request.headers["host"] = std::move(whole->host);
  }
  request.id = request_id_or_new(request.header("x-request-id"));
  http_1_1_ = head.version() >= 11;
  if (!head.keep_alive()) closing_ = true;
  return request;
}

// What nobody could answer rightly: a header that decides who may ask and is missing or says two things (RFC
// 9112, 3.2), or a body in a coding that is not undone here.
bool Connection::refuse_head() {
  const auto& head = parser_->get();
  if (http_1_1_ && head.count("Host") == 0) {
    refuse(400, "the request has no header Host");
    return true;
  }
  for (const char* name : {"Host", "Origin", "Authorization", "x-api-key"}) {
    if (head.count(name) <= 1) continue;
    refuse(400, std::string("the request has more than one header ") + name);
    return true;
  }
  const std::string coding = in_small_letters(std::string(request_.header("content-encoding")));
  if (coding.empty() || coding == "identity") return false;
  refuse(415, "bodies in the content encoding '" + coding + "' are not read; send it as it is");
  return true;
}

void Connection::continue_body() {
  static const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue), [self = shared_from_this()](ErrorCode error, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    error ? self->close() : self->read_body();
  });
}

void Connection::read_body() {
  if (parser_->is_done()) return hand_over();
  http::async_read(socket_, in_, *parser_, [self = shared_from_this()](ErrorCode error, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    error ? self->on_read_error(error) : self->hand_over();
  });
}

void Connection::hand_over() {
  phase_ = Phase::kResponding;
  deadline_.cancel();
  watch();
  HttpRequest whole = request_;
  whole.body = std::move(parser_->get().body());
  parser_.reset();
  asio::post(server_.workers, [self = shared_from_this(), whole = std::move(whole)]() mutable {
    self->server_.handler.handle(std::move(whole), self);
  });
}

// Reads ahead, into the next request if there is one, so that the end of the connection is noticed.
void Connection::watch() {
  if (in_.size() + kWatchBytes > in_.max_size()) return;
  watching_ = true;
  socket_.async_read_some(
      in_.prepare(kWatchBytes),
      [self = shared_from_this()](ErrorCode error, size_t bytes) { self->on_watched(error, bytes); });
}

void Connection::on_watched(ErrorCode error, size_t bytes) {
  watching_ = false;
  if (phase_ == Phase::kClosed) return;
  in_.commit(bytes);
  if (phase_ == Phase::kResponding) {
    error ? drop() : watch();
  } else if (error && error != asio::error::operation_aborted) {
    close();
  } else {
    wait_for_request();
  }
}

void Connection::send(HttpAnswer answer) {
  on_io_thread([answer = std::move(answer)](Connection& self) mutable {
    if (self.phase_ == Phase::kResponding) self.send_now(std::move(answer));
  });
}

void Connection::refuse(int status, const std::string& message) {
  body_left_ = closing_ = true;
  phase_ = Phase::kResponding;
  send_now(server_.handler.refusal(request_, status, message));
}

void Connection::send_now(HttpAnswer answer) {
  Headers headers;
  if (answer.status != 204 && answer.status != 304) {  // these have no content to describe
    headers = {{"Content-Type", answer.content_type}, {"Content-Length", std::to_string(answer.body.size())}};
  }
  headers.insert(headers.end(), answer.headers.begin(), answer.headers.end());
  chunked_ = streaming_ = false;
  begin_response(answer.status, std::move(headers));
  if (request_.method != "HEAD") append(answer.body);
  end_response();
}

void Connection::begin_stream(Headers headers) {
  on_io_thread([headers = std::move(headers)](Connection& self) mutable {
    if (self.phase_ != Phase::kResponding) return;
    self.streaming_ = true;
    headers.emplace_back("Content-Type", "text/event-stream; charset=utf-8");
    headers.emplace_back("Cache-Control", "no-store");
    headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold events back
    self.begin_response(200, std::move(headers));
    self.flush();
    self.keep_alive_later();
  });
}

void Connection::begin_response(int status, Headers headers) {
  chunked_ = streaming_ && http_1_1_;
  if (streaming_ && !http_1_1_) closing_ = true;  // the end of the connection is the end of the body
  if (chunked_) headers.emplace_back("Transfer-Encoding", "chunked");
  headers.emplace_back("Connection", closing_ ? "close" : "keep-alive");
  headers.emplace_back("x-request-id", request_.id);
  for (auto& header : server_.handler.common_headers(request_)) headers.push_back(std::move(header));
  record_.status = status;
  ended_ = false;
  waiting_ += response_head(status, headers);
}

void Connection::append(std::string_view bytes) {
  if (bytes.empty()) return;
  silent_ = false;
  if (chunked_) {
    waiting_ += chunk(bytes);
  } else {
    waiting_ += bytes;
  }
}

void Connection::write(std::string bytes) {
  const uint64_t size = bytes.size();
  const bool too_much = unread_bytes_.fetch_add(size) + size > server_.limits.unread_bytes;
  on_io_thread([bytes = std::move(bytes), too_much](Connection& self) {
    if (self.phase_ != Phase::kResponding) return;
    if (too_much) return self.drop();
    self.append(bytes);
    self.flush();
  });
}

void Connection::end() {
  on_io_thread([](Connection& self) {
    if (self.phase_ != Phase::kResponding) return;
    if (self.chunked_) self.waiting_ += kLastChunk;
    self.end_response();
  });
}

void Connection::on_gone(std::function<void()> callback) {
  on_io_thread([callback = std::move(callback)](Connection& self) mutable {
    if (self.phase_ == Phase::kClosed) return callback();
    if (self.phase_ == Phase::kResponding && !self.ended_) self.gone_callback_ = std::move(callback);
  });
}

void Connection::end_response() {
  ended_ = true;
  gone_callback_ = nullptr;
  comment_timer_.cancel();
  flush();
}

void Connection::flush() {
  if (writing_ || phase_ == Phase::kClosed) return;
  if (waiting_.empty()) {
    if (ended_) finish_response();
    return;
  }
  writing_ = true;
  flying_ = std::exchange(waiting_, {});
  arm(server_.limits.write_time);
  asio::async_write(
      socket_, asio::buffer(flying_),
      [self = shared_from_this()](ErrorCode error, size_t bytes) { self->on_written(error, bytes); });
}

void Connection::on_written(ErrorCode error, size_t bytes) {
  writing_ = false;
  record_.bytes += bytes;
  if (phase_ == Phase::kClosed) return;
  if (error) return drop();
  deadline_.cancel();
  // Framing is not counted in, so the count may fall below what is left; it then starts from nothing.
  const uint64_t counted = unread_bytes_.load();
  unread_bytes_.fetch_sub(std::min<uint64_t>(counted, bytes));
  flush();
}

void Connection::finish_response() {
  record_.client = client_;
  record_.id = request_.id;
  record_.method = request_.method;
  record_.target = request_.target;
  record_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - request_.received).count();
  server_.handler.record(record_);
  unread_bytes_ = 0;
  ended_ = streaming_ = chunked_ = false;
  phase_ = Phase::kWaiting;
  if (closing_) return body_left_ && !record_.gone ? linger() : close();
  if (!watching_) return wait_for_request();
  ErrorCode ignored;
  socket_.cancel(ignored);  // on_watched() goes on
}

// Closing at once would reset the connection of a client that is still sending, and with it the refusal.
void Connection::linger() {
  phase_ = Phase::kLingering;
  ErrorCode ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  arm(kLingerTime);
  discard();
}

void Connection::discard() {
  in_.clear();
  socket_.async_read_some(in_.prepare(kBufferBytes), [self = shared_from_this()](ErrorCode error, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    error ? self->close() : self->discard();
  });
}

// Comments keep proxies and clients from taking a long silence for the end.
void Connection::keep_alive_later() {
  silent_ = true;
  comment_timer_.expires_after(server_.limits.comment_time);
  comment_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (error || self->phase_ != Phase::kResponding || !self->streaming_ || self->ended_) return;
    if (self->silent_) {
      self->append(": keep-alive\n\n");
      self->flush();
    }
    self->keep_alive_later();
  });
}

// The client is gone, or does not read.
void Connection::drop() {
  if (phase_ != Phase::kResponding) return close();
  record_.gone = true;
  const auto callback = std::exchange(gone_callback_, nullptr);
  closing_ = true;
  finish_response();
  if (callback) callback();
}

void Connection::close_when_idle() {
  closing_ = true;
  if (phase_ == Phase::kWaiting) close();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  ErrorCode ignored;
  deadline_.cancel();
  comment_timer_.cancel();
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
  server_.closed(shared_from_this());
}

void Connection::arm(std::chrono::milliseconds time) {
  deadline_.expires_after(time);
  deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (error) return;
    if (self->phase_ != Phase::kReading) return self->drop();
    ErrorCode ignored;
    self->socket_.cancel(ignored);  // on_read_error() goes on
  });
}

}  // namespace weir::server
