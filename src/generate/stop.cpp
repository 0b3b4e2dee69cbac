#include "generate/stop.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace weir {

Status validate_stop_strings(const std::vector<std::string>& stop_strings) {
  for (const std::string& stop : stop_strings) {
    if (stop.empty()) {
      return Error{Code::kInvalidArgument, "a stop string is empty, which would match everywhere", ""};
    }
    if (!is_valid_utf8(stop)) {
      return Error{Code::kInvalidArgument, "a stop string is not valid UTF-8, as all answers are", ""};
    }
  }
  return Ok{};
}

std::string StopMatcher::feed(std::string_view piece) {
  if (matched()) return {};
  held_ += piece;
  size_t begin = 0;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
      begin = at;
      end = at + stop.size();
      matched_ = &stop;
    }
  }
  if (!matched()) begin = possible_start();
  std::string safe = held_.substr(0, begin);
  held_.erase(0, matched() ? held_.size() : begin);
  return safe;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

// Where the longest end of the held text that begins some stop string starts.
size_t StopMatcher::possible_start() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) longest = length;
    }
  }
  return held_.size() - longest;
}

}  // namespace weir
