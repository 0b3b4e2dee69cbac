// A conversation as a file: OpenAI-style messages in JSON.
#pragma once

#include <string>

#include "base/result.h"
#include "chat/message.h"

namespace weir::cli {

// Writes {"messages": [...]}; the file is complete or not there. Error: kNotFound.
Status save_transcript(const Conversation& conversation, const std::string& path);

// Errors: kNotFound, kCorrupt naming the field.
Result<Conversation> load_transcript(const std::string& path);

}  // namespace weir::cli
