// A request that gets no answer: the HTTP status, and a body in the shape of the protocol that was spoken.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::server {

enum class Protocol { kOpenAi, kAnthropic };

struct Failure {
  int status = 500;
  std::string message;
  const char* code = nullptr;  // OpenAI's own name for it, which agents look for
};

// 400 for what the client can mend, 404 for a model that is not there, 429 for a full queue, 503 for a
// machine that cannot go on, 500 for faults of weir. The hint becomes part of the message.
Failure failure_of(const Error& error);

// `request_id` only stands in Anthropic's shape.
std::string failure_body(Protocol protocol, const Failure& failure, std::string_view request_id);

}  // namespace weir::server
