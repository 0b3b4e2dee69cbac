#include "chat/prompt_tokens.h"

namespace weir {

Result<std::vector<int32_t>> prompt_tokens(const Prompt& prompt, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (const PromptPiece& piece : prompt) {
    const AddedTokens added = piece.control ? AddedTokens::kRecognise : AddedTokens::kAsText;
    WEIR_TRY(const std::vector<int32_t> part, tokenizer.encode(piece.text, added));
    if (piece.control && part.size() != 1) {
      return Error{Code::kUnsupported, "The tokenizer has no token for " + piece.text + ".",
                   "Use the tokenizer.json of the model whose chat layout this is."};
    }
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  return tokens;
}

}  // namespace weir
