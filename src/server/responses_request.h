// A body of POST /v1/responses: OpenAI's responses, without anything kept between requests.
#pragma once

#include "base/result.h"
#include "chat/json_text.h"
#include "server/answer_request.h"

namespace weir::server {

// Errors: as parse_chat_request.
Result<AnswerRequest> parse_responses_request(const Json& body, const ServedModel& model);

}  // namespace weir::server
