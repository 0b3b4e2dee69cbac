#include "text/pattern_syntax.h"

#include <cctype>
#include <utility>

#include "text/quote.h"

namespace weir::text {
namespace {

// White_Space of Unicode, which is what \s means to Oniguruma; PCRE2's own \s also has U+180E.
#define WEIR_WHITE_SPACE \
  R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
constexpr std::string_view kWhiteSpaceMembers = WEIR_WHITE_SPACE;
constexpr std::string_view kWhiteSpace = "[" WEIR_WHITE_SPACE "]";
constexpr std::string_view kNotWhiteSpace = "[^" WEIR_WHITE_SPACE "]";
#undef WEIR_WHITE_SPACE

// Rewrites a pattern from Oniguruma's syntax to PCRE2's, construct by construct.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  Result<std::string> run() {
    while (!rest_.empty()) {
      const size_t length = construct();
      if (length == 0) {
        return Error{
            Code::kUnsupported,
            "the split pattern contains " + in_quotes(rest_.substr(0, 12)) + ", which weir does not support",
            ""};
      }
      rest_.remove_prefix(length);
    }
    return std::move(out_);
  }

 private:
  // Appends one construct and returns how many bytes of the pattern it takes; 0 if it is not supported.
  size_t construct() {
    if (rest_[0] == '\\') return escape();
    return in_class_ ? class_member() : plain();
  }

  size_t copy(size_t length) {
    out_ += rest_.substr(0, length);
    return length;
  }

  size_t replace(size_t length, std::string_view by) {
    out_ += by;
    return length;
  }

  size_t escape() {
    if (rest_.size() < 2) return 0;
    const char c = rest_[1];
    if (c == 's') return replace(2, in_class_ ? kWhiteSpaceMembers : kWhiteSpace);
    if (c == 'S') return in_class_ ? 0 : replace(2, kNotWhiteSpace);
    if (c == 'p' || c == 'P') return category();
    const bool same = c == 'r' || c == 'n' || c == 't' || std::ispunct(static_cast<unsigned char>(c));
    return same ? copy(2) : 0;
  }

  // \p{L}, \p{Lu} and the like.
  size_t category() {
    const auto letter = [&](size_t i) {
      return i < rest_.size() && std::isalpha(static_cast<unsigned char>(rest_[i]));
    };
    if (rest_.size() < 3 || rest_[2] != '{' || !letter(3)) return 0;
    const size_t close = letter(4) ? 5 : 4;
    return close < rest_.size() && rest_[close] == '}' ? copy(close + 1) : 0;
  }

  size_t class_member() {
    if (rest_[0] == '[' || rest_.substr(0, 2) == "&&") return 0;
    if (rest_[0] == ']') in_class_ = false;
    return copy(1);
  }

  size_t plain() {
    switch (rest_[0]) {
      case '[':
        return open_class();
      case '(':
        return open_group();
      case '^':
      case '$':
      case '.':
      case '{':
      case '}':
        return 0;
      default:
        return copy(1);
    }
  }

  size_t open_class() {
    const size_t length = rest_.substr(0, 2) == "[^" ? 2 : 1;
    if (rest_.substr(length, 1) == "]") return 0;
    in_class_ = true;
    return copy(length);
  }

  size_t open_group() {
    for (const std::string_view known : {"(?:", "(?i:", "(?=", "(?!"}) {
      if (rest_.starts_with(known)) return copy(known.size());
    }
    const std::string_view next = rest_.substr(1, 1);
    return next == "?" || next == "*" ? 0 : copy(1);
  }

  std::string_view rest_;
  std::string out_;
  bool in_class_ = false;
};

}  // namespace

Result<std::string> to_pcre2(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace weir::text
