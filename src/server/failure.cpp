#include "server/failure.h"

#include "server/response_writer.h"

namespace weir::server {
namespace {

int status_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kTooLong:
    case Code::kUnsupported:
    case Code::kCorrupt:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kBusy:
      return 429;
    case Code::kCancelled:
    case Code::kOutOfMemory:
    case Code::kDevice:
      return 503;
    case Code::kInternal:
      return 500;
  }
  return 500;
}

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

const char* openai_type(int status) {
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

const char* openai_code(Code code) {
  if (code == Code::kTooLong) return "context_length_exceeded";
  if (code == Code::kNotFound) return "model_not_found";
  return nullptr;
}

}  // namespace

Failure failure_of(const Error& error) {
  return {status_of(error.code), error.hint.empty() ? error.message : error.message + " (" + error.hint + ")",
          openai_code(error.code)};
}

std::string failure_body(Protocol protocol, const Failure& failure, std::string_view request_id) {
  if (protocol == Protocol::kAnthropic) {
    return json_bytes({{"type", "error"},
                       {"error", {{"type", anthropic_type(failure.status)}, {"message", failure.message}}},
                       {"request_id", request_id}});
  }
  const Json code = failure.code == nullptr ? Json() : Json(failure.code);
  return json_bytes({{"error",
                      {{"message", failure.message},
                       {"type", openai_type(failure.status)},
                       {"param", nullptr},
                       {"code", code}}}});
}

}  // namespace weir::server
