// HTTP/1.1 responses as bytes, and what requests say.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"

namespace weir::server {

// The status line, a Date and `headers`, up to the empty line. Control characters in values become spaces.
std::string response_head(int status, const Headers& headers);

// One chunk of a body with Transfer-Encoding: chunked. Not for empty bytes, which would end the body.
std::string chunk(std::string_view bytes);

inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// `id` if it may stand in a header and a log line (1 to 128 of letters, digits and "-_.:"), else 24 random
// hexadecimal digits.
std::string request_id_or_new(std::string_view id);

// "http://box:80/path?query", as a client asks a proxy: "box:80" and "/path?query". None for other targets.
struct AbsoluteTarget {
  std::string host;
  std::string target;
};
std::optional<AbsoluteTarget> absolute_target(std::string_view target);

}  // namespace weir::server
