#include "generate/history.h"

namespace weir {

void TokenHistory::add_prompt(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) entry(token);
}

void TokenHistory::add_generated(int32_t token) {
  ++entry(token).generated;
}

TokenHistory::Entry& TokenHistory::entry(int32_t token) {
  uint32_t& place = place_[static_cast<size_t>(token)];
  if (place == 0) {
    entries_.push_back({token, 0});
    place = static_cast<uint32_t>(entries_.size());
  }
  return entries_[place - 1];
}

}  // namespace weir
