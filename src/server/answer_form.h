// What a request says about the form of its answer: JSON of a schema, calls of tools, how long to think.
#pragma once

#include <string>

#include "base/result.h"
#include "server/answer_request.h"
#include "server/fields.h"

namespace weir::server {

// {"type": "text" | "json_object" | "json_schema", ...}, in the field `name`: chat completions and Anthropic
// hold the schema in a field of its own, responses beside the type. Null and text: free.
void read_format(Fields& fields, const char* name, AnswerRequest& request);

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired } kind = Kind::kAuto;
  std::string name;  // of the one tool that is required; empty: any
};

// OpenAI's: auto, none, required, or a function by its name.
ToolChoice read_tool_choice(Fields& fields);

// Puts the tools of the conversation under the choice: takes them away, or has the answer be a call. Errors:
// kInvalidArgument for a choice that no tool fits.
Status choose_tools(const ToolChoice& choice, AnswerRequest& request);

// none, minimal, low, medium, high, xhigh or max: whether to think, and for how many tokens at most.
void read_effort(Fields& fields, const char* name, const ServedModel& model, AnswerRequest& request);

// At most so many tokens of thinking; 0: none.
void read_thinking_budget(Fields& fields, const char* name, AnswerRequest& request);

// Makes the grammar and the limit of the generation. Errors: kUnsupported for a diffusion model, and those of
// answer_grammar.
Status add_form(AnswerRequest& request, const ServedModel& model);

}  // namespace weir::server
