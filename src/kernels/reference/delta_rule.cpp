#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/attention.h"
#include "kernels/reference/packed.h"

namespace weir::reference {
namespace {

// One row of the convolution and SiLU; the window moves on by one column.
void convolve(std::vector<float>& out, const float* in, float* window, const DeltaWeights& w) {
  const int64_t channels = w.channels(), kept = w.taps - 1;
  for (int64_t c = 0; c < channels; ++c) {
    double sum = static_cast<double>(w.conv.floats()[kept * channels + c]) * in[c];
    for (int64_t j = 0; j < kept; ++j) {
      sum += static_cast<double>(w.conv.floats()[j * channels + c]) * window[j * channels + c];
    }
    out[static_cast<size_t>(c)] = static_cast<float>(silu(sum));
  }
  std::copy(window + channels, window + kept * channels, window);
  std::copy_n(in, channels, window + (kept - 1) * channels);
}

// Unit length, then times `scale`. The 1e-6 stands inside the root, added to the sum.
std::vector<double> normalised(const float* x, int64_t count, double scale) {
  double squares = 1e-6;
  for (int64_t i = 0; i < count; ++i) squares += static_cast<double>(x[i]) * x[i];
  std::vector<double> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = x[i] / std::sqrt(squares) * scale;
  return out;
}

// softplus(x) = log(1 + e^x), without overflow.
double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

// S = decay S;  S += k (beta (v - S^T k))^T;  o = S^T q.     S [key_dim, value_dim]
void recur(float* o, float* S, const std::vector<double>& q, const std::vector<double>& k, const float* v,
           double decay, double beta, int64_t value_dim) {
  const auto key_dim = static_cast<int64_t>(k.size());
  for (int64_t j = 0; j < value_dim; ++j) {
    double recalled = 0;
    for (int64_t i = 0; i < key_dim; ++i)
      recalled += decay * S[i * value_dim + j] * k[static_cast<size_t>(i)];
    const double correction = beta * (v[j] - recalled);
    double out = 0;
    for (int64_t i = 0; i < key_dim; ++i) {
      float& s = S[i * value_dim + j];
      s = static_cast<float>(decay * s + k[static_cast<size_t>(i)] * correction);
      out += static_cast<double>(s) * q[static_cast<size_t>(i)];
    }
    o[j] = static_cast<float>(out);
  }
}

// One row of one value head, from the convolved channels to the gated norm.
struct HeadGates {
  float g = 0;  // log decay
  float beta = 0;
};

HeadGates gates_of(const float* b, const float* a, int64_t head, const DeltaWeights& w) {
  const double g = -static_cast<double>(w.decay.floats()[head]) *
                   softplus(static_cast<double>(a[head]) + w.dt_bias.floats()[head]);
  return {static_cast<float>(g), static_cast<float>(sigmoid(b[head]))};
}

void delta_row(float* mixed, const float* in, DeltaState& state, const DeltaWeights& w,
               const StageProbe& probe) {
  const int64_t keys = w.key_heads * w.key_dim, values = w.value_heads * w.value_dim;
  const float* z = in + w.channels();
  const float* b = z + values;
  const float* a = b + w.value_heads;
  std::vector<float> qkv(static_cast<size_t>(w.channels()));
  convolve(qkv, in, state.conv.floats(), w);

  std::vector<float> g, beta, o(static_cast<size_t>(values));
  for (int64_t h = 0; h < w.value_heads; ++h) {
    const int64_t key_head = h / (w.value_heads / w.key_heads);
    const double q_scale = 1.0 / std::sqrt(static_cast<double>(w.key_dim));
    const auto q = normalised(qkv.data() + key_head * w.key_dim, w.key_dim, q_scale);
    const auto k = normalised(qkv.data() + keys + key_head * w.key_dim, w.key_dim, 1.0);
    const HeadGates gates = gates_of(b, a, h, w);
    g.push_back(gates.g);
    beta.push_back(gates.beta);
    recur(o.data() + h * w.value_dim, state.recurrent.floats() + h * w.key_dim * w.value_dim, q, k,
          qkv.data() + 2 * keys + h * w.value_dim, std::exp(static_cast<double>(gates.g)), gates.beta,
          w.value_dim);
  }
  if (probe) {
    probe("qkv", qkv);
    probe("g", g);
    probe("beta", beta);
    probe("o", o);
  }
  for (int64_t h = 0; h < w.value_heads; ++h) {
    float* head = mixed + h * w.value_dim;
    rms_norm(head, o.data() + h * w.value_dim, w.norm.floats(), w.value_dim, w.norm_epsilon);
    for (int64_t i = 0; i < w.value_dim; ++i)
      head[i] = static_cast<float>(head[i] * silu(z[h * w.value_dim + i]));
  }
}

}  // namespace

void delta_rule(Rows mixed, Rows projected, const DeltaWeights& w, const Batch& batch, int64_t index,
                const StageProbe& probe) {
  for (const Segment& segment : batch.segments) {
    DeltaState& state = segment.state->delta[static_cast<size_t>(index)];
    for (int64_t r = segment.first_row; r < segment.first_row + segment.rows; ++r) {
      delta_row(mixed.row(r), projected.row(r), state, w, probe);
    }
  }
}

}  // namespace weir::reference
