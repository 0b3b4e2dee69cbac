// What every protocol's request comes down to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/answer_grammar.h"
#include "chat/message.h"
#include "chat/prompt.h"
#include "generate/request.h"
#include "server/fields.h"
#include "server/served_model.h"

namespace weir::server {

inline constexpr int64_t kMostChoices = 16;

struct AnswerRequest {
  Conversation conversation;
  PromptOptions prompt_options;
  // Of each of these, in tokens, `choices` answers are made. A conversation renders to one.
  std::vector<std::vector<int32_t>> prompts;
  int64_t choices = 1;
  GenerationRequest generation;  // but for the prompt

  AnswerForm form;
  std::string form_field;                  // the field that asks for it; empty: any answer will do
  std::optional<int64_t> thinking_budget;  // tokens

  bool chat = true;       // the output is parsed into thinking, content and calls
  bool one_call = false;  // the answer ends behind its first tool call
  bool stream = false;
  bool include_usage = false;         // of a stream: a last chunk says what it cost
  bool canvas_frames = false;         // of a stream: the denoising steps too
  std::vector<std::string> warnings;  // accepted, but not as the client may expect
};

// Renders `conversation` and encodes it as the only prompt, and makes the generation's grammar. Errors: those
// of render_prompt, prompt_tokens and add_form.
Status add_chat_prompt(AnswerRequest& request, const ServedModel& model);

// kNotFound when the field `model` names another model than the one that is served.
void read_model(Fields& fields, const ServedModel& model);

// A request with the model's defaults and a drawn seed.
AnswerRequest default_request(const ServedModel& model);

// A value for every field of OpenAI's and vLLM's sampling that Sampling and Denoising have: temperature,
// top_p, top_k, min_p, the penalties, seed, stop, logit_bias. Ranges are checked when the generation starts.
// Temperature scales the schedule of a diffusion model, 1 being the model's own.
void read_sampling(Fields& fields, const ServedModel& model, AnswerRequest& request);
void set_temperature(double temperature, const ServedModel& model, AnswerRequest& request);

// System messages at the start become one, since the layouts know only one. An empty line parts them.
void merge_system_messages(std::vector<Message>& messages);

}  // namespace weir::server
