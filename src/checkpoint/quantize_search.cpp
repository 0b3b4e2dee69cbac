#include "checkpoint/quantize_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/bf16.h"
#include "base/check.h"
#include "checkpoint/affine.h"

namespace weir {
namespace {

constexpr size_t kMostValues = 128;  // of a group
constexpr size_t kLanes = 16;        // sums run in as many lanes, which the compiler keeps in registers

// Groups are narrowed at either end by these shares before the first fit: with few levels it pays to clip the
// outermost values.
constexpr std::array kShrink = {0.0f, 0.1f, 0.2f, 0.35f};
constexpr int kFits = 3;  // of scale and bias to the levels that they lead to

struct Affine {
  float scale = 0;
  float bias = 0;
};

float round_bf16(float x) {
  return to_float(to_bf16(x));
}

// The next bfloat16 away from (+1) or towards (-1) zero.
float neighbour(float x, int step) {
  const uint16_t bits = to_bf16(x).bits;
  if (step < 0 && (bits & 0x7fffu) == 0) return x;
  return to_float(Bf16{static_cast<uint16_t>(bits + step)});
}

using Lanes = std::array<float, kLanes>;

double sum(const Lanes& lanes) {
  double total = 0;
  for (const float x : lanes) total += static_cast<double>(x);
  return total;
}

// One group and the search for its scale and bias.
class Group {
 public:
  Group(std::span<const float> values, std::span<const float> weights, int bits)
      : count_(values.size()), levels_(static_cast<float>((1 << bits) - 1)) {
    std::copy(values.begin(), values.end(), values_.begin());
    std::fill_n(weights_.begin(), count_, 1.0f);
    std::copy(weights.begin(), weights.end(), weights_.begin());
  }

  // The better of what was found before and `start`, with the fits that follow from it.
  void search(Affine start) {
    for (int fit = 0; fit <= kFits; ++fit) {
      const Affine stored{round_bf16(start.scale), round_bf16(start.bias)};
      if (!consider(stored)) return;
      start = fitted();
    }
  }

  // Tries the bfloat16 numbers around the best pair, since rounding the two apart is not the best rounding.
  void polish() {
    const Affine centre = best_;
    for (const int scale_step : {-1, 0, 1}) {
      for (const int bias_step : {-1, 0, 1}) {
        consider({neighbour(centre.scale, scale_step), neighbour(centre.bias, bias_step)});
      }
    }
  }

  const Affine& best() const { return best_; }

  void levels(const Affine& affine, std::span<uint8_t> q) {
    quantise(affine);
    for (size_t i = 0; i < count_; ++i) q[i] = static_cast<uint8_t>(q_[i]);
  }

 private:
  // q = the nearest level of every value, half to even, in [0, levels].
  void quantise(const Affine& affine) {
    constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves no bits behind the point
    const float inverse = 1.0f / affine.scale;
    for (size_t i = 0; i < count_; ++i) {
      const float level = std::min(std::max((values_[i] - affine.bias) * inverse, 0.0f), levels_);
      q_[i] = (level + kRound) - kRound;
    }
  }

  double error(const Affine& affine) const {
    Lanes errors{};
    for (size_t i = 0; i < count_; i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) {
        const float decoded = affine.scale * q_[i + k] + affine.bias;
        const float off = values_[i + k] - decoded;
        errors[k] += weights_[i + k] * (off * off);
      }
    }
    return sum(errors);
  }

  // False when the pair means nothing. Leaves the pair's levels in q_.
  bool consider(const Affine& affine) {
    if (affine.scale == 0 || !std::isfinite(affine.scale) || !std::isfinite(affine.bias) ||
        !std::isfinite(1.0f / affine.scale)) {
      return false;
    }
    quantise(affine);
    const double e = error(affine);
    if (e < best_error_ || best_.scale == 0) {  // the error of huge values is infinite
      best_error_ = e;
      best_ = affine;
    }
    return true;
  }

  // Least squares for the levels in q_: scale 0 when they are all alike.
  Affine fitted() const {
    Lanes w{}, wq{}, wqq{}, wx{}, wqx{};
    for (size_t i = 0; i < count_; i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) {
        const float weight = weights_[i + k], level = q_[i + k], x = values_[i + k];
        const float weighted = weight * level;
        w[k] += weight;
        wq[k] += weighted;
        wqq[k] += weighted * level;
        wx[k] += weight * x;
        wqx[k] += weighted * x;
      }
    }
    const double n = sum(w), q = sum(wq), qq = sum(wqq), x = sum(wx), qx = sum(wqx);
    const double spread = n * qq - q * q;
    if (!(spread > 1e-6 * n * qq)) return {};
    const double scale = (n * qx - q * x) / spread;
    return {static_cast<float>(scale), static_cast<float>((x - scale * q) / n)};
  }

  size_t count_;
  float levels_;
  std::array<float, kMostValues> values_{}, weights_{}, q_{};
  Affine best_;
  double best_error_ = HUGE_VAL;
};

// The range of the values that matter more than the average.
std::pair<float, float> important_range(std::span<const float> values, std::span<const float> weights) {
  double total = 0;
  for (const float w : weights) total += static_cast<double>(w);
  const auto mean = static_cast<float>(total / static_cast<double>(weights.size()));
  float low = HUGE_VALF, high = -HUGE_VALF;
  for (size_t i = 0; i < values.size(); ++i) {
    if (weights[i] < mean) continue;
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  return {low, high};
}

// Starts at MLX's choice, and at ranges from which something is cut off.
Affine search_group(std::span<const float> values, std::span<const float> weights, int bits,
                    const Affine& mlx) {
  Group group(values, weights, bits);
  const float levels = static_cast<float>((1 << bits) - 1);
  const auto search_range = [&](float left, float right) {
    group.search({(right - left) / levels, left});
    group.search({(left - right) / levels, right});
  };
  group.search(mlx);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const float range = *high - *low;
  for (const float at_low : kShrink) {
    for (const float at_high : kShrink) {
      search_range(*low + at_low * range / 2, *high - at_high * range / 2);
    }
  }
  if (!weights.empty()) {
    const auto [left, right] = important_range(values, weights);
    search_range(left, right);
  }
  group.polish();
  return group.best();
}

}  // namespace

void search_row(std::span<const float> row, std::span<const float> weights, int bits, int group,
                std::span<uint8_t> q, std::span<float> scales, std::span<float> biases) {
  const auto width = static_cast<size_t>(group);
  WEIR_CHECK(width <= kMostValues && width % kLanes == 0);
  WEIR_CHECK(weights.empty() || weights.size() == row.size());
  quantize_row(row, bits, group, q, scales, biases);
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto values = row.subspan(g * width, width);
    const auto importance = weights.empty() ? weights : weights.subspan(g * width, width);
    const Affine found = search_group(values, importance, bits, {scales[g], biases[g]});
    Group(values, importance, bits).levels(found, q.subspan(g * width, width));
    scales[g] = found.scale;
    biases[g] = found.bias;
  }
}

}  // namespace weir
