// The host side of every kernel: each call queues one or two launches. Formulas, ownership and rounding stand
// beside the kernels; shapes are those of kernels/steps.h. Activations are bf16, everything else as named.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/pass_view.h"
#include "kernels/cuda/raw_matrix.h"
#include "kernels/cuda/tile_matrix.h"

namespace weir::cuda {

inline constexpr int kFewRows = 8;  // most rows of the kernels named so

inline constexpr unsigned kMultiprocessors = 132;  // of an H100 or H200

// Shared memory of a launch with at most one block for each multiprocessor: so much that no two of them share
// one while another has none, and that the next launch's still find room beside them.
constexpr size_t spread_out(size_t shared) {
  constexpr size_t kHalf = 112 << 10;
  return shared < kHalf ? kHalf : shared;
}

// ---- rows.cu

void embed_rows(LaunchQueue& queue, float* x, const RawMatrix& embedding, const PassView& pass, int64_t rows);

// out[i] = RMSNorm(x[row_of[i]]) in bf16; row_of may be null.
void norm_rows(LaunchQueue& queue, __nv_bfloat16* out, const float* x, const float* gain, float epsilon,
               const int32_t* row_of, int64_t rows, int64_t cols);

// ---- linear_few.cu, linear_many.cu

enum class Input { kNormed, kPlain };       // float32 rows to be RMS-normed; bf16 rows
enum class Output { kBf16, kFloat, kAdd };  // kAdd: to float32

// Most bytes of a staged row, as few-row kernels hand it on (staged_rows.cuh): two planes, and 16 for each 64
// columns.
constexpr size_t staged_row_bytes(size_t cols) {
  const size_t padded = (cols + 63) / 64 * 64;
  return 2 * (padded + 16) + padded / 4;
}

struct LinearCall {
  TileMatrix w;
  Input input = Input::kPlain;
  const void* in = nullptr;
  const char* staged = nullptr;     // of kPlain, few rows: what another kernel has staged of them, or null
  const float* gain = nullptr;      // of kNormed
  float epsilon = 0;                // of kNormed
  const int32_t* row_of = nullptr;  // of kNormed: which rows; null for all in order
  void* out = nullptr;
  Output output = Output::kBf16;
  int64_t rows = 0;
};

// Up to eight rows. Either kNormed to kBf16 or kFloat, or kPlain to kAdd.
void linear_few(LaunchQueue& queue, const LinearCall& call);

// Any number of rows; kPlain only.
void linear_many(LaunchQueue& queue, const LinearCall& call);

// ---- route.cu

struct RouteCall {
  TileMatrix router;  // [experts + 1, H]
  const float* x = nullptr;
  const float* gain = nullptr;
  float epsilon = 0;
  __nv_bfloat16* normed = nullptr;
  char* staged = nullptr;   // of few rows: normed once more, as quantised experts take it; null if not wanted
  float* logits = nullptr;  // of many rows: scratch [T, experts + 1]
  int32_t* chosen = nullptr;  // [T, top_k + 1]
  float* weights = nullptr;
  int64_t rows = 0;
  int64_t experts = 0;
  int64_t top_k = 0;
};

void route_few(LaunchQueue& queue, const RouteCall& call);
// From finished logits.
void choose_experts(LaunchQueue& queue, const RouteCall& call);

// ---- experts_few.cu, experts_group.cu, linear_many.cu

// All experts of a layer in one array: expert e starts at row e * up.rows of the stack (and so on).
struct ExpertTiles {
  TileMatrix up;    // of one expert: [2 I, H], tile rows are 8 gates, then the 8 ups of the same neurons
  TileMatrix down;  // of one expert: [H, I]
  int64_t count = 0;
  int64_t intermediate = 0;
};

struct ExpertsCall {
  ExpertTiles experts;
  const __nv_bfloat16* normed = nullptr;  // [T, H]
  const char* staged = nullptr;           // of few rows: what route_few has staged of them, or null
  __nv_bfloat16* activated = nullptr;     // [T * slots, I]
  float* x = nullptr;                     // [T, H]
  const int32_t* chosen = nullptr;        // [T, slots]
  const float* weights = nullptr;
  int64_t rows = 0;
  int64_t slots = 0;
  bool routing_is_settled = false;  // not written by the kernel just before
};

void experts_up_few(LaunchQueue& queue, const ExpertsCall& call);
void experts_down_few(LaunchQueue& queue, const ExpertsCall& call);

// Rows sorted by expert: `order` holds t * slots + s, expert after expert; `tiles` cuts each expert's share
// into pieces of at most `tile_rows`.
struct ExpertTile {
  int32_t expert;
  int32_t first;  // in order
  int32_t rows;
  int32_t unused;
};
struct Grouping {
  int32_t* counts = nullptr;      // [experts]
  int32_t* order = nullptr;       // [T * slots]
  ExpertTile* tiles = nullptr;    // [max_tiles]
  int32_t* tile_count = nullptr;  // [1]
  int64_t max_tiles = 0;
  int64_t tile_rows = 0;
};

// What suits this many assignments.
int64_t expert_tile_rows(int64_t assignments, int64_t experts);
// Each expert has at most one tile that is not full.
inline int64_t expert_tiles(int64_t assignments, int64_t experts) {
  return assignments / expert_tile_rows(assignments, experts) + experts;
}

void group_by_expert(LaunchQueue& queue, const Grouping& grouping, const ExpertsCall& call);
void experts_up_many(LaunchQueue& queue, const Grouping& grouping, const ExpertsCall& call);
// `contributions` is scratch [T * slots, H].
void experts_down_many(LaunchQueue& queue, const Grouping& grouping, const ExpertsCall& call,
                       __nv_bfloat16* contributions);
void combine_experts(LaunchQueue& queue, const ExpertsCall& call, const __nv_bfloat16* contributions,
                     int64_t hidden);

// ---- attention_few.cu, attention_many.cu (head_dim 256)

struct AttentionCall {
  const __nv_bfloat16* projected = nullptr;
  __nv_bfloat16* mixed = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* frequencies = nullptr;  // [rotary_dim / 2]
  int64_t rotary_dim = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  float epsilon = 0;
  int64_t rows = 0;
  int64_t layer = 0;      // index into SequenceState::kv
  int64_t max_pages = 0;  // of any segment after this pass
  int64_t max_segment_rows = 0;
  __nv_bfloat16* queries = nullptr;  // scratch of many rows [T, heads, 256]
  char* staged = nullptr;            // of few rows: mixed once more, as quantised products take it
  float* partial = nullptr;          // scratch of few rows [8, kv_heads, kMaxSplits, 8, 260]
  int32_t* tickets = nullptr;        // scratch of few rows [8, kv_heads], zero between calls
};

inline constexpr int kHeadDim = 256;
inline constexpr int kMaxSplits = 64;
inline constexpr int kMaxGroup = 8;  // query heads of a KV head

void attend_few(LaunchQueue& queue, const AttentionCall& call, const PassView& pass);
void attend_many(LaunchQueue& queue, const AttentionCall& call, const PassView& pass);

// ---- delta_few.cu, delta_many.cu (key_dim and value_dim 128, four taps)

struct DeltaCall {
  const __nv_bfloat16* projected = nullptr;
  __nv_bfloat16* mixed = nullptr;
  const float* conv = nullptr;
  const float* decay = nullptr;
  const float* dt_bias = nullptr;
  const float* norm = nullptr;
  float epsilon = 0;
  int64_t rows = 0;
  int64_t key_heads = 0;
  int64_t value_heads = 0;
  int64_t layer = 0;  // index into SequenceState::delta
  int64_t max_segment_rows = 0;
  char* staged = nullptr;              // of few rows: mixed once more, as quantised products take it
  __nv_bfloat16* convolved = nullptr;  // scratch of many rows [T, channels]
  float* gates = nullptr;              // scratch of many rows [T, value_heads, 2]
  void* factors = nullptr;  // scratch of many rows, ChunkFactors [T / 16 + segments + 1, value_heads]
};

inline constexpr int kDeltaDim = 128;
inline constexpr int kTaps = 4;

void delta_few(LaunchQueue& queue, const DeltaCall& call, const PassView& pass);
void delta_many(LaunchQueue& queue, const DeltaCall& call, const PassView& pass);

// ---- choose.cu

// What an answer's choices have come to, in GPU memory.
struct ChoiceProgress {
  int32_t token;     // chosen last
  uint32_t step;     // index in the sequence of the next one
  uint32_t choices;  // so far
  uint32_t unused;
};

// An answer's rules (kernels/token_chooser.h), in GPU memory.
struct ChoiceState {
  ChoiceProgress* progress;
  int32_t* ring;  // [kChoiceRing], in the host's memory: the latest choices, or what went wrong
  int32_t*
      history;  // [vocabulary]: 0 for unseen tokens, else 1 and the times generated; null without penalties
  const float* bias;  // [vocabulary], or null
  uint64_t seed;
  uint32_t sequence;
  int32_t vocabulary;
  int32_t top_k;
  float temperature;
  float top_p;
  float min_p;
  float presence_penalty;
  float frequency_penalty;
  float repetition_penalty;
  int32_t unused;
};

inline constexpr uint32_t kChoiceRing = 4;
inline constexpr int32_t kBadLogits = -1;
inline constexpr int32_t kNothingToChoose = -2;

// The row of the next pass, where the token goes and whose position moves on; null where there is none.
struct NextRow {
  int32_t* token = nullptr;
  int32_t* position = nullptr;
  SegmentInfo* segment = nullptr;
};

// Most logits that choose_token takes. They are aligned to 16 bytes.
int64_t largest_choice();
void choose_token(LaunchQueue& queue, const float* logits, const ChoiceState* state, int64_t vocabulary,
                  const NextRow& next);

}  // namespace weir::cuda
