// A denoising step as JSON.
#pragma once

#include "chat/json_text.h"
#include "generate/canvas_frame.h"
#include "text/tokenizer.h"

namespace weir::server {

// {"canvas", "step", "last", "tokens": texts of what would be committed now, "confidence": probabilities to
// three decimals, "accepted": booleans, "rows", "seconds"}.
Json canvas_json(const CanvasFrame& frame, const Tokenizer& tokenizer);

}  // namespace weir::server
