// What a model's authors recommend for generation: generation_config.json and config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "generate/denoising.h"
#include "generate/sampling.h"

namespace weir {

struct GenerationDefaults {
  // Of generation_config.json: temperature, top_k, top_p, min_p and repetition_penalty where given,
  // temperature 0 where do_sample is false; weir's own defaults elsewhere.
  Sampling sampling;
  // Of a diffusion model: max_denoising_steps, t_min, t_max, stability_threshold, confidence_threshold and
  // the entropy bound of sampler_config where given, the published model's elsewhere.
  Denoising denoising;
  // Tokens that end an answer, ascending and distinct: eos_token_id of generation_config.json or, where it
  // has none, those of config.json's top level and text_config. May be empty.
  std::vector<int32_t> end_tokens;
};

// generation_config.json may be missing; config.json is read only for its end tokens. Errors: kNotFound when
// config.json is needed and missing; kCorrupt for a file that is not JSON or a field of the wrong type or out
// of range, by name.
Result<GenerationDefaults> read_generation_defaults(const std::string& folder);

}  // namespace weir
