#include "server/response_writer.h"

namespace weir::server {

std::string json_bytes(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string sse_data(const Json& value) {
  return "data: " + json_bytes(value) + "\n\n";
}

std::string sse_event(const std::string& name, const Json& value) {
  return "event: " + name + "\n" + sse_data(value);
}

std::string sse_comment(const std::string& text) {
  return ": " + text + "\n\n";
}

}  // namespace weir::server
