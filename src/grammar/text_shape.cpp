#include "grammar/text_shape.h"

#include "grammar/nfa.h"
#include "grammar/pattern.h"

namespace weir::grammar {
namespace {

int32_t add_any_character(Nfa& nfa, int32_t from, const TextShape& shape) {
  const bool free = shape.spelling == Spelling::kJson && shape.patterns.empty();
  return free ? add_json_character(nfa, from) : add_character(nfa, from, all_characters(), shape.spelling);
}

Automaton any_text(const TextShape& shape, Work& work) {
  Nfa nfa(work);
  int32_t at = nfa.add();
  nfa.link(Nfa::kStart, at);
  for (int64_t i = 0; i < shape.least && !work.exhausted(); ++i) at = add_any_character(nfa, at, shape);
  const int32_t accept = nfa.add();
  nfa.link(at, accept);
  if (shape.most == kUnbounded) {
    nfa.link(add_any_character(nfa, at, shape), at);
  } else {
    for (int64_t i = shape.least; i < shape.most && !work.exhausted(); ++i) {
      at = add_any_character(nfa, at, shape);
      nfa.link(at, accept);
    }
  }
  return nfa.determinize(accept);
}

}  // namespace

Result<Automaton> text_automaton(const TextShape& shape, Work& work) {
  const bool any_length = shape.least == 0 && shape.most == kUnbounded;
  Automaton text;
  if (shape.patterns.empty() || !any_length) text = any_text(shape, work);
  for (size_t i = 0; i < shape.patterns.size(); ++i) {
    WEIR_TRY(Automaton pattern, pattern_automaton(shape.patterns[i], shape.spelling, work));
    text = i == 0 && any_length ? std::move(pattern) : intersect(text, pattern, work);
  }
  if (!shape.avoided.empty()) text = intersect(text, avoiding(shape.avoided, shape.before, work), work);
  return text;
}

}  // namespace weir::grammar
