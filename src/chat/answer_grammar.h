// Answers of a form: JSON of a schema, or calls of tools, in the layout of a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/layout.h"
#include "chat/message.h"
#include "grammar/grammar.h"
#include "text/tokenizer.h"

namespace weir {

struct AnswerForm {
  enum class Calls {
    kNone,     // no calls
    kAllowed,  // content or calls
    kRequired  // calls alone
  };

  // A JSON schema that the content satisfies, and what it is called in errors. Unset: content is free text.
  std::optional<Json> schema;
  std::string schema_name;
  Calls calls = Calls::kNone;
  // Those that may be called. Arguments satisfy the tool's schema; where that asks for what cannot be
  // enforced, a tool with "strict": true is refused and another one's arguments satisfy the rest.
  std::vector<Tool> tools;
  bool one_call = false;

  bool is_free() const { return !schema && calls != Calls::kRequired; }
};

// The grammar of all that the model writes behind a prompt that was rendered with `enable_thinking`. Thinking
// is free, but for tags that would end it or begin a call. `notes` receives what is not enforced. Errors:
// kUnsupported for the layout of Gemma, and those of SchemaCompiler and GrammarBuilder.
Result<grammar::Grammar> answer_grammar(ChatLayout layout, const AnswerForm& form, bool enable_thinking,
                                        std::vector<std::string>& notes);

// How the thinking is ended when it has taken long enough: the text that ends it, and the tokens that are
// written in its place. Error: kUnsupported for the layout of Gemma, and those of prompt_tokens.
struct ThinkingEnd {
  std::string text;
  std::vector<int32_t> tokens;
};
Result<ThinkingEnd> thinking_end(ChatLayout layout, const Tokenizer& tokenizer);

}  // namespace weir
