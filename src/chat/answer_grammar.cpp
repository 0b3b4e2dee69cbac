#include "chat/answer_grammar.h"

#include <array>
#include <utility>

#include "chat/prompt_tokens.h"
#include "chat/qwen_grammar.h"

namespace weir {
namespace {

// What Qwen's authors write where a thinking budget is spent (Qwen3 technical report, 2025; the
// documentation of the models has it too).
constexpr std::string_view kQwenEarlyEnd =
    "\n\nConsidering the limited time by the user, I have to give the solution based on the thinking directly"
    " now.\n</think>\n\n";
constexpr std::array<std::string_view, 1> kQwenThinkEnd = {"</think>"};

Error no_gemma(const char* what) {
  return {Code::kUnsupported, std::string(what) + " is not supported for a diffusion model",
          "it writes many tokens at once; ask for the form in the prompt"};
}

}  // namespace

Result<grammar::Grammar> answer_grammar(ChatLayout layout, const AnswerForm& form, bool enable_thinking,
                                        std::vector<std::string>& notes) {
  if (layout == ChatLayout::kGemma) return no_gemma("an output of a given form");
  return qwen_grammar(form, enable_thinking, notes);
}

Result<ThinkingEnd> thinking_end(ChatLayout layout, const Tokenizer& tokenizer) {
  if (layout == ChatLayout::kGemma) return no_gemma("a thinking budget");
  PromptBuilder builder;
  builder.add_markup(kQwenEarlyEnd, kQwenThinkEnd);
  WEIR_TRY(std::vector<int32_t> tokens, prompt_tokens(builder.take(), tokenizer));
  return ThinkingEnd{std::string(kQwenThinkEnd[0]), std::move(tokens)};
}

}  // namespace weir
