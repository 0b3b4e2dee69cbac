// What a generation is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "generate/denoising.h"
#include "generate/draft.h"
#include "generate/guide.h"
#include "generate/sampling.h"

namespace weir {

struct GenerationRequest {
  std::vector<int32_t> prompt;  // all of it, also what a held sequence already contains
  Sampling sampling;

  int64_t max_tokens = 0;  // most tokens to generate; 0: until the context is full
  int64_t context = 0;     // most tokens of prompt and answer together; 0: what the model was trained for
  std::vector<int32_t> end_tokens;
  std::vector<std::string> stop_strings;

  // Autoregressive models only: the answer, thinking included, is a text of this grammar unless it is cut
  // off.
  std::shared_ptr<const grammar::TokenGrammar> grammar;
  std::optional<ThinkingLimit> thinking;  // of an answer that begins with thinking; so are they
  std::optional<Denoising> denoising;     // block diffusion only; unset: the reference's settings
  // How further tokens are guessed, for one pass to check; the answer is the same. Only where the host
  // chooses the tokens and the model is autoregressive, and as far as the model gives logits of several rows.
  Draft draft = Draft::kOff;
  std::optional<int> top_logprobs;  // alternatives to report, [0, kMaxTopLogprobs]; unset: no logprobs at all
  uint32_t sequence = 0;            // tells apart answers to one prompt with one seed
  int64_t chunk = 0;                // most tokens of one step; 0: as many as the model takes
  // Ascending numbers of prompt tokens, [1, all]: a step ends there, so that GenerationCallbacks::checkpoint
  // can look at the sequence. (Where the backend chooses the tokens, the first one has passed through already
  // when the whole prompt has.)
  std::vector<int64_t> checkpoints;

  // Of the `left` tokens from `position` on, those up to the next checkpoint.
  int64_t tokens_to_checkpoint(int64_t position, int64_t left) const;
  bool is_checkpoint(int64_t position) const;
};

// What the model at hand allows.
struct GenerationBounds {
  int64_t vocabulary = 0;  // token ids are below
  int64_t context = 0;
  int64_t rows = 0;  // of one pass
};

// Error: kInvalidArgument, naming what was asked for and what is possible. A prompt that leaves no room for
// an answer is refused, never cut.
Status validate(const GenerationRequest& request, const GenerationBounds& bounds);

}  // namespace weir
