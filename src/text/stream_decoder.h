// Token ids to text, one at a time.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace weir {

// What push() and finish() return, put together, is the decoded text; each piece is valid UTF-8 in itself, so
// a character whose bytes are spread over several tokens comes whole with its last one.
//
// Bytes that form no character become U+FFFD as in the `tokenizers` library. Byte-level: one for each maximal
// part of a character (Unicode 15, section 3.9, "substitution of maximal subparts"). Characters with byte
// fallback: a run of byte tokens is a text or it is not, and then every byte of it becomes one; so such a run
// comes with the token that ends it.
class StreamDecoder {
 public:
  // `tokenizer` must outlive the decoder and not be moved.
  StreamDecoder(const Tokenizer& tokenizer, SpecialTokens special)
      : tokenizer_(&tokenizer), special_(special) {}

  // The text that is certain now; may be empty. An id that no token has stands for nothing.
  std::string push(int32_t id);

  // The rest. The decoder is then ready for another text.
  std::string finish();

 private:
  std::string flush_complete_characters();
  std::string flush_byte_run();

  const Tokenizer* tokenizer_;
  SpecialTokens special_;
  std::string pending_;  // bytes that are not certain yet
};

}  // namespace weir
