#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "kernels/cpu/attention_items.h"
#include "kernels/cpu/scratch.h"

namespace weir::cpu {
namespace {

static_assert(kPagePositions == kKvPage);
static_assert(kKvPage % kTileRows == 0);

constexpr int64_t kLanes = 16;

// Items that a thread computes between two merges: enough that waiting for the slowest thread is rare.
constexpr int64_t kItemsPerThread = 4;

struct Geometry {
  int64_t kv_heads, group, dim, half;

  explicit Geometry(const AttentionWeights& w)
      : kv_heads(w.kv_heads), group(w.heads / w.kv_heads), dim(w.head_dim), half(w.rotary_dim / 2) {}

  int64_t head_page() const { return 2 * kKvPage * dim; }  // elements
};

// What one thread needs for itself.
struct ThreadScratch {
  float* cosines;  // [half]
  float* sines;    // [half]
  float* head;     // [dim], a key before rounding
  float* queries;  // [kTileRows, group, dim]
  float* scores;   // [group, kKvPage]

  ThreadScratch(Carver& carver, const Geometry& g)
      : cosines(carver.take<float>(g.half)),
        sines(carver.take<float>(g.half)),
        head(carver.take<float>(g.dim)),
        queries(carver.take<float>(kTileRows * g.group * g.dim)),
        scores(carver.take<float>(g.group * kKvPage)) {}
};

// Partial results of one item, or the merged ones of a tile.
struct Slot {
  Partial all;  // of [kTileRows, group] queries

  Slot(Carver& carver, const Geometry& g) {
    const int64_t queries = kTileRows * g.group;
    all = {carver.take<float>(queries), carver.take<float>(queries), carver.take<float>(queries * g.dim)};
  }
  Partial from(int64_t query, int64_t dim) const {
    return {all.max + query, all.sum + query, all.values + query * dim};
  }
};

HeadPage head_page(void* page, int64_t kv_head, const Geometry& g) {
  const uint16_t* keys = static_cast<const uint16_t*>(page) + kv_head * g.head_page();
  return {keys, keys + kKvPage * g.dim};
}

// One call of attend.
class Attention {
 public:
  Attention(Rows mixed, Rows projected, const AttentionWeights& w, const Batch& batch, int64_t index,
            const AttentionKernels& kernels, int threads, void* scratch)
      : mixed_(mixed),
        projected_(projected),
        w_(w),
        batch_(batch),
        index_(static_cast<size_t>(index)),
        kernels_(kernels),
        g_(w),
        threads_(threads),
        capacity_(kItemsPerThread * threads) {
    Carver carver(scratch);
    frequencies_ = carver.take<float>(g_.half);
    items_ = carver.take<Item>(capacity_);
    shared_ = carver;
    for (int64_t i = 0; i < g_.half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(w.rotary_dim);
      frequencies_[i] = static_cast<float>(std::pow(static_cast<double>(w.rope_theta), exponent));
    }
  }
