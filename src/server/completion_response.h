// Answers of POST /v1/completions.
#pragma once

#include <memory>

#include "server/response_writer.h"

namespace weir::server {

std::unique_ptr<ResponseWriter> make_completion_body(ResponseInfo info);
std::unique_ptr<ResponseWriter> make_completion_stream(ResponseInfo info);

}  // namespace weir::server
