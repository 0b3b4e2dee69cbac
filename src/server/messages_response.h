// Answers of POST /v1/messages.
#pragma once

#include <memory>

#include "server/response_writer.h"

namespace weir::server {

// One message object.
std::unique_ptr<ResponseWriter> make_messages_body(ResponseInfo info);

// message_start, content blocks with their deltas, message_delta and message_stop. Usage is known at the end
// only: message_delta carries all of it, message_start the length of the prompt.
std::unique_ptr<ResponseWriter> make_messages_stream(ResponseInfo info);

}  // namespace weir::server
