// Which tokens a sequence holds and how often, for the penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

class TokenHistory {
 public:
  struct Entry {
    int32_t token = 0;
    uint32_t generated = 0;  // occurrences in the answer; 0 for a token of the prompt alone
  };

  // Tokens lie in [0, vocabulary).
  explicit TokenHistory(int64_t vocabulary) : place_(static_cast<size_t>(vocabulary)) {}

  void add_prompt(std::span<const int32_t> tokens);
  void add_generated(int32_t token);

  // The distinct tokens seen, in order of first appearance.
  std::span<const Entry> entries() const { return entries_; }

 private:
  Entry& entry(int32_t token);

  std::vector<uint32_t> place_;  // by token: 1 + its index in entries_, 0 when not seen
  std::vector<Entry> entries_;
};

}  // namespace weir
