// Anthropic's messages, system texts and tools as a Conversation.
#pragma once

#include "base/result.h"
#include "chat/message.h"

namespace weir::server {

// `messages`, `system` and `tools` are the fields of the body; null where one is missing. A user message with
// tool results becomes a tool message for each, with texts in between and behind as user messages. Thinking
// comes back as reasoning, whatever its signature. Errors name the field, such as "messages[2].content[0]":
// kInvalidArgument, or kUnsupported for what the model cannot read.
//
// A block of the system text that begins with "x-anthropic-billing-header:" is left out: Claude Code changes
// it with every request, and it would keep every prompt from matching the one before.
Result<Conversation> parse_anthropic_conversation(const Json* messages, const Json* system,
                                                  const Json* tools);

}  // namespace weir::server
