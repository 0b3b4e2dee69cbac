#include "server/completion_request.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "server/chat_request.h"

namespace weir::server {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
constexpr int64_t kDefaultTokens = 16;  // as OpenAI's

Result<std::vector<int32_t>> encode_text(const std::string& text, const ServedModel& model) {
  WEIR_TRY(std::vector<int32_t> tokens, model.tokenizer->encode(text, AddedTokens::kRecognise));
  if (model.layout != ChatLayout::kGemma) return tokens;
  const auto bos = model.tokenizer->find("<bos>");
  if (bos && (tokens.empty() || tokens.front() != *bos)) tokens.insert(tokens.begin(), *bos);
  return tokens;
}

bool is_token_id(const Json& value) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{INT32_MAX};
  return value.get<int64_t>() >= 0 && value.get<int64_t>() <= INT32_MAX;
}

// Whether the ids are those of the model is checked when the generation starts.
Result<std::vector<int32_t>> read_ids(const Json& ids) {
  std::vector<int32_t> tokens;
  for (const Json& id : ids) {
    if (!is_token_id(id)) {
      return Error{Code::kInvalidArgument, "prompt holds " + shown(id) + " among token ids", ""};
    }
    tokens.push_back(id.get<int32_t>());
  }
  return tokens;
}

Result<std::vector<int32_t>> read_prompt(const Json& prompt, const ServedModel& model) {
  if (prompt.is_string()) return encode_text(prompt.get<std::string>(), model);
  if (prompt.is_array()) return read_ids(prompt);
  return Error{Code::kInvalidArgument, "prompt is " + shown(prompt) + ": expected text or token ids", ""};
}

Status read_prompts(const Json& prompt, const ServedModel& model, AnswerRequest& request) {
  const bool many = prompt.is_array() && !prompt.empty() && !prompt.front().is_number();
  if (!many) {
    WEIR_TRY(std::vector<int32_t> tokens, read_prompt(prompt, model));
    request.prompts.push_back(std::move(tokens));
    return Ok{};
  }
  const auto answers = static_cast<int64_t>(prompt.size()) * request.choices;
  if (answers > kMostChoices) {
    return Error{Code::kInvalidArgument,
                 "the prompts ask for " + std::to_string(answers) + " answers together, more than the " +
                     std::to_string(kMostChoices) + " that are possible",
                 "send several requests"};
  }
  for (const Json& one : prompt) {
    WEIR_TRY(std::vector<int32_t> tokens, read_prompt(one, model));
    request.prompts.push_back(std::move(tokens));
  }
  return Ok{};
}

}  // namespace

Result<AnswerRequest> parse_completion_request(const Json& body, const ServedModel& model) {
  Fields fields(body);
  AnswerRequest request = default_request(model);
  request.chat = false;
  read_model(fields, model);
  read_sampling(fields, model, request);
  request.generation.max_tokens = fields.integer("max_tokens", 1, kMostTokens).value_or(kDefaultTokens);
  if (const auto top = fields.integer("logprobs", 0, kMaxTopLogprobs)) {
    request.generation.top_logprobs = static_cast<int>(*top);
  }
  request.choices = fields.integer("n", 1, kMostChoices).value_or(1);
  fields.only("best_of", request.choices);
  fields.only("echo", false);
  fields.only("suffix", "");
  read_stream(fields, request);
  fields.ignore({"user", "metadata"});
  const Json* prompt = fields.value("prompt");
  if (prompt == nullptr) fields.fail("prompt", "is missing");
  WEIR_RETURN_IF_ERROR(fields.finish());
  WEIR_RETURN_IF_ERROR(read_prompts(*prompt, model, request));
  return request;
}

}  // namespace weir::server
