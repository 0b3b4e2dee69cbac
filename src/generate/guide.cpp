#include "generate/guide.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir {

Guide::Guide(const Tokenizer& tokenizer, std::shared_ptr<const grammar::TokenGrammar> grammar,
             std::optional<ThinkingLimit> limit, const std::vector<int32_t>& end_tokens)
    : tokenizer_(&tokenizer), limit_(std::move(limit)) {
  if (grammar) matcher_.emplace(std::move(grammar), end_tokens);
}

std::span<const uint32_t> Guide::allowed(int64_t vocabulary) {
  if (!matcher_) return {};
  return matcher_->allowed().first(static_cast<size_t>((vocabulary + 31) / 32));
}

void Guide::accept(int32_t token) {
  if (matcher_) WEIR_CHECK(matcher_->accept(token));
  if (!limit_) return;
  ++thought_;
  tail_ += tokenizer_->token_bytes(token);
  if (tail_.find(limit_->end) != std::string::npos) {
    limit_.reset();
  } else if (tail_.size() >= limit_->end.size()) {
    tail_.erase(0, tail_.size() - limit_->end.size() + 1);
  }
}

std::vector<int32_t> Guide::take_forced() {
  if (!limit_ || thought_ < limit_->tokens) return {};
  std::vector<int32_t> forced = std::move(limit_->forced);
  limit_.reset();
  return forced;
}

}  // namespace weir
