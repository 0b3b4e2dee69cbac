#include "models/diffusion_gemma/model.h"

#include <algorithm>
#include <utility>

#include "models/diffusion_gemma/forward.h"
#include "models/kv_pages.h"
#include "models/pass_checks.h"

namespace weir::diffusion_gemma {
namespace {

// The first of a layer's pages that a token at `position` looks at.
size_t first_page(const AttentionShape& shape, int64_t position) {
  if (shape.window == 0) return 0;
  return static_cast<size_t>(std::max<int64_t>(0, position - shape.window + 1) / kKvPage);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                           int64_t max_rows, const Progress& progress) {
  if (steps->diffusion() == nullptr) {
    return Error{Code::kUnsupported, steps->name() + " does not run diffusion models",
                 "use --device cpu for DiffusionGemma"};
  }
  WEIR_TRY(Config config, read_config(checkpoint));
  max_rows = std::max(max_rows, 2 * config.canvas);
  std::unique_ptr<Model> model(new Model(std::move(config), std::move(checkpoint), std::move(steps)));
  WEIR_TRY(model->weights_, load_weights(model->checkpoint_, model->config_, *model->steps_, progress));
  WEIR_TRY(model->workspace_, Workspace::make(*model->steps_, model->config_, max_rows));
  model->beliefs_.resize(static_cast<size_t>(max_rows));
  model->zeros_.resize(static_cast<size_t>(model->config_.canvas * model->config_.hidden));
  return model;
}

Result<SequenceState> Model::new_sequence() {
  SequenceState state;
  state.kv.resize(weights_.layers.size());
  return state;
}

Result<CanvasState> Model::new_canvas() {
  CanvasState canvas;
  for (const Layer& layer : weights_.layers) {
    KvCache cache;
    WEIR_TRY(Buffer page, steps_->allocate(steps_->diffusion()->kv_page_bytes(layer.attention)));
    cache.pages.push_back(std::move(page));
    canvas.kv.push_back(std::move(cache));
  }
  WEIR_TRY(canvas.soft, steps_->allocate(zeros_.size() * sizeof(float)));
  return canvas;
}

void Model::clear(CanvasState& canvas) {
  steps_->copy_in(canvas.soft.data(), zeros_.data(), zeros_.size() * sizeof(float));
}

SequenceState Model::copy(const SequenceState& state) const {
  return {.position = state.position, .kv = share_pages(state.kv), .delta = {}};
}

bool Model::can_cut(const SequenceState& state, int64_t position) const {
  for (size_t i = 0; i < state.kv.size(); ++i) {
    const std::vector<Buffer>& pages = state.kv[i].pages;
    const size_t first = first_page(config_.attention(static_cast<int64_t>(i)), position);
    for (size_t p = first; p < page_count(position); ++p) {
      if (pages[p].data() == nullptr) return false;
    }
  }
  return true;
}

bool Model::cut(SequenceState& state, int64_t position) {
  if (!can_cut(state, position)) return false;
  for (KvCache& cache : state.kv) {
    cache.pages.resize(std::min(cache.pages.size(), page_count(position)));
  }
  state.position = position;
  return true;
}

Result<std::span<const Belief>> Model::run(const CanvasBatch& batch) {
  WEIR_RETURN_IF_ERROR(check(batch));
  for (const Segment& segment : batch.segments) {
    WEIR_RETURN_IF_ERROR(reserve_pages(*segment.state, segment.state->position + segment.rows));
  }
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const Pass pass = workspace_.pass(rows, batch.causal_rows());
  forward(*steps_, weights_, config_, batch, pass);
  steps_->copy_out(beliefs_.data(), pass.beliefs, batch.inquiries.size() * sizeof(Belief));
  WEIR_RETURN_IF_ERROR(steps_->finish());
  for (const Segment& segment : batch.segments) {
    segment.state->position += segment.rows;
    release_pages(*segment.state);
  }
  return std::span<const Belief>(beliefs_.data(), batch.inquiries.size());
}

std::vector<KernelUse> Model::kernels() const {
  KernelCount count;
  for (const Layer& layer : weights_.layers) {
    count.add("attention in", *layer.attention.in);
    count.add("attention out", *layer.attention.out);
    count.add("dense mlp", *layer.gate_up);
    count.add("dense mlp", *layer.down);
    count.add("router", *layer.moe.router);
    count.add("experts", *layer.moe.expert);
  }
  count.add("self-conditioning", *weights_.condition.gate_up);
  count.add("self-conditioning", *weights_.condition.down);
  count.add("vocabulary", *weights_.vocabulary);
  return count.uses();
}

uint64_t Model::bytes_per_pass() const {
  const SelfConditioning& condition = weights_.condition;
  uint64_t total = weights_.vocabulary->bytes() + condition.gate_up->bytes() + condition.down->bytes();
  for (const Layer& layer : weights_.layers) {
    total += layer.attention.in->bytes() + layer.attention.out->bytes() + layer.gate_up->bytes() +
             layer.down->bytes() + layer.moe.router->bytes();
    const Experts& experts = *layer.moe.expert;
    for (int64_t e = 0; e < experts.count(); ++e) total += experts.up_bytes(e) + experts.down_bytes(e);
  }
  return total;
}

Status Model::check(const CanvasBatch& batch) const {
  WEIR_RETURN_IF_ERROR(check_rows(static_cast<int64_t>(batch.tokens.size()), max_rows(),
                                  "cut the prompt into smaller chunks, or denoise fewer canvases together"));
  WEIR_RETURN_IF_ERROR(check_tokens(batch.tokens, config_.vocabulary));
  int64_t end = 0;
  for (const Segment& s : batch.segments) end = std::max(end, s.state->position + s.rows);
  for (const CanvasSegment& s : batch.canvases) end = std::max(end, s.committed + s.length);
  return check_reach(end, config_.context);
}

Status Model::reserve_pages(SequenceState& state, int64_t positions) {
  for (size_t i = 0; i < state.kv.size(); ++i) {
    const size_t bytes = steps_->diffusion()->kv_page_bytes(weights_.layers[i].attention);
    WEIR_RETURN_IF_ERROR(weir::reserve_pages(*steps_, state.kv[i], bytes, state.position, positions));
  }
  return {};
}

void Model::release_pages(SequenceState& state) const {
  for (size_t i = 0; i < state.kv.size(); ++i) {
    const AttentionShape& shape = config_.attention(static_cast<int64_t>(i));
    const size_t first = first_page(shape, std::max<int64_t>(0, state.position - kKeptBehindWindow));
    for (size_t p = 0; p < first; ++p) state.kv[i].pages[p] = {};
  }
}

}  // namespace weir::diffusion_gemma
