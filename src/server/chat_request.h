// A body of POST /v1/chat/completions: OpenAI's chat completions, with vLLM's extensions for sampling and
// thinking.
#pragma once

#include "base/result.h"
#include "chat/json_text.h"
#include "server/answer_request.h"

namespace weir::server {

// Errors: kInvalidArgument, kUnsupported and kNotFound (another model), naming the field.
Result<AnswerRequest> parse_chat_request(const Json& body, const ServedModel& model);

// Fields that several of OpenAI's endpoints share.
void read_reasoning_effort(Fields& fields, const char* name, PromptOptions& options);
ToolChoice read_tool_choice(Fields& fields);
void read_stream(Fields& fields, AnswerRequest& request);

}  // namespace weir::server
