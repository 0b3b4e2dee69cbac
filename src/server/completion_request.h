// A body of POST /v1/completions: OpenAI's completions of raw text.
#pragma once

#include "base/result.h"
#include "chat/json_text.h"
#include "server/answer_request.h"

namespace weir::server {

// The prompt is a string, an array of strings, an array of token ids or an array of those. Added tokens that
// are spelled out in a string are recognised; Gemma's <bos> is put before a string that lacks it. Errors: as
// parse_chat_request.
Result<AnswerRequest> parse_completion_request(const Json& body, const ServedModel& model);

}  // namespace weir::server
