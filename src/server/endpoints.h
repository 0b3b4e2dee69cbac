// The endpoints that answer with a model, each a pair of translations.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "chat/json_text.h"
#include "server/answer_request.h"
#include "server/failure.h"
#include "server/response_writer.h"

namespace weir::server {

struct Endpoint {
  const char* path;
  Protocol protocol;
  Result<AnswerRequest> (*parse)(const Json& body, const ServedModel& model);
  // Null for an endpoint that only counts the tokens of its prompt.
  std::unique_ptr<ResponseWriter> (*writer)(const ResponseInfo& info, const AnswerRequest& request);
};

const Endpoint* find_endpoint(const std::string& path);  // null when there is none

// Whose errors a path's clients expect.
Protocol protocol_of(const std::string& path);

}  // namespace weir::server
