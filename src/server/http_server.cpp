#include "server/http_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include "server/http_connection.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Local = asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;

constexpr int kWorkers = 2;
constexpr std::chrono::milliseconds kAcceptPause{100};

Error invalid(std::string message, std::string hint = "") {
  return {Code::kInvalidArgument, std::move(message), std::move(hint)};
}

Result<asio::ip::address> parse_host(const std::string& host) {
  ErrorCode error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) return invalid("'" + host + "' is no address", "such as 127.0.0.1, ::1 or 0.0.0.0");
  return address;
}

bool someone_listens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

// Removes a socket that a server left behind.
Status make_way(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    return invalid("the socket's path " + path + " is too long");
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return Ok{};
  if (!S_ISSOCK(found.st_mode)) return invalid(path + " exists and is no socket", "choose another path");
  if (someone_listens(path)) return invalid("another server listens on " + path, "choose another path");
  ::unlink(path.c_str());
  return Ok{};
}

// Binds without letting anyone but the owner in, not even for a moment.
Result<std::unique_ptr<Local::acceptor>> listen_unix(asio::io_context& io, const std::string& path) {
  WEIR_RETURN_IF_ERROR(make_way(path));
  auto acceptor = std::make_unique<Local::acceptor>(io);
  ErrorCode error;
  acceptor->open(Local(), error);
  const mode_t before = ::umask(0177);
  if (!error) acceptor->bind(Local::endpoint(path), error);
  ::umask(before);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) return invalid("cannot listen on " + path + ": " + error.message());
  return acceptor;
}

Result<std::unique_ptr<tcp::acceptor>> listen_tcp(asio::io_context& io, const HttpOptions& options) {
  WEIR_TRY(const asio::ip::address address, parse_host(options.host));
  const tcp::endpoint endpoint(address, options.port);
  auto acceptor = std::make_unique<tcp::acceptor>(io);
  ErrorCode error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (!error) return acceptor;
  return invalid(
      "cannot listen on " + options.host + " port " + std::to_string(options.port) + ": " + error.message(),
      "--port chooses another one");
}

std::string name_of(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
}

}  // namespace

Result<bool> is_loopback(const std::string& host) {
  WEIR_TRY(const asio::ip::address address, parse_host(host));
  return address.is_loopback();
}

struct HttpServer::State {
  State(HttpLimits given_limits, HttpHandler& handler)
      : limits(given_limits), server{handler, workers, limits, [this](const auto& connection) {
                                       connections.erase(connection);
                                     }} {}

  const HttpLimits limits;
  asio::io_context io{1};
  asio::thread_pool workers{kWorkers};
  Connection::Server server;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer pause{io};
  std::unique_ptr<tcp::acceptor> tcp_acceptor;
  std::unique_ptr<Local::acceptor> unix_acceptor;
  std::string address, unix_path;
  std::set<std::shared_ptr<Connection>> connections;
  std::thread thread;

  void run();
  void accept_tcp();
  void accept_unix();
  void serve(Connection::Socket socket, std::string client);
  template <class Accept>
  void accept_later(Accept accept);
  void close_acceptors();
  void close_all(bool at_once);
};

void HttpServer::State::run() {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception&) {
      // Memory ran out in a handler; its connection ends by its deadline, the others go on.
    }
  }
}

void HttpServer::State::accept_tcp() {
  tcp_acceptor->async_accept([this](ErrorCode error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) return accept_later([this] { accept_tcp(); });
    ErrorCode ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const tcp::endpoint client = socket.remote_endpoint(ignored);
    serve(Connection::Socket(std::move(socket)), name_of(client));
    accept_tcp();
  });
}

void HttpServer::State::accept_unix() {
  unix_acceptor->async_accept([this](ErrorCode error, Local::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) return accept_later([this] { accept_unix(); });
    serve(Connection::Socket(std::move(socket)), "unix");
    accept_unix();
  });
}

// After an error that passes, such as too many open files.
template <class Accept>
void HttpServer::State::accept_later(Accept accept) {
  pause.expires_after(kAcceptPause);
  pause.async_wait([accept](ErrorCode error) {
    if (!error) accept();
  });
}

void HttpServer::State::serve(Connection::Socket socket, std::string client) {
  if (connections.size() >= limits.connections) {
    static constexpr char kFull[] =
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: "
        "0\r\n\r\n";
    ErrorCode ignored;
    socket.non_blocking(true, ignored);
    socket.send(asio::buffer(kFull, sizeof kFull - 1), 0, ignored);
    return;
  }
  const auto connection = std::make_shared<Connection>(std::move(socket), std::move(client), server);
  connections.insert(connection);
  connection->start();
}

void HttpServer::State::close_acceptors() {
  ErrorCode ignored;
  pause.cancel();
  if (tcp_acceptor) tcp_acceptor->close(ignored);
  if (unix_acceptor && unix_acceptor->is_open()) {
    unix_acceptor->close(ignored);
    ::unlink(unix_path.c_str());
  }
}

void HttpServer::State::close_all(bool at_once) {
  const auto all = connections;  // they leave the set as they close
  for (const auto& connection : all) at_once ? connection->drop() : connection->close_when_idle();
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, HttpHandler& handler) {
  auto state = std::make_unique<State>(options.limits, handler);
  if (options.unix_path.empty()) {
    WEIR_TRY(state->tcp_acceptor, listen_tcp(state->io, options));
    ErrorCode ignored;
    state->address = "http://" + name_of(state->tcp_acceptor->local_endpoint(ignored));
    state->accept_tcp();
  } else {
    WEIR_TRY(state->unix_acceptor, listen_unix(state->io, options.unix_path));
    state->unix_path = options.unix_path;
    state->address = "unix:" + options.unix_path;
    state->accept_unix();
  }
  State* running = state.get();
  state->thread = std::thread([running] { running->run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  State* state = state_.get();
  asio::post(state->io, [state] {
    state->close_acceptors();
    state->close_all(true);
  });
  state->workers.join();
  state->work.reset();
  state->thread.join();
}

const std::string& HttpServer::address() const {
  return state_->address;
}

void HttpServer::stop_accepting() {
  asio::post(state_->io, [state = state_.get()] { state->close_acceptors(); });
}

void HttpServer::finish(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  size_t left = 1;
  while (left > 0 && std::chrono::steady_clock::now() < end) {
    std::promise<size_t> count;
    asio::post(state_->io, [state = state_.get(), &count] {
      state->close_all(false);
      count.set_value(state->connections.size());
    });
    left = count.get_future().get();
    if (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  asio::post(state_->io, [state = state_.get()] { state->close_all(true); });
}

}  // namespace weir::server
