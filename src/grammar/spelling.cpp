#include "grammar/spelling.h"

#include <algorithm>
#include <array>

#include "grammar/json.h"

namespace weir::grammar {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

struct Utf8 {
  std::array<uint8_t, 4> bytes{};
  int size = 0;
};

Utf8 utf8_of(uint32_t c) {
  const auto tail = [&](int shift) { return static_cast<uint8_t>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {{static_cast<uint8_t>(c)}, 1};
  if (c < 0x800) return {{static_cast<uint8_t>(0xC0 | (c >> 6)), tail(0)}, 2};
  if (c < 0x10000) return {{static_cast<uint8_t>(0xE0 | (c >> 12)), tail(6), tail(0)}, 3};
  return {{static_cast<uint8_t>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)}, 4};
}

// Characters of one length whose first bytes differ only where all that follow are free.
void add_utf8_range(Nfa& nfa, int32_t from, int32_t to, uint32_t first, uint32_t last) {
  for (const uint32_t end : {0x7Fu, 0x7FFu, 0xFFFFu}) {
    if (first <= end && last > end) {
      add_utf8_range(nfa, from, to, first, end);
      return add_utf8_range(nfa, from, to, end + 1, last);
    }
  }
  for (int bits = 6; bits < 24 && last > 0x7F; bits += 6) {
    const uint32_t rest = (1u << bits) - 1;
    if ((first & ~rest) == (last & ~rest)) break;
    if ((first & rest) != 0) {
      add_utf8_range(nfa, from, to, first, first | rest);
      return add_utf8_range(nfa, from, to, (first | rest) + 1, last);
    }
    if ((last & rest) != rest) {
      add_utf8_range(nfa, from, to, first, (last & ~rest) - 1);
      return add_utf8_range(nfa, from, to, last & ~rest, last);
    }
  }
  const Utf8 low = utf8_of(first), high = utf8_of(last);
  for (int i = 0; i + 1 < low.size; ++i) {
    from = nfa.range(from, low.bytes[static_cast<size_t>(i)], high.bytes[static_cast<size_t>(i)]);
  }
  const auto end = static_cast<size_t>(low.size) - 1;
  nfa.range(from, low.bytes[end], high.bytes[end], to);
}

bool needs_escape(uint32_t c) {
  return c < 0x20 || c == '"' || c == '\\';
}

int32_t add_hex(Nfa& nfa, int32_t from, std::string_view digits) {
  const int32_t to = nfa.add();
  for (const char digit : digits) {
    const auto byte = static_cast<unsigned char>(digit);
    nfa.range(from, byte, byte, to);
  }
  return to;
}

constexpr std::string_view kHex = "0123456789abcdefABCDEF";

// Four digits of a \u escape that is no surrogate, or two such escapes that are a pair.
void add_unicode_escape(Nfa& nfa, int32_t from, int32_t to) {
  const auto hex = [&](int32_t at, int count) {
    for (int i = 0; i < count; ++i) at = add_hex(nfa, at, kHex);
    return at;
  };
  nfa.link(hex(add_hex(nfa, from, "0123456789abcefABCEF"), 3), to);
  const int32_t d = add_hex(nfa, from, "dD");
  nfa.link(hex(add_hex(nfa, d, "01234567"), 2), to);
  const int32_t high = hex(add_hex(nfa, d, "89abAB"), 2);
  const int32_t low = add_hex(nfa, add_hex(nfa, nfa.literal(high, "\\u"), "dD"), "cdefCDEF");
  nfa.link(hex(low, 2), to);
}

}  // namespace

CharacterSet all_characters() {
  return {{0, kFirstSurrogate - 1}, {kLastSurrogate + 1, kLastCodePoint}};
}

CharacterSet normalized(CharacterSet set) {
  std::sort(set.begin(), set.end(), [](auto a, auto b) { return a.first < b.first; });
  CharacterSet merged;
  for (const CodePoints& range : set) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

CharacterSet complement(const CharacterSet& set) {
  CharacterSet rest;
  uint32_t next = 0;
  for (const CodePoints& range : set) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) rest.push_back({next, kLastCodePoint});
  return rest;
}

int32_t add_character(Nfa& nfa, int32_t from, const CharacterSet& set, Spelling spelling) {
  const int32_t to = nfa.add();
  const auto add_plain = [&](uint32_t first, uint32_t last) {
    if (first <= last) add_utf8_range(nfa, from, to, first, last);
  };
  for (const CodePoints& range : set) {
    if (nfa.work().exhausted()) break;
    uint32_t next = range.first;
    const uint32_t last_escaped = spelling == Spelling::kJson ? std::min<uint32_t>(range.last, '\\') : 0;
    for (uint32_t c = next; spelling == Spelling::kJson && c <= last_escaped; ++c) {
      if (!needs_escape(c)) continue;
      if (c > next) add_plain(next, c - 1);
      nfa.link(nfa.literal(from, spelled(std::string(1, static_cast<char>(c)), spelling)), to);
      next = c + 1;
    }
    // Around the surrogates.
    if (next < kFirstSurrogate) add_plain(next, std::min(range.last, kFirstSurrogate - 1));
    add_plain(std::max(next, kLastSurrogate + 1), range.last);
  }
  return to;
}

int32_t add_json_character(Nfa& nfa, int32_t from) {
  const int32_t to = nfa.add();
  nfa.link(add_character(nfa, from, {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, kLastCodePoint}},
                         Spelling::kRaw),
           to);
  const int32_t escape = nfa.range(from, '\\', '\\');
  nfa.link(add_hex(nfa, escape, "\"\\/bfnrt"), to);
  add_unicode_escape(nfa, nfa.range(escape, 'u', 'u'), to);
  return to;
}

std::string spelled(std::string_view text, Spelling spelling) {
  if (spelling == Spelling::kRaw) return std::string(text);
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace weir::grammar
