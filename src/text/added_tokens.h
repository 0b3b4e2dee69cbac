// Added tokens are found in the text before anything else happens to it: the leftmost first, and of those
// that begin there the longest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::text {

class AddedTokenMatcher {
 public:
  struct Token {
    std::string content;
    int32_t id = 0;
  };
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    int32_t id = 0;
  };

  AddedTokenMatcher() = default;

  // Contents are distinct and not empty.
  explicit AddedTokenMatcher(std::vector<Token> tokens);

  // The first added token that begins at `from` or later, the longest there. Takes time in proportion to the
  // text passed over times the longest content.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  std::optional<Match> match_at(std::string_view text, size_t begin) const;

  std::vector<Token> tokens_;             // sorted by content
  std::array<uint32_t, 257> by_first_{};  // tokens_[by_first_[b]] is the first with a content >= byte b
};

}  // namespace weir::text
