#include "server/server.h"

#include <utility>

#include "server/service.h"

namespace weir::server {
namespace {

constexpr std::chrono::seconds kFlushTime{5};  // for clients to take the ends of their answers

Status check_key(const ServerOptions& options) {
  if (!options.access.keys.empty() || !options.http.unix_path.empty()) return Ok{};
  WEIR_TRY(const bool loopback, is_loopback(options.http.host));
  if (loopback) return Ok{};
  return Error{Code::kInvalidArgument,
               "others can reach " + options.http.host + ", and no API key protects the server",
               "set --api-key-file or WEIR_API_KEY, or stay with 127.0.0.1"};
}

}  // namespace

struct Server::State {
  State(ServedModel model, Scheduler& given_scheduler, const ServerOptions& options)
      : scheduler(given_scheduler), service(std::move(model), scheduler, options.access, options.log) {}

  Scheduler& scheduler;
  Service service;
  std::unique_ptr<HttpServer> http;
  bool drained = false;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::start(ServedModel model, Scheduler& scheduler,
                                              const ServerOptions& options) {
  WEIR_RETURN_IF_ERROR(check_key(options));
  if (!model.vocabulary) model.vocabulary = std::make_shared<grammar::TokenTrie>(*model.tokenizer);
  auto state = std::make_unique<State>(std::move(model), scheduler, options);
  WEIR_TRY(state->http, HttpServer::start(options.http, state->service));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() {
  drain(0);
}

const std::string& Server::address() const {
  return state_->http->address();
}

void Server::drain(double seconds) {
  if (std::exchange(state_->drained, true)) return;
  state_->service.drain();
  state_->http->stop_accepting();
  state_->scheduler.drain(seconds);
  state_->http->finish(kFlushTime);
}

}  // namespace weir::server
