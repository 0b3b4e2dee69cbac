// Any bytes as a tokenizer.json: loading never crashes, and where it succeeds, plain text comes back from its
// ids and a stream of any ids is the decoded text. The pocket models' files are good seeds:
//   fuzz_tokenizer -max_len=100000 CORPUS models/pocket-qwen/tokenizer.json ...
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace weir {
namespace {

// In NFC, without U+2581 and without the spelling of a byte token.
constexpr std::array<std::string_view, 7> kTexts = {
    "",
    "it's 42  tokens,\n\n  <|im_start|>user",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "                \t  x",
    "\xE4\xBD\xA0\xE5\xA5\xBD \xD0\x9C\xD0\xB8\xD1\x80",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9 \xF0\x9F\x87\xAB\xF0\x9F\x87\xB7",
    "<think></think><bos>"};

void check_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, SpecialTokens special) {
  StreamDecoder decoder(tokenizer, special);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  text += decoder.finish();
  WEIR_CHECK(text == tokenizer.decode(ids, special));
}

void check_texts(const Tokenizer& tokenizer) {
  for (const std::string_view text : kTexts) {
    // A split pattern may backtrack without end, which is an error and no crash.
    const auto plain = tokenizer.encode(text, AddedTokens::kAsText);
    if (plain.ok()) WEIR_CHECK(tokenizer.decode(*plain, SpecialTokens::kKeep) == text);
    const auto ids = tokenizer.encode(text, AddedTokens::kRecognise);
    if (ids.ok()) check_stream(tokenizer, *ids, SpecialTokens::kSkip);
  }
}

}  // namespace
}  // namespace weir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;
  const auto tokenizer = Tokenizer::from_bytes(std::as_bytes(std::span(data, size)), "fuzz.json");
  if (!tokenizer.ok()) {
    WEIR_CHECK(tokenizer.error().message.find('\n') == std::string::npos);
    return 0;
  }
  check_texts(*tokenizer);
  // The input's own bytes as ids, some beyond the vocabulary.
  std::vector<int32_t> ids;
  for (size_t i = 0; i < size && i < 256; ++i) ids.push_back(int32_t{data[i]} * 3 - 9);
  check_stream(*tokenizer, ids, SpecialTokens::kKeep);
  return 0;
}
