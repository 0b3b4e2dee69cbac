#include "kernels/cpu/products.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cpu/memory.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/shares.h"

namespace weir::cpu {
namespace {

// Results of experts_down that a thread holds until they are summed: large enough that a tile, once in the
// cache, meets many blocks of weights.
constexpr int64_t kPanelFloats = int64_t{1} << 20;

}  // namespace

Status Products::reserve(const Limits& limits) {
  const int64_t pairs = limits.rows * limits.slots;
  const int64_t widest = std::max({limits.widest, limits.hidden, limits.intermediate});
  const int64_t row_elements = std::max(limits.rows * widest, pairs * limits.intermediate);
  const int64_t tile_elements = std::max(row_elements, pairs * limits.hidden);
  panel_floats_ = std::max(kPanelFloats, pairs * kBlockRows);
  const size_t bytes = carved_bytes(limits.rows * widest, sizeof(float)) +
                       carved_bytes(limits.rows * limits.experts, sizeof(float)) +
                       carved_bytes(limits.rows, sizeof(int32_t)) +
                       carved_bytes(pool_.threads() * panel_floats_, sizeof(float)) +
                       Activations::scratch_bytes(row_elements, tile_elements) +
                       ExpertLists::scratch_bytes(pairs, limits.experts);
  WEIR_TRY(scratch_, allocate_pages(bytes));
  Carver carver(scratch_.data());
  normed_ = carver.take<float>(limits.rows * widest);
  logits_ = carver.take<float>(limits.rows * limits.experts);
  identity_ = carver.take<int32_t>(limits.rows);
  panels_ = carver.take<float>(pool_.threads() * panel_floats_);
  activations_.place(carver, row_elements, tile_elements);
  lists_.place(carver, pairs, limits.experts);
  std::iota(identity_, identity_ + limits.rows, 0);
  return {};
}

Rows Products::norm(Rows x, const Vector& gain, float epsilon) {
  const Rows normed{normed_, x.rows, x.cols};
  norm_into(normed, x, gain, epsilon);
  return normed;
}

Rows Products::norm_wanted(Rows x, std::span<const int32_t> wanted, const Vector& gain, float epsilon) {
  const Rows normed{normed_, static_cast<int64_t>(wanted.size()), x.cols};
  for_rows(pool_, normed.rows, [&](int64_t t) {
    const float* row = x.row(wanted[static_cast<size_t>(t)]);
    kernels_.rows.rms_norm(normed.row(t), row, gain.floats(), epsilon, x.cols);
  });
  return normed;
}

void Products::norm_into(Rows normed, Rows x, const Vector& gain, float epsilon) {
  for_rows(pool_, x.rows, [&](int64_t t) {
    kernels_.rows.rms_norm(normed.row(t), x.row(t), gain.floats(), epsilon, x.cols);
  });
}

// All rows of x as one list.
void Products::prepare(Rows x, unsigned kinds) {
  activations_.begin(kernels_, x.floats(), x.cols, kinds);
  for_rows(pool_, x.rows, [&](int64_t t) { activations_.round_row(t); });
  const int64_t parts = tile_count(x.rows, kLargestTile);
  for_rows(pool_, parts, [&](int64_t part) { activations_.interleave(0, identity_, x.rows, part, parts); });
}

// The lists of lists_, with rows[position] of x at each position.
void Products::prepare_lists(Rows x, unsigned kinds, const int32_t* rows) {
  activations_.begin(kernels_, x.floats(), x.cols, kinds);
  for_rows(pool_, x.rows, [&](int64_t t) { activations_.round_row(t); });
  const auto lists = lists_.lists();
  for_rows(pool_, static_cast<int64_t>(lists.size()), [&](int64_t l) {
    const ExpertLists::List& list = lists[static_cast<size_t>(l)];
    activations_.interleave(list.begin, rows + list.begin, list.count());
  });
}

// emit(part, first output of the block, its outputs, first row, rows, products) for all blocks and rows.
template <class Emit>
void Products::multiply_parts(const PackedLinear& w, int64_t rows, const Emit& emit) {
  for_stretches(pool_, static_cast<int64_t>(w.bytes()), [&](int, Range stretch) {
    Shares shares(stretch);
    int64_t first_output = 0;
    for (const PackedMatrix& part : w.parts()) {
      const Range blocks = shares.next(part.blocks(), part.block_bytes);
      multiply(kernels_, part, blocks, activations_, 0, rows,
               [&](int64_t b, int64_t first, int64_t count, const float* out) {
                 emit(first_output + b * kBlockRows, part.block_rows(b), first, count, out);
               });
      first_output += part.rows;
    }
  });
}

void Products::project(Rows out, Rows x, const PackedLinear& w) {
  prepare(x, w.kinds());
  multiply_parts(
      w, x.rows, [&](int64_t output, int64_t outputs, int64_t first, int64_t count, const float* y) {
        for (int64_t i = 0; i < count; ++i, y += kBlockRows) {
          std::memcpy(out.row(first + i) + output, y, static_cast<size_t>(outputs) * sizeof(float));
        }
      });
}

void Products::project_add(Rows out, Rows x, const PackedLinear& w) {
  prepare(x, w.kinds());
  multiply_parts(w, x.rows,
                 [&](int64_t output, int64_t outputs, int64_t first, int64_t count, const float* y) {
                   for (int64_t i = 0; i < count; ++i, y += kBlockRows) {
                     float* to = out.row(first + i) + output;
                     for (int64_t lane = 0; lane < outputs; ++lane) to[lane] += y[lane];
                   }
                 });
}

void Products::route(Routing routing, Rows normed, const MoeWeights& w) {
  const Rows logits{logits_, normed.rows, w.router->rows()};
  project(logits, normed, static_cast<const PackedLinear&>(*w.router));
  for_rows(pool_, normed.rows, [&](int64_t t) {
    int32_t* experts = routing.experts + t * routing.slots;
    float* weights = routing.weights + t * routing.slots;
    kernels_.rows.route(experts, weights, logits.row(t), w.experts, w.top_k);
    if (!w.shared) return;
    experts[w.top_k] = static_cast<int32_t>(w.experts);
    weights[w.top_k] = kernels_.rows.sigmoid(logits.row(t)[w.experts]);
  });
}

void Products::experts_up(Rows activated, Rows normed, const Routing& routing, const MoeWeights& moe) {
  const auto& w = static_cast<const PackedExperts&>(*moe.expert);
  const auto multiply_gated =
      moe.activation == Activation::kSilu ? kernels_.rows.silu_multiply : kernels_.rows.gelu_multiply;
  lists_.build(routing, w.count());
  prepare_lists(normed, w.up_kinds(), lists_.rows());
  const auto cost = [&](const ExpertLists::List& list) {
    return w.expert(list.expert).up_block_bytes() * std::max(kernels_.int8.rows_per_read, list.count());
  };
  int64_t total = 0;
  for (const ExpertLists::List& list : lists_.lists()) {
    total += w.expert(list.expert).gate.blocks() * cost(list);
  }
  for_stretches(pool_, total, [&](int, Range stretch) {
    Shares shares(stretch);
    for (const ExpertLists::List& list : lists_.lists()) {
      const PackedExperts::Expert& e = w.expert(list.expert);
      const Range blocks = shares.next(e.gate.blocks(), cost(list));
      multiply_pair(kernels_, e.gate, e.up, blocks, activations_, list.begin, list.count(),
                    [&](int64_t b, int64_t first, int64_t count, const float* gate, const float* up) {
                      const int32_t* pairs = lists_.pairs() + list.begin + first;
                      for (int64_t i = 0; i < count; ++i, gate += kBlockRows, up += kBlockRows) {
                        float* to = activated.row(pairs[i]) + b * kBlockRows;
                        multiply_gated(to, gate, up, e.gate.block_rows(b));
                      }
                    });
    }
  });
}

// y[pair, width] = the products of these blocks for all pairs.
void Products::down_panel(const PackedExperts& w, Range blocks, float* y, int64_t width) const {
  for (const ExpertLists::List& list : lists_.lists()) {
    multiply(kernels_, w.expert(list.expert).down, blocks, activations_, list.begin, list.count(),
             [&](int64_t b, int64_t first, int64_t count, const float* out) {
               const int32_t* pairs = lists_.pairs() + list.begin + first;
               for (int64_t i = 0; i < count; ++i, out += kBlockRows) {
                 float* to = y + pairs[i] * width + (b - blocks.begin) * kBlockRows;
                 std::memcpy(to, out, kBlockRows * sizeof(float));
               }
             });
  }
}

void Products::experts_down_add(Rows x, Rows activated, const Routing& routing, const MoeWeights& moe) {
  const auto& w = static_cast<const PackedExperts&>(*moe.expert);
  lists_.build(routing, w.count());
  prepare_lists(activated.first(routing.rows * routing.slots), w.down_kinds(), lists_.pairs());
  const int64_t pairs = routing.rows * routing.slots;
  const int64_t blocks = w.expert(0).down.blocks();
  for_stretches(pool_, blocks, [&](int thread, Range mine) {
    float* y = panels_ + thread * panel_floats_;
    const int64_t panel = panel_floats_ / std::max<int64_t>(pairs * kBlockRows, 1);
    for (int64_t b = mine.begin; b < mine.end; b += panel) {
      const Range part{b, std::min(b + panel, mine.end)};
      const int64_t width = (part.end - part.begin) * kBlockRows;
      const int64_t output = b * kBlockRows;
      down_panel(w, part, y, width);
      for (int64_t t = 0; t < routing.rows; ++t) {
        kernels_.rows.add_weighted(x.row(t) + output, routing.weights + t * routing.slots,
                                   y + t * routing.slots * width, width, routing.slots,
                                   std::min(width, x.cols - output));
      }
    }
  });
}

}  // namespace weir::cpu
