#include "kernels/cpu/row_belief.h"

#include <cmath>
#include <utility>

namespace weir::cpu {
namespace {

static_assert(kHeadPanel == kVocabularyPanel);

double point_of(uint32_t word) {
  return (static_cast<double>(word) + 0.5) * 0x1p-32;
}

// Above log(kHeadPanel) + Gumbel((2^32 - 0.5) / 2^32) = 5.55 + 22.88: what a panel's draw can exceed its
// maximum by.
constexpr double kLargestLead = 28.5;

// The first token whose weights up to and with it exceed `point` of the panel's.
int32_t token_at(const WeighedPanel& panel, double point) {
  double total = 0;
  for (int64_t v = 0; v < panel.count; ++v) total += panel.w[v];
  double below = 0;
  for (int64_t v = 0; v + 1 < panel.count; ++v) {
    below += panel.w[v];
    if (point * total < below) return panel.first_id() + static_cast<int32_t>(v);
  }
  return panel.first_id() + static_cast<int32_t>(panel.count - 1);
}

}  // namespace

Rescale RowBelief::add(const WeighedPanel& panel, const DrawKey& draw) {
  add_largest(panel);
  add_draw(panel, draw);
  return add_sums(panel.sums);
}

Rescale RowBelief::add_sums(const PanelSums& panel) {
  double before = 1, added = 1;
  if (panel.max > max_) {
    before = std::exp(max_ - panel.max);
    moment_ = sum_ == 0 ? 0 : before * (moment_ + sum_ * (max_ - panel.max));
    sum_ *= before;
    max_ = panel.max;
  } else {
    added = std::exp(panel.max - max_);
  }
  moment_ += added * (panel.moment + panel.sum * (panel.max - max_));
  sum_ += added * panel.sum;
  return {static_cast<float>(before), static_cast<float>(added)};
}

void RowBelief::add_largest(const WeighedPanel& panel) {
  if (!(panel.sums.max > second_y_)) return;  // ids ascend, so an equal value comes second
  for (int64_t v = 0; v < panel.count; ++v) {
    const double y = panel.y[v];
    if (!(y > second_y_)) continue;
    second_ = panel.first_id() + static_cast<int32_t>(v);
    second_y_ = y;
    if (y > best_y_) {
      std::swap(best_, second_);
      std::swap(best_y_, second_y_);
    }
  }
}

void RowBelief::add_draw(const WeighedPanel& panel, const DrawKey& draw) {
  if (panel.sums.max + kLargestLead < draw_) return;
  const auto words = random_words(panel_draw(draw, panel.index));
  const double gumbel = -std::log(-std::log(point_of(words[0])));
  const double lead = panel.sums.max + std::log(static_cast<double>(panel.sums.sum)) + gumbel;
  if (!(lead > draw_)) return;
  draw_ = lead;
  sampled_ = token_at(panel, point_of(words[1]));
}

double RowBelief::probability(double y) const {
  return std::exp(y - max_) / sum_;
}

Belief RowBelief::finish() const {
  Belief belief;
  belief.best = best_;
  belief.second = second_;
  belief.sampled = sampled_;
  belief.best_probability = static_cast<float>(probability(best_y_));
  belief.second_probability = static_cast<float>(probability(second_y_));
  belief.entropy = static_cast<float>(std::log(sum_) - moment_ / sum_);
  return belief;
}

}  // namespace weir::cpu
