// How the next token is chosen, as a request or a flag asks for it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weir {

// Most alternatives that a request can have reported beside the chosen token, as in OpenAI's API.
inline constexpr int kMaxTopLogprobs = 20;

struct Sampling {
  float temperature = 1;  // [0, 100]; 0 chooses the largest logit, ties to the lowest id
  int top_k = 0;          // keep the k most probable tokens; 0 and -1 keep all
  float top_p = 1;        // [0, 1]: keep the fewest tokens whose probabilities reach top_p; at least one
  float min_p = 0;        // [0, 1]: keep tokens at least min_p times as probable as the best

  // Both [-2, 2], subtracted from the logits of tokens generated so far (the prompt does not count): once,
  // and once for each occurrence. As in OpenAI's API.
  float presence_penalty = 0;
  float frequency_penalty = 0;
  // [0.01, 100]. Logits of tokens in the prompt or generated so far are divided by it when positive,
  // multiplied otherwise, as transformers and vLLM do (Keskar et al., CTRL, 2019).
  float repetition_penalty = 1;

  std::vector<std::pair<int32_t, float>> logit_bias;  // token, [-100, 100] added to its logit
  uint64_t seed = 0;
};

// True when history matters: one of the penalties is not neutral.
bool has_penalties(const Sampling& sampling);

// Error: kInvalidArgument, naming the field, its value and its range. Token ids must lie in [0, vocabulary).
Status validate(const Sampling& sampling, int64_t vocabulary);

}  // namespace weir
