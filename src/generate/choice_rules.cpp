#include "generate/choice_rules.h"

namespace weir {

ChoiceRules choice_rules(const Sampling& s, int64_t vocabulary, uint32_t sequence) {
  ChoiceRules rules;
  rules.vocabulary = vocabulary;
  rules.temperature = s.temperature;
  rules.top_k = s.top_k;
  rules.top_p = s.top_p;
  rules.min_p = s.min_p;
  rules.presence_penalty = s.presence_penalty;
  rules.frequency_penalty = s.frequency_penalty;
  rules.repetition_penalty = s.repetition_penalty;
  rules.logit_bias = s.logit_bias;
  rules.seed = s.seed;
  rules.sequence = sequence;
  return rules;
}

}  // namespace weir
