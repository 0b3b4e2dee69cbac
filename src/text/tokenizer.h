// Text to token ids and back: one byte pair encoding for both models, read from a tokenizer.json as Hugging
// Face's `tokenizers` library writes it.
//
// Two kinds of file are known: byte-level with NFC and a split pattern (Qwen), and characters with a byte
// fallback (Gemma). Ids and text equal those of that library, except that letters, marks and digits are what
// the installed PCRE2 and utf8proc know of Unicode. Whatever else a file asks for is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir {

// Whether added tokens (such as <|im_end|>) that are spelled out in a text become their ids, or stay plain
// text: what a user typed must not open or close a turn.
enum class AddedTokens { kRecognise, kAsText };

enum class SpecialTokens { kKeep, kSkip };

namespace text {
struct TokenizerTables;
}

// Immutable once loaded: const functions may be called from several threads at once.
class Tokenizer {
 public:
  // Errors: kNotFound when the file cannot be opened, kCorrupt when it is broken, kUnsupported when it asks
  // for something that would change results and that weir does not do.
  static Result<Tokenizer> load(const std::string& path);

  // `name` stands for the file in error messages.
  static Result<Tokenizer> from_bytes(std::span<const std::byte> json, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Token ids of `text`; none are added around it. O(n log n) in the length of the text, whatever it
  // contains. Errors: kInvalidArgument when `text` is not valid UTF-8 or longer than 256 MiB; kUnsupported
  // when the file's split pattern backtracks without end on it (those of the two models never do).
  Result<std::vector<int32_t>> encode(std::string_view text, AddedTokens added) const;

  // Always valid UTF-8: bytes that form no character become U+FFFD. Ids that no token has stand for nothing.
  std::string decode(std::span<const int32_t> ids, SpecialTokens special) const;

  // What the token adds to the text: bytes, possibly part of a character. Empty where no token has this id.
  std::string_view token_bytes(int32_t id) const;

  // The id of the token that is spelled so in tokenizer.json ("<|im_end|>", "Ġthe", "▁the", "<0x0A>").
  std::optional<int32_t> find(std::string_view spelling) const;

  // One more than the largest id. Ids below it that no token has are possible.
  int32_t vocab_size() const;

  bool has_token(int32_t id) const;
  bool is_added(int32_t id) const;
  bool is_special(int32_t id) const;  // added, and flagged special

  // The token is one byte that had no token in a vocabulary of characters ("<0xNN>").
  bool is_byte_fallback(int32_t id) const;

  // Whether tokens are strings of bytes (Qwen) rather than of characters (Gemma).
  bool is_byte_level() const;

 private:
  explicit Tokenizer(std::unique_ptr<const text::TokenizerTables> tables);

  std::unique_ptr<const text::TokenizerTables> tables_;
};

}  // namespace weir
