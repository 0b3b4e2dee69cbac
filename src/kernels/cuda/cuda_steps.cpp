#include "kernels/cuda/cuda_steps.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "kernels/cuda/device.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/pass_table.h"
#include "kernels/cuda/scratch.h"

namespace weir {
namespace {

using namespace cuda;

// Passes of up to this many rows read each weight once and run as one graph; longer ones use the tensor cores
// on blocks of rows.
constexpr int64_t kFewRows = 8;

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

class CudaSteps final : public Steps {
 public:
  explicit CudaSteps(std::string device) : device_(std::move(device)), staging_(queue_), table_(queue_) {}
  ~CudaSteps() override { cudaStreamSynchronize(queue_.stream()); }

  Status open() { return queue_.open(); }
  std::string name() const override { return "cuda " + device_; }

  Result<Buffer> allocate(size_t bytes) override { return allocate_device(queue_, bytes); }
  void copy_in(void* to, const void* from, size_t bytes) override {
    queue_.flush();
    settled_routing_ = nullptr;
    queue_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue_.stream()),
                 "copying to the GPU");
  }
  void copy_out(void* to, const void* from, size_t bytes) override {
    queue_.flush();
    queue_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue_.stream()),
                 "copying from the GPU");
    queue_.check(cudaStreamSynchronize(queue_.stream()), "waiting for the GPU");
  }
  void copy(void* to, const void* from, size_t bytes) override {
    queue_.flush();
    queue_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue_.stream()),
                 "copying on the GPU");
  }
  Dtype activation_dtype() const override { return Dtype::kBf16; }
  size_t kv_page_bytes(const AttentionWeights& w) const override {
    return static_cast<size_t>(2 * w.kv_heads * kKvPage * w.head_dim) * 2;
  }
  Status reserve(const Limits& limits) override {
    if (limits.experts > 257) {
      return Error{Code::kUnsupported,
                   "a router over " + std::to_string(limits.experts - 1) +
                       " experts, the CUDA kernels choose among up to 256",
                   "use --device cpu"};
    }
    // Several workspaces may share these steps: scratch only grows.
    const auto grow = [&](int64_t Limits::*size) { limits_.*size = std::max(limits_.*size, limits.*size); };
    for (const auto size : {&Limits::rows, &Limits::hidden, &Limits::widest, &Limits::vocabulary,
                            &Limits::slots, &Limits::experts, &Limits::intermediate}) {
      grow(size);
    }
    queue_.flush();
    WEIR_TRY(scratch_, Scratch::make(queue_, limits_));
    return queue_.take_error();
  }

  Result<std::unique_ptr<Linear>> pack(std::span<const Matrix> parts, Use) override {
    return pack_linear(queue_, staging_, parts);
  }
  Result<std::unique_ptr<Experts>> pack_experts(std::span<const ExpertSource> experts) override {
    return cuda::pack_experts(queue_, staging_, experts);
  }
  Result<std::unique_ptr<Embedding>> pack_embedding(const Matrix& matrix) override {
    return cuda::pack_embedding(queue_, matrix);
  }

  void begin(const Batch& batch) override {
    queue_.flush();
    staging_.release();
    if (static_cast<int64_t>(batch.segments.size()) > kMaxSegments) {
      fail({Code::kInvalidArgument,
            "a pass over " + std::to_string(batch.segments.size()) +
                " sequences, the CUDA "
                "kernels take " +
                std::to_string(kMaxSegments),
            "batch fewer sequences"});
    }
    if (Status status = table_.set(batch); !status.ok()) fail(status.error());
    if (static_cast<int64_t>(batch.tokens.size()) <= kFewRows) queue_.defer();
  }

  void embed(Rows x, const Batch&, const Embedding& embedding) override {
    embed_rows(queue_, x.floats(), static_cast<const RawEmbedding&>(embedding).matrix, table_.view(), x.rows);
  }

  void norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) override {
    project_normed(out, Output::kBf16, x, gain, epsilon, nullptr, w);
  }

  void attend(Rows mixed, Rows projected, const AttentionWeights& w, const Batch&, int64_t index) override {
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
    (few(projected) ? attend_few : attend_many)(queue_, call, table_.view());
  }

  void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch&, int64_t index) override {
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
    (few(projected) ? delta_few : delta_many)(queue_, call, table_.view());
  }

  void project_add(Rows x, Rows mixed, const Linear& w) override {
    LinearCall call;
    call.w = tiles_of(w);
    call.in = mixed.data;
    call.out = x.data;
    call.output = Output::kAdd;
    call.rows = x.rows;
    (few(x) ? linear_few : linear_many)(queue_, call);
  }

  void norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                  const MoeWeights& w) override {
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
    if (few(x)) return route_few(queue_, call);
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

  void experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) override {
    ExpertsCall call = experts_call(routing, w);
    call.normed = activations(normed);
    call.activated = activations(activated);
    settled_routing_ = routing.experts;
    if (few(normed)) return experts_up_few(queue_, call);
    const Grouping grouping = grouping_of(call);
    group_by_expert(queue_, grouping, call);
    experts_up_many(queue_, grouping, call);
  }

  void experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) override {
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

  void norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                 const Batch&) override {
    if (logits.rows == 0) return;
    project_normed(logits, Output::kFloat, {x.data, logits.rows, x.cols, x.dtype}, gain, epsilon,
                   table_.view().wanted, head);
  }

  Status finish() override {
    queue_.flush();
    queue_.check(cudaStreamSynchronize(queue_.stream()), "waiting for the GPU");
    Status status = failure_ ? Status(*failure_) : queue_.take_error();
    failure_.reset();
    return status;
  }

  Result<std::vector<int32_t>> continue_greedily(Rows logits, int64_t count);
  CudaReport report() const { return {queue_.graphs(), queue_.launches_of_last()}; }

 private:
  static bool few(const Rows& rows) { return rows.rows <= kFewRows; }

  void project_normed(Rows out, Output output, Rows x, const Vector& gain, float epsilon,
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

  static ExpertsCall experts_call(const Routing& routing, const MoeWeights& w) {
    ExpertsCall call;
    call.experts = static_cast<const TileExperts&>(*w.expert).tiles;
    call.chosen = routing.experts;
    call.weights = routing.weights;
    call.rows = routing.rows;
    call.slots = routing.slots;
    return call;
  }

  Grouping grouping_of(const ExpertsCall& call) const {
    Grouping g;
    g.counts = ints(scratch_.counts);
    g.order = ints(scratch_.order);
    g.tiles = static_cast<ExpertTile*>(scratch_.tiles.data());
    g.tile_count = ints(scratch_.tile_count);
    g.max_tiles = call.rows * call.slots / kExpertTileRows + call.experts.count;
    return g;
  }

  bool supports(const AttentionWeights& w) {
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
  bool supports(const DeltaWeights& w) {
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

  void fail(const Error& error) {
    if (!failure_) failure_ = error;
  }

  // theta^(-2 i / rotary_dim), made when a model's first attention layer asks.
  const float* frequencies(const AttentionWeights& w) {
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

  std::string device_;
  LaunchQueue queue_;
  Staging staging_;
  PassTable table_;
  Limits limits_;
  Scratch scratch_;
  Buffer frequencies_;
  float theta_ = 0;
  int64_t frequency_count_ = 0;
  const int32_t* settled_routing_ = nullptr;  // what experts_up has read, until it may have changed
  std::optional<Error> failure_;
};

Result<std::vector<int32_t>> CudaSteps::continue_greedily(Rows logits, int64_t count) {
  const int64_t reserved = table_.max_pages() * kKvPage;
  int32_t position = 0;
  if (!queue_.has_last() || table_.view().segment_count != 1 || table_.max_segment_rows() != 1 ||
      count > kMaxChosen) {
    return Error{Code::kInvalidArgument, "there is no pass of one row to continue", ""};
  }
  copy_out(&position, table_.position(), sizeof(position));
  if (table_.view().kv_layers > 0 && position + count > reserved) {
    return Error{Code::kInvalidArgument,
                 "the reserved pages hold " + std::to_string(reserved) + " positions, " +
                     std::to_string(position + count) + " are needed",
                 ""};
  }
  GreedyCall call;
  call.logits = logits.floats();
  call.vocabulary = logits.cols;
  call.best = scratch_.best.floats();
  call.best_id = ints(scratch_.best_id);
  call.ticket = scratch_.greedy_ticket();
  call.token = table_.token();
  call.position = table_.position();
  call.segment = table_.segment();
  call.chosen = ints(scratch_.chosen);
  call.step = call.chosen + kMaxChosen;
  queue_.check(cudaMemsetAsync(call.step, 0, sizeof(int32_t), queue_.stream()), "clearing memory");
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) queue_.repeat();
    choose_greedily(queue_, call);
  }
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  copy_out(tokens.data(), call.chosen, tokens.size() * sizeof(int32_t));
  WEIR_RETURN_IF_ERROR(finish());
  return tokens;
}

}  // namespace

bool has_cuda() {
  return true;
}

Result<std::unique_ptr<Steps>> make_cuda_steps(int device) {
  WEIR_TRY(const std::string name, use_device(device));
  auto steps = std::make_unique<CudaSteps>(name);
  WEIR_RETURN_IF_ERROR(steps->open());
  return std::unique_ptr<Steps>(std::move(steps));
}

Result<std::vector<int32_t>> continue_greedily(Steps& steps, Rows logits, int64_t count) {
  return static_cast<CudaSteps&>(steps).continue_greedily(logits, count);
}

CudaReport cuda_report(const Steps& steps) {
  return static_cast<const CudaSteps&>(steps).report();
}

}  // namespace weir
