// Reads a Hugging Face tokenizer.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/merges.h"
#include "text/pipelines.h"
#include "text/vocabulary.h"

namespace weir::text {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool normalized = false;  // found in normalised text, after those that are found in the text as it came
  bool special = false;
};

struct TokenizerFile {
  Pipeline pipeline;
  Vocabulary vocabulary;  // the BPE model's own tokens
  Merges merges;
  std::vector<AddedToken> added_tokens;  // in id and spelling either both the vocabulary's or both new
};

// Checks everything except what the split pattern means. Messages name the fault only; the caller knows the
// file. Errors: kCorrupt for what is not JSON of the right shape, contradicts itself, or has an id outside
// [0, 2^20); kUnsupported for a setting or flag that would change results and that weir does not know.
Result<TokenizerFile> read_tokenizer_json(std::span<const std::byte> json);

}  // namespace weir::text
