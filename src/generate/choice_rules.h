// What a device's chooser of tokens is told for the host's sampling settings.
#pragma once

#include <cstdint>

#include "generate/sampling.h"
#include "kernels/token_chooser.h"

namespace weir {

ChoiceRules choice_rules(const Sampling& sampling, int64_t vocabulary, uint32_t sequence = 0);

}  // namespace weir
