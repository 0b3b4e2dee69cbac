// A model on the network: HTTP, the protocols and the scheduler put together.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "server/access.h"
#include "server/http_server.h"
#include "server/served_model.h"
#include "sessions/scheduler.h"

namespace weir::server {

struct ServerOptions {
  HttpOptions http;
  AccessRules access;
  bool log = true;  // one line for each request, on stderr
};

class Server {
 public:
  // `scheduler` must outlive the server; its jobs have ended once the server is gone. Errors:
  // kInvalidArgument for an address that cannot be bound, and for one that others can reach without a key.
  static Result<std::unique_ptr<Server>> start(ServedModel model, Scheduler& scheduler,
                                               const ServerOptions& options);
  ~Server();  // drains without waiting

  const std::string& address() const;

  // Takes nothing new, lets answers end for at most `seconds`, and closes. The scheduler is drained too.
  void drain(double seconds);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weir::server
