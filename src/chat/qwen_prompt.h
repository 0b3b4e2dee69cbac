// Qwen3.6's chat layout.
#pragma once

#include <string>

#include "base/result.h"
#include "chat/message.h"
#include "chat/prompt.h"

namespace weir {

// Errors (kInvalidArgument): no messages, a system message that is not the first, and no user message other
// than tool results wrapped by hand (<tool_response>...</tool_response>).
//
// Markers that the layout writes are control pieces. So are <think>, </think>, <tool_call> and </tool_call>
// inside an assistant message, since the model itself wrote them; markers in system, user and tool messages,
// in tool definitions, and turn markers anywhere in a message are text.
//
// Without preserve_thinking, an assistant message before the last user message loses its thinking, so a turn
// is not always a prefix of the next one.
Result<Prompt> qwen_prompt(const Conversation& conversation, const PromptOptions& options);

// The same, flat.
Result<std::string> render_qwen_prompt(const Conversation& conversation, const PromptOptions& options);

}  // namespace weir
