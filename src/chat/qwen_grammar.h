// The grammar of Qwen3.6's answers of a given form, as qwen_output.h reads them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/answer_grammar.h"

namespace weir {

// See answer_grammar().
Result<grammar::Grammar> qwen_grammar(const AnswerForm& form, bool thinking_open,
                                      std::vector<std::string>& notes);

}  // namespace weir
