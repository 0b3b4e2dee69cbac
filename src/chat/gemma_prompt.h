// The chat layout of Gemma 4 and DiffusionGemma.
#pragma once

#include "base/result.h"
#include "chat/message.h"
#include "chat/prompt.h"

namespace weir {

// Errors (kInvalidArgument): no messages, a tool result that does not follow an assistant message with tool
// calls, and one whose tool_call_id is that of none of them. Results without an id belong to the calls in
// their order.
//
// Markers that the layout writes are control pieces. So are those of a tool call inside an assistant
// message's content or reasoning, since the model itself wrote them; markers anywhere else in a message, in
// arguments and in tool definitions are text.
//
// The layout keeps thinking only since the last user message and only before tool calls; preserve_thinking
// has no place in it. Text next to tool calls comes after them and their results, wherever the model wrote
// it.
Result<Prompt> gemma_prompt(const Conversation& conversation, const PromptOptions& options);

}  // namespace weir
