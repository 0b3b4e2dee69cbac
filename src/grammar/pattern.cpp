#include "grammar/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace weir::grammar {
namespace {

constexpr int kDeepest = 64;            // nesting of groups
constexpr int64_t kMostRepeats = 1000;  // of {m,n}
constexpr int64_t kUnbounded = -1;

struct Node;
using Sequence = std::vector<Node>;

struct Node {
  enum class Kind { kSet, kGroup, kStart, kEnd } kind = Kind::kSet;
  CharacterSet set;
  std::vector<Sequence> alternatives;  // of a group
  int64_t least = 1, most = 1;
};

CharacterSet digits() {
  return {{'0', '9'}};
}
CharacterSet word() {
  return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
}
CharacterSet space() {
  return {{'\t', '\r'}, {' ', ' '}};
}

// What is not in the set, as far as ASCII: beyond it ECMA and Python disagree.
CharacterSet ascii_complement(const CharacterSet& set) {
  CharacterSet rest = complement(set);
  while (!rest.empty() && rest.back().first > 0x7F) rest.pop_back();
  if (!rest.empty()) rest.back().last = std::min<uint32_t>(rest.back().last, 0x7F);
  return rest;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Sequence>> run() {
    WEIR_TRY(std::vector<Sequence> alternatives, read_alternatives(0));
    if (!at_end()) return bad("has a ) without its (");
    return alternatives;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  Error bad(const char* what) const {
    return {Code::kInvalidArgument, fmt::format("the pattern \"{}\" {} at byte {}", text_, what, at_), ""};
  }
  Error unsupported(const char* what) const {
    return {Code::kUnsupported, fmt::format("the pattern \"{}\" has {}, which is not supported", text_, what),
            ""};
  }

  // The next character, which is there.
  uint32_t read_code_point() {
    const auto byte = [&](size_t i) {
      return static_cast<uint32_t>(static_cast<unsigned char>(text_[at_ + i]));
    };
    const uint32_t first = byte(0);
    const int size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    uint32_t c = size == 1 ? first : first & (0x7Fu >> size);
    for (int i = 1; i < size; ++i) c = (c << 6) | (byte(static_cast<size_t>(i)) & 0x3F);
    at_ += static_cast<size_t>(size);
    return c;
  }

  Result<std::vector<Sequence>> read_alternatives(int depth) {
    if (depth > kDeepest) return unsupported("groups nested too deeply");
    std::vector<Sequence> alternatives(1);
    while (!at_end() && peek() != ')') {
      if (take("|")) {
        alternatives.emplace_back();
        continue;
      }
      WEIR_TRY(Node node, read_atom(depth));
      WEIR_RETURN_IF_ERROR(read_quantifier(node));
      alternatives.back().push_back(std::move(node));
    }
    return alternatives;
  }

  Result<Node> read_atom(int depth) {
    if (take("^")) return Node{Node::Kind::kStart, {}, {}};
    if (take("$")) return Node{Node::Kind::kEnd, {}, {}};
    // ECMA's line ends; Python's is the first of them alone.
    if (take("."))
      return Node{Node::Kind::kSet, complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}), {}};
    if (take("(")) return read_group(depth);
    if (take("[")) return read_class();
    if (take("\\")) {
      WEIR_TRY(CharacterSet set, read_escape());
      return Node{Node::Kind::kSet, std::move(set), {}};
    }
    if (peek() == '*' || peek() == '+' || peek() == '?') return bad("repeats nothing");
    const uint32_t c = read_code_point();
    return Node{Node::Kind::kSet, {{c, c}}, {}};
  }

  Result<Node> read_group(int depth) {
    if (take("?")) {
      const bool named = take("<") || take("P<");
      if (!named && !take(":")) return unsupported("a (? group");
      if (named) {
        if (peek() == '=' || peek() == '!') return unsupported("look-behind");
        at_ = std::min(text_.find('>', at_), text_.size());
        if (!take(">")) return bad("has a group without a name");
      }
    }
    Node node{Node::Kind::kGroup, {}, {}};
    WEIR_TRY(node.alternatives, read_alternatives(depth + 1));
    if (!take(")")) return bad("has a ( without its )");
    return node;
  }

  Status read_quantifier(Node& node) {
    if (take("*")) {
      node.least = 0, node.most = kUnbounded;
    } else if (take("+")) {
      node.least = 1, node.most = kUnbounded;
    } else if (take("?")) {
      node.least = 0, node.most = 1;
    } else if (peek() == '{') {
      if (!read_counts(node)) return bad("has a { that is no count; \\{ is the character");
    } else {
      return Ok{};
    }
    if (node.kind == Node::Kind::kStart || node.kind == Node::Kind::kEnd) return bad("repeats an anchor");
    if (node.least > kMostRepeats || node.most > kMostRepeats) return unsupported("a count above 1000");
    take("?");  // lazy: the same texts
    if (peek() == '+') return unsupported("a possessive quantifier");
    if (peek() == '*' || peek() == '?' || peek() == '{') return bad("repeats a repetition");
    return Ok{};
  }

  bool read_counts(Node& node) {
    take("{");
    const auto number = [&]() -> std::optional<int64_t> {
      int64_t n = 0;
      const size_t begin = at_;
      for (; peek() >= '0' && peek() <= '9'; ++at_) n = std::min<int64_t>(n * 10 + (peek() - '0'), 1'000'000);
      return at_ == begin ? std::nullopt : std::optional(n);
    };
    const auto least = number();
    if (!least) return false;
    node.least = node.most = *least;
    if (take(",")) node.most = number().value_or(kUnbounded);
    return take("}") && (node.most == kUnbounded || node.most >= node.least);
  }

  Result<CharacterSet> read_hex(int count) {
    uint32_t c = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const char digit = peek();
      const int value = digit >= '0' && digit <= '9'   ? digit - '0'
                        : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                        : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                       : -1;
      if (value < 0) return bad("has an escape that lacks digits");
      c = c * 16 + static_cast<uint32_t>(value);
    }
    if (c >= 0xD800 && c <= 0xDFFF) return unsupported("a surrogate");
    return CharacterSet{{c, c}};
  }

  // Behind the backslash.
  Result<CharacterSet> read_escape() {
    if (at_end()) return bad("ends with a backslash");
    const auto one = [](uint32_t c) { return CharacterSet{{c, c}}; };
    switch (const uint32_t c = read_code_point()) {
      case 'd':
        return digits();
      case 'w':
        return word();
      case 's':
        return space();
      case 'D':
        return ascii_complement(digits());
      case 'W':
        return ascii_complement(word());
      case 'S':
        // Python's \s has four more control characters than ECMA's.
        return ascii_complement(normalized({{'\t', '\r'}, {0x1C, ' '}}));
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return read_hex(2);
      case 'u':
        return read_hex(4);
      default:
        if (c > 0x7F || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
          return unsupported("an escape of another kind");
        }
        return one(c);
    }
  }

  // Behind the bracket.
  Result<Node> read_class() {
    const bool negated = take("^");
    CharacterSet set;
    bool has_classes = false;
    for (bool first = true; first || peek() != ']'; first = false) {
      if (at_end()) return bad("has a [ without its ]");
      if (first && peek() == ']') return unsupported("a class that begins with ]");
      WEIR_TRY(const CharacterSet low, read_class_item());
      const bool single = low.size() == 1 && low[0].first == low[0].last;
      has_classes |= !single;
      if (single && peek() == '-' && text_.substr(at_, 2) != "-]") {
        take("-");
        if (at_end()) return bad("has a [ without its ]");
        WEIR_TRY(const CharacterSet high, read_class_item());
        const bool fits = high.size() == 1 && high[0].first == high[0].last && high[0].first >= low[0].first;
        if (!fits) return bad("has a range that is none");
        set.push_back({low[0].first, high[0].first});
      } else {
        set.insert(set.end(), low.begin(), low.end());
      }
    }
    take("]");
    set = normalized(std::move(set));
    if (negated) set = has_classes ? ascii_complement(set) : complement(set);
    return Node{Node::Kind::kSet, std::move(set), {}};
  }

  Result<CharacterSet> read_class_item() {
    if (take("\\")) return read_escape();
    const uint32_t c = read_code_point();
    return CharacterSet{{c, c}};
  }

  std::string_view text_;
  size_t at_ = 0;
};

class Builder {
 public:
  Builder(Nfa& nfa, Spelling spelling) : nfa_(nfa), spelling_(spelling) {}

  // False when an anchor stands where it is not supported.
  bool add_whole(const std::vector<Sequence>& alternatives, int32_t to) {
    for (const Sequence& sequence : alternatives) {
      const bool starts = !sequence.empty() && sequence.front().kind == Node::Kind::kStart;
      const bool ends = sequence.size() > (starts ? 1u : 0u) && sequence.back().kind == Node::Kind::kEnd;
      int32_t at = starts ? Nfa::kStart : add_anything(Nfa::kStart);
      for (size_t i = starts ? 1 : 0; i + (ends ? 1 : 0) < sequence.size(); ++i) at = add(sequence[i], at);
      nfa_.link(ends ? at : add_anything(at), to);
    }
    return !misplaced_anchor_;
  }

 private:
  int32_t add_anything(int32_t from) {
    const int32_t loop = nfa_.add();
    nfa_.link(from, loop);
    nfa_.link(add_character(nfa_, loop, all_characters(), spelling_), loop);
    return loop;
  }

  int32_t add(const Node& node, int32_t from) {
    for (int64_t i = 0; i < node.least && !nfa_.work().exhausted(); ++i) from = add_once(node, from);
    if (node.most == kUnbounded) {
      const int32_t loop = nfa_.add();
      nfa_.link(from, loop);
      nfa_.link(add_once(node, loop), loop);
      return loop;
    }
    const int32_t to = nfa_.add();
    nfa_.link(from, to);
    for (int64_t i = node.least; i < node.most && !nfa_.work().exhausted(); ++i) {
      from = add_once(node, from);
      nfa_.link(from, to);
    }
    return to;
  }

  int32_t add_once(const Node& node, int32_t from) {
    if (node.kind == Node::Kind::kSet) return add_character(nfa_, from, node.set, spelling_);
    if (node.kind != Node::Kind::kGroup) {
      misplaced_anchor_ = true;
      return from;
    }
    const int32_t to = nfa_.add();
    for (const Sequence& sequence : node.alternatives) {
      int32_t at = from;
      for (const Node& item : sequence) at = add(item, at);
      nfa_.link(at, to);
    }
    return to;
  }

  Nfa& nfa_;
  Spelling spelling_;
  bool misplaced_anchor_ = false;
};

}  // namespace

Result<Automaton> pattern_automaton(std::string_view pattern, Spelling spelling, Work& work) {
  if (!is_valid_utf8(pattern)) return Error{Code::kInvalidArgument, "a pattern is not valid UTF-8", ""};
  WEIR_TRY(const std::vector<Sequence> alternatives, Parser(pattern).run());
  Nfa nfa(work);
  const int32_t to = nfa.add();
  if (!Builder(nfa, spelling).add_whole(alternatives, to)) {
    return Error{Code::kUnsupported,
                 fmt::format("the pattern \"{}\" has an anchor inside, which is not supported", pattern),
                 "^ and $ may stand at its ends"};
  }
  return nfa.determinize(to);
}

}  // namespace weir::grammar
