#include "text/stream_decoder.h"

#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace weir {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the maximal subpart at the start of `bytes`, which is not a well-formed character: as many bytes
// as could begin one, at least 1.
size_t broken_length(std::string_view bytes) {
  for (size_t length = 3; length > 1; --length) {
    if (length <= bytes.size() && unfinished_utf8_suffix(bytes.substr(0, length)) == length) return length;
  }
  return 1;
}

std::string with_replacements(std::string_view bytes) {
  std::string text;
  while (true) {
    const size_t valid = valid_utf8_prefix(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return text;
    text += kReplacement;
    bytes.remove_prefix(broken_length(bytes));
  }
}

}  // namespace

std::string StreamDecoder::flush_complete_characters() {
  const size_t certain = pending_.size() - unfinished_utf8_suffix(pending_);
  std::string text = with_replacements(std::string_view(pending_).substr(0, certain));
  pending_.erase(0, certain);
  return text;
}

std::string StreamDecoder::flush_byte_run() {
  std::string run = std::exchange(pending_, {});
  if (is_valid_utf8(run)) return run;
  std::string text;
  for (size_t i = 0; i < run.size(); ++i) text += kReplacement;
  return text;
}

std::string StreamDecoder::push(int32_t id) {
  if (special_ == SpecialTokens::kSkip && tokenizer_->is_special(id)) return {};
  if (!tokenizer_->has_token(id)) return {};
  const std::string_view bytes = tokenizer_->token_bytes(id);
  if (tokenizer_->is_byte_level()) {
    pending_ += bytes;
    return flush_complete_characters();
  }
  if (tokenizer_->is_byte_fallback(id)) {
    pending_ += bytes;
    return {};
  }
  return flush_byte_run().append(bytes);
}

std::string StreamDecoder::finish() {
  if (!tokenizer_->is_byte_level()) return flush_byte_run();
  return with_replacements(std::exchange(pending_, {}));
}

}  // namespace weir
