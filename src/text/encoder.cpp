#include "text/encoder.h"

#include <optional>
#include <string>
#include <utility>

#include "text/byte_letters.h"
#include "text/normalizer.h"

namespace weir::text {
namespace {

// Bytes of the character that starts with `lead`, in valid UTF-8.
size_t character_length(char lead) {
  const auto b = static_cast<uint8_t>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

}  // namespace

Result<std::vector<int32_t>> Encoder::run(std::string_view text, AddedTokens added) {
  added_ = added;
  if (added == AddedTokens::kRecognise) {
    WEIR_RETURN_IF_ERROR(between_added(tables_.added_raw, text, &Encoder::encode_raw));
  } else {
    WEIR_RETURN_IF_ERROR(encode_raw(text));
  }
  return std::move(ids_);
}

// Takes `step` with each stretch of text between added tokens, and appends the tokens themselves.
Status Encoder::between_added(const AddedTokenMatcher& matcher, std::string_view text, Step step) {
  size_t at = 0;
  while (const auto match = matcher.find(text, at)) {
    WEIR_RETURN_IF_ERROR((this->*step)(text.substr(at, match->begin - at)));
    ids_.push_back(match->id);
    at = match->end;
  }
  return (this->*step)(text.substr(at));
}

Status Encoder::encode_raw(std::string_view text) {
  WEIR_TRY(const std::string normalized, normalize(tables_.pipeline.normalizer(), text));
  if (added_ == AddedTokens::kAsText) return encode_normalized(normalized);
  return between_added(tables_.added_normalized, normalized, &Encoder::encode_normalized);
}

Status Encoder::encode_normalized(std::string_view text) {
  if (!tables_.split) {
    encode_word(text);
    return Ok{};
  }
  pieces_.clear();
  WEIR_RETURN_IF_ERROR(tables_.split->split(text, pieces_));
  for (const std::string_view piece : pieces_) encode_word(piece);
  return Ok{};
}

void Encoder::encode_word(std::string_view word) {
  if (tables_.pipeline.ignore_merges) {
    if (const auto id = model_token(tables_.pipeline.byte_level ? letters_of(word) : std::string(word))) {
      ids_.push_back(*id);
      return;
    }
  }
  word_.clear();
  if (tables_.pipeline.byte_level) {
    split_into_bytes(word);
  } else {
    split_into_characters(word);
  }
  merger_.merge(tables_.merges, word_);
  ids_.insert(ids_.end(), word_.begin(), word_.end());
}

void Encoder::split_into_bytes(std::string_view word) {
  for (const char byte : word) word_.push_back(tables_.byte_ids[static_cast<uint8_t>(byte)]);
}

void Encoder::split_into_characters(std::string_view word) {
  while (!word.empty()) {
    const std::string_view character = word.substr(0, character_length(word[0]));
    word.remove_prefix(character.size());
    if (const auto id = model_token(character)) {
      word_.push_back(*id);
    } else {
      split_into_bytes(character);
    }
  }
}

std::optional<int32_t> Encoder::model_token(std::string_view spelling) const {
  const auto id = tables_.vocabulary.find(spelling);
  if (!id || !tables_.flags[static_cast<size_t>(*id)].in_model) return std::nullopt;
  return id;
}

}  // namespace weir::text
