// The two ways from text to tokens that weir knows, and the check that a file asks for one of them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "text/normalizer.h"
#include "text/settings.h"

namespace weir::text {

struct Pipeline {
  // Byte-level (Qwen): words are bytes. Otherwise (Gemma): words are characters, and a character without a
  // token is written as one <0xNN> token a byte.
  bool byte_level = false;
  bool ignore_merges = false;  // a word that is itself a token is not merged from its parts
  std::string split_regex;     // byte-level only

  Normalizer normalizer() const { return byte_level ? Normalizer::kNfc : Normalizer::kSpacesToLowBlock; }
};

// Every setting must be known, and have a value under which weir gives the ids and the text that the file
// means. Errors: kUnsupported, naming the setting.
Result<Pipeline> recognise_pipeline(const std::vector<Setting>& settings);

}  // namespace weir::text
