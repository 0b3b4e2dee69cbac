#include "server/endpoints.h"

#include <array>

#include "server/chat_request.h"
#include "server/chat_response.h"
#include "server/completion_request.h"
#include "server/completion_response.h"
#include "server/messages_request.h"
#include "server/messages_response.h"
#include "server/responses_request.h"
#include "server/responses_response.h"

namespace weir::server {
namespace {

using Writer = std::unique_ptr<ResponseWriter>;

Result<AnswerRequest> parse_canvas_request(const Json& body, const ServedModel& model) {
  if (!model.is_diffusion) {
    return Error{Code::kUnsupported, "/v1/canvas needs a model that denoises, and " + model.id + " does not",
                 "use /v1/chat/completions"};
  }
  WEIR_TRY(AnswerRequest request, parse_chat_request(body, model));
  request.stream = request.canvas_frames = true;
  return request;
}

Writer chat_writer(const ResponseInfo& info, const AnswerRequest& request) {
  return request.stream ? make_chat_stream(info, request.canvas_frames) : make_chat_body(info);
}

Writer completion_writer(const ResponseInfo& info, const AnswerRequest& request) {
  return request.stream ? make_completion_stream(info) : make_completion_body(info);
}

Writer responses_writer(const ResponseInfo& info, const AnswerRequest& request) {
  return request.stream ? make_responses_stream(info) : make_responses_body(info);
}

Writer messages_writer(const ResponseInfo& info, const AnswerRequest& request) {
  return request.stream ? make_messages_stream(info) : make_messages_body(info);
}

constexpr std::array kEndpoints = {
    Endpoint{"/v1/chat/completions", Protocol::kOpenAi, parse_chat_request, chat_writer},
    Endpoint{"/v1/canvas", Protocol::kOpenAi, parse_canvas_request, chat_writer},
    Endpoint{"/v1/completions", Protocol::kOpenAi, parse_completion_request, completion_writer},
    Endpoint{"/v1/responses", Protocol::kOpenAi, parse_responses_request, responses_writer},
    Endpoint{"/v1/messages", Protocol::kAnthropic, parse_messages_request, messages_writer},
    Endpoint{"/v1/messages/count_tokens", Protocol::kAnthropic, parse_count_request, nullptr},
};

}  // namespace

const Endpoint* find_endpoint(const std::string& path) {
  for (const Endpoint& endpoint : kEndpoints) {
    if (path == endpoint.path) return &endpoint;
  }
  return nullptr;
}

Protocol protocol_of(const std::string& path) {
  const bool anthropic = path == "/v1/messages" || path.starts_with("/v1/messages/");
  return anthropic ? Protocol::kAnthropic : Protocol::kOpenAi;
}

}  // namespace weir::server
