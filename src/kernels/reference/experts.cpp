#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/reference/packed.h"

namespace weir::reference {
namespace {

const ExpertViews& views(const MoeWeights& w) {
  return static_cast<const ExpertViews&>(*w.expert);
}

// The (row, slot) pairs that went to `expert`, ascending; pair = row * slots + slot.
std::vector<int64_t> pairs_of(int32_t expert, Routing routing) {
  std::vector<int64_t> pairs;
  for (int64_t i = 0; i < routing.rows * routing.slots; ++i) {
    if (routing.experts[i] == expert) pairs.push_back(i);
  }
  return pairs;
}

struct Gathered {
  std::vector<float> memory;
  Rows rows;
};

Gathered space(size_t rows, int64_t cols) {
  Gathered g;
  g.memory.resize(rows * static_cast<size_t>(cols));
  g.rows = {g.memory.data(), static_cast<int64_t>(rows), cols};
  return g;
}

// Rows pair / divisor of x.
Gathered gather(Rows x, const std::vector<int64_t>& pairs, int64_t divisor) {
  Gathered g = space(pairs.size(), x.cols);
  for (size_t i = 0; i < pairs.size(); ++i) {
    std::copy_n(x.row(pairs[i] / divisor), x.cols, g.rows.row(static_cast<int64_t>(i)));
  }
  return g;
}

}  // namespace

void choose_experts(int32_t* experts, float* weights, const float* logits, const MoeWeights& w) {
  std::vector<int32_t> order(static_cast<size_t>(w.experts));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  std::vector<double> exponentials;
  for (int64_t s = 0; s < w.top_k; ++s) {
    experts[s] = order[static_cast<size_t>(s)];
    exponentials.push_back(std::exp(static_cast<double>(logits[experts[s]]) - logits[order[0]]));
  }
  const double total = std::accumulate(exponentials.begin(), exponentials.end(), 0.0);
  for (size_t s = 0; s < exponentials.size(); ++s) weights[s] = static_cast<float>(exponentials[s] / total);
}

void activate_experts(Rows activated, Rows normed, Routing routing, const MoeWeights& w) {
  const int64_t width = views(w).intermediate();
  const auto f = w.activation == Activation::kSilu ? silu : gelu_tanh;
  for (int32_t e = 0; e < views(w).count(); ++e) {
    const std::vector<int64_t> pairs = pairs_of(e, routing);
    if (pairs.empty()) continue;
    const ExpertSource& source = views(w).sources[static_cast<size_t>(e)];
    const Gathered in = gather(normed, pairs, routing.slots);
    const Gathered gate = space(pairs.size(), width), up = space(pairs.size(), width);
    multiply(gate.rows, 0, in.rows, source.gate);
    multiply(up.rows, 0, in.rows, source.up);
    for (size_t i = 0; i < pairs.size(); ++i) {
      const float* g = gate.rows.row(static_cast<int64_t>(i));
      const float* u = up.rows.row(static_cast<int64_t>(i));
      for (int64_t c = 0; c < width; ++c) activated.row(pairs[i])[c] = static_cast<float>(f(g[c]) * u[c]);
    }
  }
}

void add_experts(Rows x, Rows activated, Routing routing, const MoeWeights& w) {
  const Gathered y = space(static_cast<size_t>(routing.rows * routing.slots), x.cols);
  for (int32_t e = 0; e < views(w).count(); ++e) {
    const std::vector<int64_t> pairs = pairs_of(e, routing);
    if (pairs.empty()) continue;
    const Gathered in = gather(activated, pairs, 1), out = space(pairs.size(), x.cols);
    multiply(out.rows, 0, in.rows, views(w).sources[static_cast<size_t>(e)].down);
    for (size_t i = 0; i < pairs.size(); ++i) {
      std::copy_n(out.rows.row(static_cast<int64_t>(i)), x.cols, y.rows.row(pairs[i]));
    }
  }
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t c = 0; c < x.cols; ++c) {
      double sum = 0;
      for (int64_t s = 0; s < routing.slots; ++s) {
        const int64_t pair = t * routing.slots + s;
        sum += static_cast<double>(routing.weights[pair]) * y.rows.row(pair)[c];
      }
      x.row(t)[c] = static_cast<float>(x.row(t)[c] + sum);
    }
  }
}

}  // namespace weir::reference
