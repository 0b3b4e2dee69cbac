#include "chat/layout.h"

#include <utility>

#include "chat/gemma_output.h"
#include "chat/gemma_prompt.h"
#include "chat/qwen_output.h"
#include "chat/qwen_prompt.h"

namespace weir {

bool thinks_by_default(ChatLayout layout) {
  return layout == ChatLayout::kQwen;
}

Result<Prompt> render_prompt(ChatLayout layout, const Conversation& conversation,
                             const PromptOptions& options) {
  return layout == ChatLayout::kGemma ? gemma_prompt(conversation, options)
                                      : qwen_prompt(conversation, options);
}

// Qwen's prompt opens the thinking; Gemma opens it itself.
std::unique_ptr<OutputParser> make_output_parser(ChatLayout layout, bool enable_thinking,
                                                 std::vector<Tool> tools, bool formed) {
  if (layout == ChatLayout::kGemma) return std::make_unique<GemmaOutputParser>(std::move(tools));
  return std::make_unique<QwenOutputParser>(
      QwenOutputOptions{.thinking_open = enable_thinking, .tools = std::move(tools), .formed = formed});
}

}  // namespace weir
