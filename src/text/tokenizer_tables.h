// What a Tokenizer knows, arranged for encoding and decoding.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/merges.h"
#include "text/pipelines.h"
#include "text/split_pattern.h"
#include "text/tokenizer_json.h"
#include "text/vocabulary.h"

namespace weir::text {

struct TokenFlags {
  bool exists = false;
  bool in_model = false;  // of the BPE model, so that plain text can become it
  bool added = false;
  bool special = false;
  bool byte_fallback = false;  // <0xNN> in a vocabulary of characters
};

struct TokenizerTables {
  Pipeline pipeline;
  std::optional<SplitPattern> split;  // where pipeline.byte_level
  Vocabulary vocabulary;              // the model's tokens and the added ones
  Merges merges;
  std::array<int32_t, 256> byte_ids{};  // the token of each byte
  AddedTokenMatcher added_raw;          // found in the text as it came
  AddedTokenMatcher added_normalized;   // found in the normalised text between those
  std::vector<TokenFlags> flags;        // by id
  std::string bytes;                    // what each token adds to the text, one after the other
  std::vector<size_t> byte_starts;      // by id, and one more
};

// Errors: kUnsupported where a byte has no token, and those of SplitPattern::compile.
Result<TokenizerTables> make_tables(TokenizerFile file);

}  // namespace weir::text
