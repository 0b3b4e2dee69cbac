#include "generate/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "generate/stop.h"

namespace weir {
namespace {

Error invalid(std::string message, std::string hint = "") {
  return Error{Code::kInvalidArgument, std::move(message), std::move(hint)};
}

Status validate_prompt(const GenerationRequest& request, const GenerationBounds& bounds) {
  if (request.prompt.empty()) return invalid("the prompt is empty");
  const int64_t context = request.context > 0 ? request.context : bounds.context;
  const auto size = static_cast<int64_t>(request.prompt.size());
  if (size >= context) {
    return Error{
        Code::kTooLong,
        fmt::format("the prompt has {} tokens, but the context has room for {}, one of them for the answer",
                    size, context),
        "shorten the prompt"};
  }
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= bounds.vocabulary) {
      return invalid(fmt::format("the prompt holds token {}, but the model's tokens are 0 to {}", token,
                                 bounds.vocabulary - 1),
                     "use the tokenizer that belongs to the model");
    }
  }
  return Ok{};
}

Status validate_thinking(const ThinkingLimit& limit, int64_t vocabulary) {
  if (limit.tokens < 1) {
    return invalid(
        fmt::format("the thinking is limited to {} tokens, but a limit is at least 1", limit.tokens),
        "a prompt that ends the thinking has none");
  }
  const auto unknown = std::find_if(limit.forced.begin(), limit.forced.end(),
                                    [&](int32_t token) { return token < 0 || token >= vocabulary; });
  if (limit.end.empty() || limit.forced.empty() || unknown != limit.forced.end()) {
    return invalid("the end of the thinking has no text, no tokens, or tokens that the model does not have");
  }
  return Ok{};
}

Status validate_checkpoints(const GenerationRequest& request) {
  int64_t last = 0;
  for (const int64_t position : request.checkpoints) {
    if (position <= last || position > static_cast<int64_t>(request.prompt.size())) {
      return invalid(
          fmt::format("checkpoint {} follows {} in a prompt of {} tokens, but they must ascend in it",
                      position, last, request.prompt.size()));
    }
    last = position;
  }
  return Ok{};
}

}  // namespace

int64_t GenerationRequest::tokens_to_checkpoint(int64_t position, int64_t left) const {
  const auto next = std::upper_bound(checkpoints.begin(), checkpoints.end(), position);
  return next == checkpoints.end() ? left : std::min(left, *next - position);
}

bool GenerationRequest::is_checkpoint(int64_t position) const {
  return std::binary_search(checkpoints.begin(), checkpoints.end(), position);
}

Status validate(const GenerationRequest& request, const GenerationBounds& bounds) {
  if (request.max_tokens < 0) {
    return invalid(
        fmt::format("max_tokens is {}, but must be at least 1, or 0 for no limit", request.max_tokens));
  }
  if (request.context < 0 || request.context > bounds.context) {
    return invalid(fmt::format(
        "context is {}, but must be from 1 to the {} that the model was trained for, or 0 for these",
        request.context, bounds.context));
  }
  if (request.chunk < 0 || request.chunk > bounds.rows) {
    return invalid(
        fmt::format("chunk is {}, but must be from 1 to {}, or 0 for these", request.chunk, bounds.rows));
  }
  if (request.top_logprobs && (*request.top_logprobs < 0 || *request.top_logprobs > kMaxTopLogprobs)) {
    return invalid(
        fmt::format("top_logprobs is {}, but must be from 0 to {}", *request.top_logprobs, kMaxTopLogprobs));
  }
  if (request.thinking) WEIR_RETURN_IF_ERROR(validate_thinking(*request.thinking, bounds.vocabulary));
  WEIR_RETURN_IF_ERROR(validate_checkpoints(request));
  WEIR_RETURN_IF_ERROR(validate_stop_strings(request.stop_strings));
  WEIR_RETURN_IF_ERROR(validate(request.sampling, bounds.vocabulary));
  return validate_prompt(request, bounds);
}

}  // namespace weir
