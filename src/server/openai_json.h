// Pieces of OpenAI's responses that several endpoints share.
#pragma once

#include "chat/json_text.h"
#include "server/response_writer.h"

namespace weir::server {

const char* openai_finish_reason(const ChoiceEnd& end);  // "stop", "length", "tool_calls"
Json openai_usage(const Usage& usage);

// {"token", "logprob", "bytes", "top_logprobs"}: an entry of logprobs.content.
Json openai_logprob(const Logprobs& logprobs, const Tokenizer& tokenizer);

// The token's text; bytes that form no character are U+FFFD.
std::string token_text(int32_t token, const Tokenizer& tokenizer);

// The id of a tool call, the same each time it is asked for.
std::string call_id(const ResponseInfo& info, int64_t choice, int index);

std::string system_fingerprint();

// The chunk with the usage and what ends a stream; `head` has the fields that every chunk begins with.
std::string openai_stream_end(Json head, const ResponseInfo& info, const Usage& usage);
std::string openai_stream_failure(const Error& error);

}  // namespace weir::server
