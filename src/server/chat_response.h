// Answers of POST /v1/chat/completions, and the stream of /v1/canvas.
#pragma once

#include <memory>

#include "server/response_writer.h"

namespace weir::server {

// One chat.completion object.
std::unique_ptr<ResponseWriter> make_chat_body(ResponseInfo info);

// chat.completion.chunk objects as server-sent events, then "[DONE]". With `frames`, the steps of a canvas
// come between them as events named "canvas".
std::unique_ptr<ResponseWriter> make_chat_stream(ResponseInfo info, bool frames);

}  // namespace weir::server
