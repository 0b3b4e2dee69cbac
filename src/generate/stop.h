// Stop strings in streamed text, wherever the text is cut into pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir {

// Error: kInvalidArgument for a stop string that is empty and matches everywhere, or that is not UTF-8.
Status validate_stop_strings(const std::vector<std::string>& stop_strings);

// Text goes in piece by piece and comes out as soon as it cannot be part of a stop string any more. The match
// that ends first counts; of those that end together, the one that starts first. Neither a match nor what
// follows it ever comes out.
class StopMatcher {
 public:
  StopMatcher() = default;
  explicit StopMatcher(std::vector<std::string> stop_strings) : stops_(std::move(stop_strings)) {}

  // The text that is safe to pass on now; empty from the match on.
  std::string feed(std::string_view piece);

  // The text still held back, when no more will come.
  std::string finish();

  bool matched() const { return matched_ != nullptr; }
  // Only valid when matched().
  const std::string& stop_string() const { return *matched_; }

 private:
  size_t possible_start() const;

  std::vector<std::string> stops_;
  const std::string* matched_ = nullptr;
  std::string held_;
};

}  // namespace weir
