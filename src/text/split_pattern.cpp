#include "text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>

#include "text/pattern_syntax.h"
#include "text/quote.h"

namespace weir::text {
namespace {

constexpr size_t kLongestPattern = 4096;

std::string pcre2_message(int code) {
  char text[256];
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

// Buffers of one call of split(); PCRE2's compiled pattern itself may be shared by threads.
struct Matcher {
  explicit Matcher(size_t text_size) {
    // In proportion to the text, so that no length of it fails; finite, so that exponential backtracking
    // does.
    const uint64_t limit = std::max<uint64_t>(10'000'000, uint64_t{64} * text_size);
    constexpr uint32_t kHeapKib = 256 * 1024;
    if (context != nullptr) {
      pcre2_set_match_limit(context, static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
      pcre2_set_heap_limit(context, kHeapKib);
    }
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
  ~Matcher() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }

  // PCRE2's return code: the number of groups set, or a negative error.
  int match(const pcre2_code* code, std::string_view text, size_t from) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const uint32_t options = PCRE2_NO_UTF_CHECK;
    const int rc = pcre2_match(code, subject, text.size(), from, options, data, context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(code, subject, text.size(), from, options | PCRE2_NO_JIT, data, context);
  }

  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
};

}  // namespace

void SplitPattern::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Result<SplitPattern> SplitPattern::compile(std::string_view pattern) {
  if (pattern.size() > kLongestPattern) {
    return Error{Code::kUnsupported,
                 "the split pattern has " + std::to_string(pattern.size()) + " bytes, more than " +
                     std::to_string(kLongestPattern),
                 ""};
  }
  WEIR_TRY(const std::string translated, to_pcre2(pattern));
  int code = 0;
  size_t offset = 0;
  SplitPattern split(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr));
  if (split.code_ == nullptr) {
    return Error{Code::kCorrupt,
                 "the split pattern " + in_quotes(pattern) + " does not compile: " + pcre2_message(code), ""};
  }
  uint32_t matches_nothing = 0;
  pcre2_pattern_info(split.code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  if (matches_nothing != 0) {
    return Error{Code::kUnsupported, "the split pattern " + in_quotes(pattern) + " can match the empty text",
                 ""};
  }
  // Where the system forbids machine code at run time, PCRE2 interprets the pattern instead.
  pcre2_jit_compile(split.code_.get(), PCRE2_JIT_COMPLETE);
  return split;
}

Status SplitPattern::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  Matcher matcher(text.size());
  if (matcher.data == nullptr || matcher.context == nullptr) {
    return Error{Code::kOutOfMemory, "PCRE2 cannot allocate its match data", ""};
  }
  size_t at = 0;
  while (at < text.size()) {
    const int rc = matcher.match(code_.get(), text, at);
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      return Error{Code::kUnsupported,
                   "the tokenizer's split pattern fails at byte " + std::to_string(at) +
                       " of the text: " + pcre2_message(rc),
                   ""};
    }
    const size_t* range = pcre2_get_ovector_pointer(matcher.data);
    if (range[0] > at) pieces.push_back(text.substr(at, range[0] - at));
    pieces.push_back(text.substr(range[0], range[1] - range[0]));
    at = range[1];
  }
  if (at < text.size()) pieces.push_back(text.substr(at));
  return Ok{};
}

}  // namespace weir::text
