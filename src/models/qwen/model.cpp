#include "models/qwen/model.h"

#include <algorithm>
#include <utility>

#include "kernels/diffusion_steps.h"
#include "models/kv_pages.h"
#include "models/pass_checks.h"
#include "models/qwen/forward.h"

namespace weir::qwen {
namespace {

const AttentionWeights* first_attention(const Weights& weights) {
  for (const Layer& layer : weights.layers) {
    if (layer.attention) return &*layer.attention;
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                           const LoadOptions& options, const Progress& progress) {
  WEIR_TRY(Config config, read_config(checkpoint));
  std::unique_ptr<Model> model(new Model(std::move(config), std::move(checkpoint), std::move(steps)));
  WEIR_TRY(model->weights_,
           load_weights(model->checkpoint_, model->config_, *model->steps_, options.draft_head, progress));
  WEIR_TRY(model->workspace_,
           Workspace::make(*model->steps_, model->config_, options.max_rows, options.max_wanted));
  model->logits_.resize(static_cast<size_t>(options.max_wanted * model->config_.vocabulary));
  if (options.draft_head) {
    WEIR_TRY(model->draft_rows_, DraftRows::make(*model->steps_, model->config_, options.max_rows));
  }
  return model;
}

Result<SequenceState> Model::new_sequence() {
  SequenceState state;
  for (const Layer& layer : weights_.layers) {
    if (layer.attention) state.kv.emplace_back();
  }
  WEIR_TRY(state.delta, new_recurrent_states());
  return state;
}

Result<std::vector<DeltaState>> Model::new_recurrent_states() {
  std::vector<DeltaState> states;
  for (const Layer& layer : weights_.layers) {
    if (!layer.delta) continue;
    const DeltaWeights& w = *layer.delta;
    DeltaState delta;
    const int64_t recurrent = w.value_heads * w.key_dim * w.value_dim, conv = (w.taps - 1) * w.channels();
    WEIR_TRY(delta.recurrent, steps_->allocate(static_cast<size_t>(recurrent) * sizeof(float)));
    WEIR_TRY(delta.conv, steps_->allocate(static_cast<size_t>(conv) * sizeof(float)));
    states.push_back(std::move(delta));
  }
  return states;
}

Status Model::copy_recurrent_states(std::vector<DeltaState>& to, const std::vector<DeltaState>& from) {
  for (size_t i = 0; i < to.size(); ++i) {
    steps_->copy(to[i].recurrent.data(), from[i].recurrent.data(), to[i].recurrent.bytes());
    steps_->copy(to[i].conv.data(), from[i].conv.data(), to[i].conv.bytes());
  }
  return steps_->finish();
}

Result<SequenceState> Model::copy(const SequenceState& from) {
  WEIR_TRY(SequenceState to, new_sequence());
  to.position = from.position;
  to.kv = share_pages(from.kv);
  WEIR_RETURN_IF_ERROR(copy_recurrent_states(to.delta, from.delta));
  return to;
}

Status Model::mark(const SequenceState& state, Bookmark& bookmark) {
  if (bookmark.delta.empty()) {
    WEIR_TRY(bookmark.delta, new_recurrent_states());
  }
  bookmark.position = state.position;
  return copy_recurrent_states(bookmark.delta, state.delta);
}

void Model::go_back(SequenceState& state, Bookmark& bookmark) {
  state.position = bookmark.position;
  std::swap(state.delta, bookmark.delta);
  for (KvCache& cache : state.kv) {
    cache.pages.resize(std::min(cache.pages.size(), page_count(state.position)));
  }
}

Result<std::span<const float>> Model::run(const Batch& batch) {
  WEIR_TRY(const Pass pass, start(batch));
  steps_->copy_out(logits_.data(), pass.logits.data, pass.logits.bytes());
  WEIR_RETURN_IF_ERROR(steps_->finish());
  advance(batch);
  return std::span<const float>(logits_.data(),
                                batch.wanted.size() * static_cast<size_t>(config_.vocabulary));
}

Status Model::queue(const Batch& batch, TokenChooser& chooser) {
  WEIR_TRY(const Pass pass, start(batch));
  chooser.choose(pass.logits);
  advance(batch);
  return {};
}

// Checks the batch, reserves its pages and runs the steps.
Result<Pass> Model::start(const Batch& batch) {
  WEIR_RETURN_IF_ERROR(check(batch));
  for (const Segment& segment : batch.segments) {
    WEIR_RETURN_IF_ERROR(reserve_pages(*segment.state, segment.state->position + segment.rows));
  }
  const Pass pass =
      workspace_.pass(static_cast<int64_t>(batch.tokens.size()), static_cast<int64_t>(batch.wanted.size()));
  forward(*steps_, weights_, config_.norm_epsilon, batch, pass);
  if (draft_rows_) {
    steps_->diffusion()->norm(draft_rows_->hidden.first(pass.x.rows), pass.x, weights_.norm,
                              config_.norm_epsilon);
  }
  return pass;
}

void Model::advance(const Batch& batch) {
  for (const Segment& segment : batch.segments) segment.state->position += segment.rows;
}

Status Model::check(const Batch& batch) const {
  const auto wanted = static_cast<int64_t>(batch.wanted.size());
  WEIR_RETURN_IF_ERROR(check_rows(static_cast<int64_t>(batch.tokens.size()), max_rows(),
                                  "cut the prompt into smaller chunks"));
  if (wanted > max_wanted()) {
    return Error{Code::kInvalidArgument,
                 "logits of " + std::to_string(wanted) + " rows asked for, expected at most " +
                     std::to_string(max_wanted()),
                 ""};
  }
  WEIR_RETURN_IF_ERROR(check_tokens(batch.tokens, config_.vocabulary));
  for (const Segment& segment : batch.segments) {
    WEIR_RETURN_IF_ERROR(check_reach(segment.state->position + segment.rows, config_.context));
  }
  return {};
}

Status Model::reserve_pages(SequenceState& state, int64_t positions) {
  const AttentionWeights* attention = first_attention(weights_);
  if (attention == nullptr) return {};
  const size_t bytes = steps_->kv_page_bytes(*attention);
  for (KvCache& cache : state.kv) {
    WEIR_RETURN_IF_ERROR(weir::reserve_pages(*steps_, cache, bytes, state.position, positions));
  }
  return {};
}

std::vector<KernelUse> Model::kernels() const {
  KernelCount count;
  for (const Layer& layer : weights_.layers) {
    if (layer.attention) {
      count.add("attention in", *layer.attention->in);
      count.add("attention out", *layer.attention->out);
    }
    if (layer.delta) {
      count.add("delta net in", *layer.delta->in);
      count.add("delta net out", *layer.delta->out);
    }
    count.add("router", *layer.moe.router);
    count.add("experts", *layer.moe.expert);
  }
  count.add("head", *weights_.head);
  if (weights_.draft_head) count.add("draft experts", *weights_.draft_head->layer.moe.expert);
  return count.uses();
}

uint64_t Model::bytes_per_token(int64_t position) const {
  uint64_t total = weights_.embedding->row_bytes() + weights_.head->bytes();
  for (const Layer& layer : weights_.layers) {
    const Experts& experts = *layer.moe.expert;
    const auto slots = static_cast<uint64_t>(layer.moe.top_k);
    const int64_t shared = experts.count() - 1;
    // Routed experts of a layer share one encoding in practice; the first stands for all.
    total += layer.moe.router->bytes() + slots * (experts.up_bytes(0) + experts.down_bytes(0)) +
             experts.up_bytes(shared) + experts.down_bytes(shared);
    if (layer.attention) {
      const AttentionWeights& w = *layer.attention;
      const auto page = static_cast<uint64_t>(steps_->kv_page_bytes(w));
      total += w.in->bytes() + w.out->bytes() + page * static_cast<uint64_t>(position) / kKvPage;
    } else {
      const DeltaWeights& w = *layer.delta;
      const int64_t state = 2 * w.value_heads * w.key_dim * w.value_dim + w.taps * w.channels();
      total += w.in->bytes() + w.out->bytes() + static_cast<uint64_t>(state) * sizeof(float);
    }
  }
  return total;
}

}  // namespace weir::qwen
