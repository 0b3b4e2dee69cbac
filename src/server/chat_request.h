// A body of POST /v1/chat/completions: OpenAI's chat completions, with vLLM's extensions for sampling and
// thinking.
#pragma once

#include "base/result.h"
#include "chat/json_text.h"
#include "server/answer_request.h"

namespace weir::server {

// Errors: kInvalidArgument, kUnsupported and kNotFound (another model), naming the field.
Result<AnswerRequest> parse_chat_request(const Json& body, const ServedModel& model);

// stream and stream_options, as several of OpenAI's endpoints have them.
void read_stream(Fields& fields, AnswerRequest& request);

}  // namespace weir::server
