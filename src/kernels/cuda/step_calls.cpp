// The steps as calls of kernels: passes of few rows read each weight once and run as one graph, longer ones
// use the tensor cores on blocks of rows.
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/packed.h"

namespace weir::cuda {
namespace {

bool few(const Rows& rows) {
  return rows.rows <= kFewRows;
}
__nv_bfloat16* activations(const Rows& rows) {
  return static_cast<__nv_bfloat16*>(rows.data);
}
const TileMatrix& tiles_of(const Linear& w) {
  return static_cast<const TileLinear&>(w).tiles;
}
__nv_bfloat16* bf16(const Buffer& buffer) {
  return static_cast<__nv_bfloat16*>(buffer.data());
}
int32_t* ints(const Buffer& buffer) {
  return static_cast<int32_t*>(buffer.data());
}

ExpertsCall experts_call(const Routing& routing, const MoeWeights& w) {
  ExpertsCall call;
  call.experts = static_cast<const TileExperts&>(*w.expert).tiles;
  call.chosen = routing.experts;
  call.weights = routing.weights;
  call.rows = routing.rows;
  call.slots = routing.slots;
  return call;
}

}  // namespace

void Backend::embed(Rows x, const Batch&, const Embedding& embedding) {
  embed_rows(queue_, x.floats(), static_cast<const RawEmbedding&>(embedding).matrix, table_.view(), x.rows);
}

void Backend::norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) {
  project_normed(out, Output::kBf16, x, gain, epsilon, nullptr, w);
}

void Backend::attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch&, int64_t index) {
  if (!supports(w)) return;
  AttentionCall call;
  call.projected = activations(projected);
  call.mixed = activations(mixed);
  call.q_norm = w.q_norm.floats();
  call.k_norm = w.k_norm.floats();
  call.frequencies = frequencies(w);
  call.rotary_dim = w.rotary_dim;
  call.heads = w.heads;
  call.kv_heads = w.kv_heads;
  call.epsilon = w.norm_epsilon;
  call.rows = projected.rows;
  call.layer = index;
  call.max_pages = table_.max_pages();
  call.max_segment_rows = table_.max_segment_rows();
  call.queries = bf16(scratch_.queries);
  call.partial = scratch_.partial.floats();
  call.tickets = scratch_.attention_tickets();
  call.staged = static_cast<char*>(scratch_.staged.data());
  staged_ = few(projected) ? mixed.data : nullptr;
  (few(projected) ? attend_few : attend_many)(queue_, call, table_.view());
}

void Backend::delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch&, int64_t index) {
  if (!supports(w)) return;
  DeltaCall call;
  call.projected = activations(projected);
  call.mixed = activations(mixed);
  call.conv = w.conv.floats();
  call.decay = w.decay.floats();
  call.dt_bias = w.dt_bias.floats();
  call.norm = w.norm.floats();
  call.epsilon = w.norm_epsilon;
  call.rows = projected.rows;
  call.key_heads = w.key_heads;
  call.value_heads = w.value_heads;
  call.layer = index;
  call.convolved = bf16(scratch_.convolved);
  call.max_segment_rows = table_.max_segment_rows();
  call.gates = scratch_.gates.floats();
  call.factors = scratch_.factors.data();
  call.staged = static_cast<char*>(scratch_.staged.data());
  staged_ = few(projected) ? mixed.data : nullptr;
  (few(projected) ? delta_few : delta_many)(queue_, call, table_.view());
}

void Backend::project_add(Rows x, Rows mixed, const Linear& w) {
  LinearCall call;
  call.w = tiles_of(w);
  call.in = mixed.data;
  if (staged_ == mixed.data) call.staged = static_cast<const char*>(scratch_.staged.data());
  call.out = x.data;
  call.output = Output::kAdd;
  call.rows = x.rows;
  (few(x) ? linear_few : linear_many)(queue_, call);
}

void Backend::norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                         const MoeWeights& w) {
  RouteCall call;
  call.router = tiles_of(*w.router);
  call.x = x.floats();
  call.gain = gain.floats();
  call.epsilon = epsilon;
  call.normed = activations(normed);
  call.logits = scratch_.router_logits.floats();
  call.chosen = routing.experts;
  call.weights = routing.weights;
  call.rows = x.rows;
  call.experts = w.experts;
  call.top_k = w.top_k;
  settled_routing_ = nullptr;
  staged_ = nullptr;
  if (few(x)) {
    if (call.router.kind != TileKind::kBf16) {
      call.staged = static_cast<char*>(scratch_.staged.data());
      staged_ = normed.data;
    }
    return route_few(queue_, call);
  }
  norm_rows(queue_, call.normed, call.x, call.gain, epsilon, nullptr, x.rows, x.cols);
  LinearCall logits;
  logits.w = call.router;
  logits.in = call.normed;
  logits.out = call.logits;
  logits.output = Output::kFloat;
  logits.rows = x.rows;
  linear_many(queue_, logits);
  choose_experts(queue_, call);
}

void Backend::experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) {
  ExpertsCall call = experts_call(routing, w);
  call.normed = activations(normed);
  call.activated = activations(activated);
  if (staged_ == normed.data) call.staged = static_cast<const char*>(scratch_.staged.data());
  settled_routing_ = routing.experts;
  if (few(normed)) return experts_up_few(queue_, call);
  const Grouping grouping = grouping_of(call);
  group_by_expert(queue_, grouping, call);
  experts_up_many(queue_, grouping, call);
}

void Backend::experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) {
  ExpertsCall call = experts_call(routing, w);
  call.activated = activations(activated);
  call.x = x.floats();
  call.routing_is_settled = settled_routing_ == routing.experts;
  if (few(x)) return experts_down_few(queue_, call);
  const Grouping grouping = grouping_of(call);
  if (!call.routing_is_settled) group_by_expert(queue_, grouping, call);  // else experts_up has
  experts_down_many(queue_, grouping, call, bf16(scratch_.contributions));
  combine_experts(queue_, call, bf16(scratch_.contributions), x.cols);
}

void Backend::norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                        const Batch&) {
  if (logits.rows == 0) return;
  project_normed(logits, Output::kFloat, {x.data, logits.rows, x.cols, x.dtype}, gain, epsilon,
                 table_.view().wanted, head);
}

void Backend::project_normed(Rows out, Output output, Rows x, const Vector& gain, float epsilon,
                             const int32_t* row_of, const Linear& w) {
  LinearCall call;
  call.w = tiles_of(w);
  call.input = Input::kNormed;
  call.in = x.data;
  call.gain = gain.floats();
  call.epsilon = epsilon;
  call.row_of = row_of;
  call.out = out.data;
  call.output = output;
  call.rows = x.rows;
  if (few(x)) return linear_few(queue_, call);
  norm_rows(queue_, bf16(scratch_.normed), x.floats(), call.gain, epsilon, row_of, x.rows, x.cols);
  call.input = Input::kPlain;
  call.in = scratch_.normed.data();
  linear_many(queue_, call);
}

Grouping Backend::grouping_of(const ExpertsCall& call) const {
  Grouping g;
  g.counts = ints(scratch_.counts);
  g.order = ints(scratch_.order);
  g.tiles = static_cast<ExpertTile*>(scratch_.tiles.data());
  g.tile_count = ints(scratch_.tile_count);
  g.tile_rows = expert_tile_rows(call.rows * call.slots, call.experts.count);
  g.max_tiles = expert_tiles(call.rows * call.slots, call.experts.count);
  return g;
}

bool Backend::supports(const AttentionWeights& w) {
  if (w.head_dim == kHeadDim && w.heads / w.kv_heads <= kMaxGroup && w.kv_heads <= kMaxKvHeads &&
      w.rotary_dim % 16 == 0) {
    return true;
  }
  fail({Code::kUnsupported,
        "attention with " + std::to_string(w.heads) + " heads of " + std::to_string(w.head_dim) +
            ", the CUDA kernels take heads of 256, at most 8 for each of at most 8 KV heads",
        "use --device cpu"});
  return false;
}
bool Backend::supports(const DeltaWeights& w) {
  if (w.key_dim == kDeltaDim && w.value_dim == kDeltaDim && w.taps == kTaps &&
      w.value_heads / w.key_heads <= 8) {
    return true;
  }
  fail({Code::kUnsupported,
        "DeltaNet heads of " + std::to_string(w.key_dim) + " x " + std::to_string(w.value_dim) +
            ", the CUDA kernels take 128 x 128 and four taps",
        "use --device cpu"});
  return false;
}

// theta^(-2 i / rotary_dim), made when a model's first attention layer asks.
const float* Backend::frequencies(const AttentionWeights& w) {
  const int64_t half = w.rotary_dim / 2;
  if (frequencies_.data() != nullptr && theta_ == w.rope_theta && frequency_count_ == half) {
    return frequencies_.floats();
  }
  std::vector<float> values;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(w.rotary_dim);
    values.push_back(static_cast<float>(std::pow(static_cast<double>(w.rope_theta), exponent)));
  }
  auto memory = allocate_device(queue_, values.size() * sizeof(float));
  if (!memory.ok()) {
    fail(memory.error());
    return nullptr;
  }
  frequencies_ = std::move(*memory);
  queue_.check(cudaMemcpyAsync(frequencies_.data(), values.data(), values.size() * sizeof(float),
                               cudaMemcpyHostToDevice, queue_.stream()),
               "copying frequencies");
  theta_ = w.rope_theta;
  frequency_count_ = half;
  return frequencies_.floats();
}

}  // namespace weir::cuda
