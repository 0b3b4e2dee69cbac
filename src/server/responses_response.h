// Answers of POST /v1/responses.
#pragma once

#include <memory>

#include "server/response_writer.h"

namespace weir::server {

// One response object.
std::unique_ptr<ResponseWriter> make_responses_body(ResponseInfo info);

// The same object at the end of the events that build it.
std::unique_ptr<ResponseWriter> make_responses_stream(ResponseInfo info);

}  // namespace weir::server
