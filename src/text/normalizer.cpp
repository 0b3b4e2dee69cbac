#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weir::text {
namespace {

constexpr std::string_view kLowBlock = "\xE2\x96\x81";  // U+2581

// Below U+0300 nothing decomposes and nothing combines with what precedes it. The bytes of such text are
// ASCII, leads up to 0xCB and continuations.
bool is_surely_nfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
}

int combining_class(int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

Error utf8proc_error(utf8proc_ssize_t code) {
  return {Code::kInternal, std::string("utf8proc cannot normalise the text: ") + utf8proc_errmsg(code), ""};
}

// Canonical decomposition of each character, without reordering.
Result<std::vector<int32_t>> decompose(std::string_view text) {
  constexpr int kLongestDecomposition = 8;  // the longest canonical one has 4 code points
  std::vector<int32_t> out;
  out.reserve(text.size());
  while (!text.empty()) {
    int32_t code_point = 0;
    const auto length = utf8proc_iterate(reinterpret_cast<const uint8_t*>(text.data()),
                                         static_cast<utf8proc_ssize_t>(text.size()), &code_point);
    if (length < 0) return utf8proc_error(length);
    text.remove_prefix(static_cast<size_t>(length));
    int32_t parts[kLongestDecomposition];
    const auto count = utf8proc_decompose_char(code_point, parts, kLongestDecomposition,
                                               static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), nullptr);
    if (count < 0 || count > kLongestDecomposition) return utf8proc_error(UTF8PROC_ERROR_OVERFLOW);
    out.insert(out.end(), parts, parts + count);
  }
  return out;
}

// Canonical ordering: each run of combining marks is sorted by class. utf8proc's own ordering is quadratic in
// the length of a run, and a request may contain a run of any length.
void reorder(std::vector<int32_t>& code_points) {
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    const auto mark = [](int32_t c) { return combining_class(c) != 0; };
    begin = std::find_if(begin, code_points.end(), mark);
    const auto end = std::find_if_not(begin, code_points.end(), mark);
    std::stable_sort(begin, end,
                     [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

Result<std::string> nfc(std::string_view text) {
  if (is_surely_nfc(text)) return std::string(text);
  WEIR_TRY(std::vector<int32_t> code_points, decompose(text));
  reorder(code_points);
  const auto count = static_cast<utf8proc_ssize_t>(code_points.size());
  code_points.push_back(0);  // utf8proc_reencode writes a terminating zero
  const auto bytes = utf8proc_reencode(code_points.data(), count,
                                       static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (bytes < 0) return utf8proc_error(bytes);
  return std::string(reinterpret_cast<const char*>(code_points.data()), static_cast<size_t>(bytes));
}

std::string spaces_to_low_blocks(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (const char c : text) {
    if (c == ' ') {
      out += kLowBlock;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

Result<std::string> normalize(Normalizer normalizer, std::string_view text) {
  if (normalizer == Normalizer::kNfc) return nfc(text);
  return spaces_to_low_blocks(text);
}

std::string low_blocks_to_spaces(std::string_view text) {
  std::string out;
  while (true) {
    const size_t at = text.find(kLowBlock);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += ' ';
    text.remove_prefix(at + kLowBlock.size());
  }
}

}  // namespace weir::text
