// One text on its way to token ids.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/merges.h"
#include "text/tokenizer.h"
#include "text/tokenizer_tables.h"

namespace weir::text {

class Encoder {
 public:
  explicit Encoder(const TokenizerTables& tables) : tables_(tables) {}

  // `text` is valid UTF-8. Call once.
  Result<std::vector<int32_t>> run(std::string_view text, AddedTokens added);

 private:
  using Step = Status (Encoder::*)(std::string_view);

  Status between_added(const AddedTokenMatcher& matcher, std::string_view text, Step step);
  Status encode_raw(std::string_view text);
  Status encode_normalized(std::string_view text);
  void encode_word(std::string_view word);
  void split_into_bytes(std::string_view word);
  void split_into_characters(std::string_view word);
  std::optional<int32_t> model_token(std::string_view spelling) const;

  const TokenizerTables& tables_;
  AddedTokens added_ = AddedTokens::kRecognise;
  WordMerger merger_;
  std::vector<int32_t> word_;
  std::vector<std::string_view> pieces_;
  std::vector<int32_t> ids_;
};

}  // namespace weir::text
