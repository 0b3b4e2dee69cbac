#include "server/openai_json.h"

#include "chat/valid_text.h"
#include "server/failure.h"

namespace weir::server {
namespace {

// Log-probabilities of minus infinity have no JSON; OpenAI's own floor stands for them.
constexpr double kLeastLogprob = -9999;

Json token_entry(const TokenLogprob& entry, const Tokenizer& tokenizer) {
  Json bytes = Json::array();
  for (const char c : tokenizer.token_bytes(entry.token)) bytes.push_back(static_cast<unsigned char>(c));
  const double logprob = static_cast<double>(entry.logprob);
  return {{"token", token_text(entry.token, tokenizer)},
          {"logprob", logprob > kLeastLogprob ? logprob : kLeastLogprob},
          {"bytes", std::move(bytes)}};
}

}  // namespace

const char* openai_finish_reason(const ChoiceEnd& end) {
  switch (end.finish) {
    case FinishReason::kLength:
    case FinishReason::kContext:
      return "length";
    default:
      return end.called ? "tool_calls" : "stop";
  }
}

Json openai_usage(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning}}}};
}

Json openai_logprob(const Logprobs& logprobs, const Tokenizer& tokenizer) {
  Json entry = token_entry(logprobs.chosen, tokenizer);
  Json top = Json::array();
  for (const TokenLogprob& other : logprobs.top) top.push_back(token_entry(other, tokenizer));
  entry["top_logprobs"] = std::move(top);
  return entry;
}

std::string token_text(int32_t token, const Tokenizer& tokenizer) {
  return valid_text(tokenizer.token_bytes(token));
}

std::string call_id(const ResponseInfo& info, int64_t choice, int index) {
  return "call_" + info.id + std::to_string(choice) + "x" + std::to_string(index);
}

std::string system_fingerprint() {
  return "weir-" WEIR_VERSION;
}

std::string openai_stream_end(Json head, const ResponseInfo& info, const Usage& usage) {
  std::string out;
  if (info.include_usage) {
    head["choices"] = Json::array();
    head["usage"] = openai_usage(usage);
    out = sse_data(head);
  }
  return out + "data: [DONE]\n\n";
}

std::string openai_stream_failure(const Error& error) {
  return "data: " + failure_body(Protocol::kOpenAi, failure_of(error), "") + "\n\n";
}

}  // namespace weir::server
