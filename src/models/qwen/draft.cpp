// Guessing with the draft head.
#include <algorithm>
#include <utility>

#include "kernels/diffusion_steps.h"
#include "models/kv_pages.h"
#include "models/qwen/forward.h"
#include "models/qwen/model.h"

namespace weir::qwen {

Result<DraftRows> DraftRows::make(Steps& steps, const Config& config, int64_t max_rows) {
  if (steps.diffusion() == nullptr || steps.activation_dtype() != Dtype::kF32) {
    return Error{Code::kUnsupported, steps.name() + " does not compute multi-token prediction heads",
                 "they run on the CPU"};
  }
  DraftRows rows;
  WEIR_TRY(rows.hidden, rows.memory.rows(steps, max_rows, config.hidden, Dtype::kF32));
  WEIR_TRY(rows.chained, rows.memory.rows(steps, 1, config.hidden, Dtype::kF32));
  rows.logits.resize(static_cast<size_t>(config.vocabulary));
  return rows;
}

Result<SequenceState> Model::new_draft_sequence() {
  SequenceState pairs;
  pairs.kv.emplace_back();
  return pairs;
}

Result<std::vector<int32_t>> Model::draft(SequenceState& pairs, int64_t first_row,
                                          std::span<const int32_t> tokens, int64_t most) {
  std::vector<int32_t> guesses;
  const auto count = static_cast<int64_t>(tokens.size());
  WEIR_TRY(int32_t guess,
           draft_pass(pairs, tokens, draft_rows_->hidden.from(first_row).first(count), most > 0));
  const int64_t position = pairs.position;
  while (static_cast<int64_t>(guesses.size()) < most) {
    guesses.push_back(guess);
    if (static_cast<int64_t>(guesses.size()) == most) break;
    WEIR_TRY(guess, draft_pass(pairs, {&guesses.back(), 1}, draft_rows_->chained, true));
  }
  pairs.position = position;
  return guesses;
}

// One pass over pairs of hidden rows and the tokens behind them; when `wanted`, the best token behind the
// last one. Leaves y of the last pair as the chained row.
Result<int32_t> Model::draft_pass(SequenceState& pairs, std::span<const int32_t> tokens, Rows hidden,
                                  bool wanted) {
  const auto rows = static_cast<int64_t>(tokens.size());
  const size_t page_bytes = steps_->kv_page_bytes(*weights_.draft_head->layer.attention);
  WEIR_RETURN_IF_ERROR(
      weir::reserve_pages(*steps_, pairs.kv.front(), page_bytes, pairs.position, pairs.position + rows));
  const Segment segment{&pairs, 0, rows};
  const auto last = static_cast<int32_t>(rows - 1);
  const Batch batch{
      .tokens = tokens, .segments = {&segment, 1}, .wanted = {&last, wanted ? size_t{1} : size_t{0}}};
  const Pass pass = workspace_.pass(rows, wanted ? 1 : 0);
  draft_forward(*steps_, weights_, config_.norm_epsilon, batch, hidden, pass);
  pairs.position += rows;
  if (!wanted) {
    WEIR_RETURN_IF_ERROR(steps_->finish());
    return 0;
  }
  steps_->diffusion()->norm(draft_rows_->chained, pass.x.from(last), weights_.draft_head->norm,
                            config_.norm_epsilon);
  std::vector<float>& logits = draft_rows_->logits;
  steps_->copy_out(logits.data(), pass.logits.data, pass.logits.bytes());
  WEIR_RETURN_IF_ERROR(steps_->finish());
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace weir::qwen
