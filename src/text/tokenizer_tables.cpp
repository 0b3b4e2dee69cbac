#include "text/tokenizer_tables.h"

#include <unordered_set>
#include <utility>

#include "text/byte_letters.h"
#include "text/quote.h"

namespace weir::text {
namespace {

// How a vocabulary of characters spells a byte: <0x00> to <0xFF>.
std::string fallback_spelling(uint8_t byte) {
  constexpr char kHex[] = "0123456789ABCDEF";
  return std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + '>';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::optional<char> fallback_byte(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return std::nullopt;
  const int high = hex_digit(spelling[3]);
  const int low = hex_digit(spelling[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

// Every byte must have a token, so that no text fails to encode.
Status set_byte_ids(TokenizerTables& t) {
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<uint8_t>(byte);
    const std::string spelling = t.pipeline.byte_level ? std::string(letter_of(b)) : fallback_spelling(b);
    const auto id = t.vocabulary.find(spelling);
    if (!id) {
      return Error{
          Code::kUnsupported,
          "byte " + std::to_string(byte) + " has no token: " + in_quotes(spelling) + " is not in model.vocab",
          ""};
    }
    t.byte_ids[byte] = *id;
  }
  return Ok{};
}

// Those of `tokens` that are looked for in normalised text, or those that are not.
Result<AddedTokenMatcher> make_matcher(const std::vector<AddedToken>& tokens, const Pipeline& pipeline,
                                       bool normalized) {
  std::vector<AddedTokenMatcher::Token> selected;
  std::unordered_set<std::string> contents;
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    std::string content = token.content;
    if (normalized) {
      WEIR_TRY(content, normalize(pipeline.normalizer(), token.content));
    }
    if (!contents.insert(content).second) {
      return Error{Code::kCorrupt, "two added tokens are both " + in_quotes(content) + " once normalised",
                   ""};
    }
    selected.push_back({std::move(content), token.id});
  }
  return AddedTokenMatcher(std::move(selected));
}

void add_tokens(TokenizerTables& t, const std::vector<AddedToken>& added) {
  for (int32_t id = 0; id < t.vocabulary.size(); ++id) {
    const bool exists = t.vocabulary.spelling(id) != nullptr;
    t.flags.push_back({.exists = exists, .in_model = exists});
  }
  for (const AddedToken& token : added) {
    if (t.vocabulary.spelling(token.id) == nullptr) t.vocabulary.insert(token.id, token.content);
    t.flags.resize(static_cast<size_t>(t.vocabulary.size()));
    TokenFlags& flags = t.flags[static_cast<size_t>(token.id)];
    flags.exists = true;
    flags.added = true;
    flags.special = token.special;
  }
}

void set_token_bytes(TokenizerTables& t) {
  t.byte_starts.push_back(0);
  for (int32_t id = 0; id < t.vocabulary.size(); ++id) {
    if (const std::string* spelling = t.vocabulary.spelling(id)) {
      const auto byte = t.pipeline.byte_level ? std::nullopt : fallback_byte(*spelling);
      t.flags[static_cast<size_t>(id)].byte_fallback = byte.has_value();
      if (byte) {
        t.bytes += *byte;
      } else {
        t.bytes += t.pipeline.byte_level ? bytes_of(*spelling) : low_blocks_to_spaces(*spelling);
      }
    }
    t.byte_starts.push_back(t.bytes.size());
  }
}

}  // namespace

Result<TokenizerTables> make_tables(TokenizerFile file) {
  TokenizerTables t;
  t.pipeline = std::move(file.pipeline);
  t.vocabulary = std::move(file.vocabulary);
  t.merges = std::move(file.merges);
  WEIR_RETURN_IF_ERROR(set_byte_ids(t));
  if (t.pipeline.byte_level) {
    WEIR_TRY(t.split, SplitPattern::compile(t.pipeline.split_regex));
  }
  WEIR_TRY(t.added_raw, make_matcher(file.added_tokens, t.pipeline, false));
  WEIR_TRY(t.added_normalized, make_matcher(file.added_tokens, t.pipeline, true));
  add_tokens(t, file.added_tokens);
  set_token_bytes(t);
  return t;
}

}  // namespace weir::text
