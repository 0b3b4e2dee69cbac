// What the server offers under which path.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "server/access.h"
#include "server/access_log.h"
#include "server/answer_request.h"
#include "server/failure.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/response_writer.h"
#include "server/served_model.h"
#include "sessions/scheduler.h"

namespace weir::server {

class Service : public HttpHandler {
 public:
  // `scheduler` outlives the service.
  Service(ServedModel model, Scheduler& scheduler, AccessRules rules, bool log);

  // From here on nothing that costs work is taken.
  void drain() { draining_ = true; }

  std::optional<HttpAnswer> at_once(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<Reply> reply) override;
  HttpAnswer refusal(const HttpRequest& request, int status, const std::string& message) override;
  Headers common_headers(const HttpRequest& request) override;
  void record(const AccessRecord& record) override;

 private:
  std::optional<HttpAnswer> refuse_access(const HttpRequest& head);
  std::optional<HttpAnswer> refuse_route(const HttpRequest& head);
  HttpAnswer health(const std::string& path) const;
  HttpAnswer models(const std::string& path, const HttpRequest& request);
  void answer_post(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  HttpAnswer failed(const HttpRequest& request, const Error& error);
  HttpAnswer refused(const HttpRequest& request, const Failure& failure);

  ServedModel model_;
  Scheduler& scheduler_;
  AccessRules rules_;
  Metrics metrics_;
  AccessLog log_;
  std::atomic<bool> draining_{false};
};

}  // namespace weir::server
