// A body of POST /v1/messages: Anthropic's messages.
#pragma once

#include "base/result.h"
#include "chat/json_text.h"
#include "server/answer_request.h"

namespace weir::server {

// Errors: as parse_chat_request. Thinking is off unless the request turns it on, as Anthropic has it; of a
// diffusion model its budget is not enforced, and a warning says so.
Result<AnswerRequest> parse_messages_request(const Json& body, const ServedModel& model);

// The same without max_tokens, for /v1/messages/count_tokens.
Result<AnswerRequest> parse_count_request(const Json& body, const ServedModel& model);

}  // namespace weir::server
