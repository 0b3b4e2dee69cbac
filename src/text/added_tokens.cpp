#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

namespace weir::text {
namespace {

uint8_t byte_at(std::string_view s, size_t i) {
  return static_cast<uint8_t>(s[i]);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const Token& a, const Token& b) { return std::string_view(a.content) < b.content; });
  for (const Token& token : tokens_) ++by_first_[byte_at(token.content, 0) + 1u];
  for (size_t b = 1; b < by_first_.size(); ++b) by_first_[b] += by_first_[b - 1];
}

// Narrows the sorted range of contents that share the bytes read so far; one that ends here comes first.
std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::match_at(std::string_view text,
                                                                    size_t begin) const {
  auto low = tokens_.begin() + by_first_[byte_at(text, begin)];
  auto high = tokens_.begin() + by_first_[byte_at(text, begin) + 1u];
  std::optional<Match> longest;
  for (size_t length = 1; low != high; ++length) {
    if (low->content.size() == length) longest = Match{begin, begin + length, low++->id};
    if (begin + length == text.size()) break;
    const uint8_t next = byte_at(text, begin + length);
    const auto byte_of = [length](const Token& t) { return byte_at(t.content, length); };
    low = std::partition_point(low, high, [&](const Token& t) { return byte_of(t) < next; });
    high = std::partition_point(low, high, [&](const Token& t) { return byte_of(t) == next; });
  }
  return longest;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (auto match = match_at(text, begin)) return match;
  }
  return std::nullopt;
}

}  // namespace weir::text
