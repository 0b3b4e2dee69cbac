// The chat layouts of the models, for callers that do not care which one they talk to.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "chat/output_parser.h"
#include "chat/prompt.h"

namespace weir {

enum class ChatLayout {
  kQwen,   // Qwen3.6
  kGemma,  // Gemma 4, DiffusionGemma
};

// Whether the model thinks when nobody says: as the models' own templates have it, Qwen3.6 does and Gemma
// does not.
bool thinks_by_default(ChatLayout layout);

// Errors: those of qwen_prompt and gemma_prompt.
Result<Prompt> render_prompt(ChatLayout layout, const Conversation& conversation,
                             const PromptOptions& options);

// A parser of what the model writes after a prompt that was rendered with `enable_thinking`. `tools` are
// those of the conversation: their schemas type the arguments of calls. `formed` says that the content is
// JSON that a grammar enforced.
std::unique_ptr<OutputParser> make_output_parser(ChatLayout layout, bool enable_thinking,
                                                 std::vector<Tool> tools, bool formed = false);

}  // namespace weir
