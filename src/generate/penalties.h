// Penalties for tokens that the sequence already holds.
#pragma once

#include <span>

#include "generate/history.h"
#include "generate/sampling.h"

namespace weir {

// Changes the logits of the tokens in `history`: first the repetition penalty for prompt and answer (l / r
// where l > 0, else l * r), then, for the answer alone, frequency_penalty for each occurrence and
// presence_penalty once. This is vLLM's order; OpenAI's API documents the last two.
void apply_penalties(const Sampling& sampling, const TokenHistory& history, std::span<float> logits);

}  // namespace weir
