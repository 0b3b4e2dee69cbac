#include "server/service.h"

#include <chrono>
#include <cmath>
#include <exception>
#include <utility>

#include "server/answering.h"
#include "server/endpoints.h"
#include "server/web_page.h"

namespace weir::server {
namespace {

constexpr const char* kRetrySeconds = "1";

bool is_get(const std::string& method) {
  return method == "GET" || method == "HEAD";
}

bool is_health(const std::string& path) {
  return path == "/health" || path == "/health/live" || path == "/health/ready";
}

bool is_models(const std::string& path) {
  return path == "/v1/models" || path.starts_with("/v1/models/");
}

bool is_page(const std::string& path) {
  return path == "/";
}

bool known_get(const std::string& path) {
  return is_page(path) || is_health(path) || is_models(path) || path == "/metrics";
}

// Browsers keep the page and ask whether it is still the same.
HttpAnswer page(const HttpRequest& request) {
  const WebPage& page = web_page();
  HttpAnswer answer{200, std::string(page.html), "text/html; charset=utf-8"};
  if (request.header("if-none-match").find(page.tag) != std::string_view::npos) answer = {304, ""};
  answer.headers = {{"ETag", page.tag},
                    {"Cache-Control", "no-cache"},
                    {"Content-Security-Policy", page.policy},
                    {"Cross-Origin-Opener-Policy", "same-origin"},
                    {"Referrer-Policy", "no-referrer"},
                    {"X-Content-Type-Options", "nosniff"}};
  return answer;
}

// What a request that does not choose gets. Of a diffusion model the temperature scales its own schedule.
Json default_sampling(const ServedModel& model) {
  if (model.is_diffusion) return {{"temperature", 1}};
  const auto decimal = [](float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; };
  const Sampling& sampling = model.defaults.sampling;
  return {{"temperature", decimal(sampling.temperature)},
          {"top_p", decimal(sampling.top_p)},
          {"top_k", sampling.top_k},
          {"min_p", decimal(sampling.min_p)}};
}

// Fit for an id in any protocol: letters and digits, as long as they have to tell requests apart.
std::string response_id(const std::string& request_id) {
  std::string id;
  for (const char c : request_id) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) id += c;
  }
  return id;
}

int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

Service::Service(ServedModel model, Scheduler& scheduler, AccessRules rules, bool log)
    : model_(std::move(model)), scheduler_(scheduler), rules_(std::move(rules)), log_(log) {}

std::optional<HttpAnswer> Service::at_once(const HttpRequest& head) {
  const std::string path = head.path();
  if (is_health(path) && is_get(head.method)) return health(path);
  if (is_page(path) && is_get(head.method)) return page(head);
  if (auto refused = refuse_access(head)) return refused;
  if (head.method == "OPTIONS") return HttpAnswer{204, "", "text/plain"};
  if (auto refused = refuse_route(head)) return refused;
  if (is_models(path)) return models(path, head);
  return std::nullopt;
}

std::optional<HttpAnswer> Service::refuse_access(const HttpRequest& head) {
  if (!origin_allowed(head, rules_)) {
    return refusal(head, 403,
                   "pages of this origin may not use the server; weir serve --cors-origin allows them to");
  }
  if (!host_allowed(head, rules_)) {
    return refusal(
        head, 403,
        "without a key the server is asked as localhost or by its address; weir serve --allow-host lets "
        "it be asked by another name");
  }
  if (head.method == "OPTIONS" || has_key(head, rules_)) return std::nullopt;
  return refusal(head, 401,
                 "the API key is missing or wrong; send it as Authorization: Bearer KEY or x-api-key");
}

std::optional<HttpAnswer> Service::refuse_route(const HttpRequest& head) {
  const std::string path = head.path();
  const bool post = find_endpoint(path) != nullptr;
  if (!post && !known_get(path)) return refusal(head, 404, "there is nothing under this path");
  if (post ? head.method == "POST" : is_get(head.method)) {
    if (!post || !draining_) return std::nullopt;
    HttpAnswer answer = refusal(head, 503, "the server is shutting down");
    answer.headers.emplace_back("Retry-After", kRetrySeconds);
    return answer;
  }
  HttpAnswer answer = refusal(head, 405, post ? "this path takes POST" : "this path takes GET");
  answer.headers.emplace_back("Allow", post ? "POST" : "GET, HEAD");
  return answer;
}

HttpAnswer Service::health(const std::string& path) const {
  const bool ready = !draining_;
  const Json body = {{"status", ready ? "ok" : "draining"}, {"model", model_.id}};
  return {path == "/health/live" || ready ? 200 : 503, json_bytes(body)};
}

HttpAnswer Service::models(const std::string& path, const HttpRequest& request) {
  const Json entry = {{"id", model_.id},
                      {"object", "model"},
                      {"created", model_.loaded_at},
                      {"owned_by", "weir"},
                      {"max_model_len", model_.context},
                      {"block_diffusion", model_.is_diffusion},
                      {"thinks", model_.think},
                      {"sampling", default_sampling(model_)}};
  if (path == "/v1/models") return {200, json_bytes({{"object", "list"}, {"data", Json::array({entry})}})};
  const std::string id = path.substr(std::string("/v1/models/").size());
  if (id == model_.id) return {200, json_bytes(entry)};
  return failed(request, {Code::kNotFound, "there is no such model here, only " + model_.id, ""});
}

void Service::handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  try {
    if (request.path() == "/metrics") {
      return reply->send({200, metrics_.text(scheduler_.status()), "text/plain; version=0.0.4"});
    }
    answer_post(request, reply);
  } catch (const std::bad_alloc&) {
    reply->send(failed(request, {Code::kOutOfMemory, "memory ran out", ""}));
  } catch (const std::exception& error) {  // of a library; a fault of weir not to have met it earlier
    reply->send(failed(request, {Code::kInternal, error.what(), ""}));
  }
}

void Service::answer_post(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const Endpoint& endpoint = *find_endpoint(request.path());
  const auto body = parse_json(request.body);
  if (!body.ok()) return reply->send(failed(request, body.error()));
  auto parsed = endpoint.parse(*body, model_);
  if (!parsed.ok()) return reply->send(failed(request, parsed.error()));
  ResponseInfo info{response_id(request.id), seconds_since_1970(), &model_, parsed->include_usage};
  for (const auto& prompt : parsed->prompts) info.prompt_tokens += static_cast<int64_t>(prompt.size());
  if (endpoint.writer == nullptr) {
    return reply->send({200, json_bytes({{"input_tokens", info.prompt_tokens}})});
  }
  auto writer = endpoint.writer(info, *parsed);
  const AnsweringParts parts{scheduler_, metrics_, model_, endpoint.protocol, request.id, request.received};
  const auto started = Answering::start(parts, *std::move(parsed), std::move(writer), reply);
  if (!started.ok()) reply->send(failed(request, started.error()));
}

HttpAnswer Service::failed(const HttpRequest& request, const Error& error) {
  return refused(request, failure_of(error));
}

HttpAnswer Service::refusal(const HttpRequest& request, int status, const std::string& message) {
  return refused(request, {status, message, status == 401 ? "invalid_api_key" : nullptr});
}

HttpAnswer Service::refused(const HttpRequest& request, const Failure& failure) {
  HttpAnswer answer{failure.status, failure_body(protocol_of(request.path()), failure, request.id)};
  if (failure.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (failure.status == 429) answer.headers.emplace_back("Retry-After", kRetrySeconds);
  return answer;
}

Headers Service::common_headers(const HttpRequest& request) {
  return cors_headers(request, rules_);
}

void Service::record(const AccessRecord& record) {
  metrics_.responded(record.status);
  log_.record(record);
}

}  // namespace weir::server
