#include "kernels/observe/input_energy.h"

#include <algorithm>
#include <cmath>

namespace weir {

std::span<const double> InputEnergy::find(const Sums& sums, const void* matrix) {
  const auto found = sums.find(matrix);
  return found == sums.end() ? std::span<const double>() : std::span(found->second);
}

void InputEnergy::add_row(std::vector<double>& sums, size_t first, const float* row, int64_t cols) {
  for (int64_t i = 0; i < cols; ++i) {
    sums[first + static_cast<size_t>(i)] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  }
}

void InputEnergy::add(const void* matrix, Rows rows) {
  auto& sums = sums_[matrix];
  sums.resize(static_cast<size_t>(rows.cols));
  for (int64_t t = 0; t < rows.rows; ++t) add_row(sums, 0, rows.row(t), rows.cols);
}

void InputEnergy::add_normed(const void* matrix, Rows x, const Vector& gain, float epsilon) {
  std::vector<float> normed(static_cast<size_t>(x.cols));
  for (int64_t t = 0; t < x.rows; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < x.cols; ++i) squares += std::pow(static_cast<double>(x.row(t)[i]), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.cols) + static_cast<double>(epsilon));
    for (size_t i = 0; i < normed.size(); ++i) {
      normed[i] = static_cast<float>(static_cast<double>(x.row(t)[i]) * scale) * gain.floats()[i];
    }
    add(matrix, Rows{normed.data(), 1, x.cols, Dtype::kF32});
  }
}

void InputEnergy::add_up(const Experts& experts, Rows normed, Routing routing) {
  auto& sums = sums_[&experts];
  sums.resize(static_cast<size_t>(experts.count() * normed.cols));
  for (int64_t p = 0; p < routing.rows * routing.slots; ++p) {
    add_row(sums, static_cast<size_t>(routing.experts[p] * normed.cols), normed.row(p / routing.slots),
            normed.cols);
  }
}

void InputEnergy::add_down(const Experts& experts, Rows activated, Routing routing) {
  auto& sums = down_[&experts];
  sums.resize(static_cast<size_t>(experts.count() * activated.cols));
  for (int64_t p = 0; p < routing.rows * routing.slots; ++p) {
    add_row(sums, static_cast<size_t>(routing.experts[p] * activated.cols), activated.row(p), activated.cols);
  }
}

void EnergySteps::norm_project(Rows out, Rows x, const Vector& gain, float epsilon, const Linear& w) {
  energy_.add_normed(&w, x, gain, epsilon);
  inner().norm_project(out, x, gain, epsilon, w);
}

void EnergySteps::project_add(Rows x, Rows mixed, const Linear& w) {
  energy_.add(&w, mixed);
  inner().project_add(x, mixed, w);
}

void EnergySteps::norm_route(Rows normed, Routing routing, Rows x, const Vector& gain, float epsilon,
                             const MoeWeights& w) {
  inner().norm_route(normed, routing, x, gain, epsilon, w);
  energy_.add(w.router.get(), normed);
}

void EnergySteps::experts_up(Rows activated, Rows normed, Routing routing, const MoeWeights& w) {
  energy_.add_up(*w.expert, normed, routing);
  inner().experts_up(activated, normed, routing, w);
}

void EnergySteps::experts_down_add(Rows x, Rows activated, Routing routing, const MoeWeights& w) {
  energy_.add_down(*w.expert, activated, routing);
  inner().experts_down_add(x, activated, routing, w);
}

void EnergySteps::norm_head(Rows logits, Rows x, const Vector& gain, float epsilon, const Linear& head,
                            const Batch& batch) {
  for (const int32_t row : batch.wanted) energy_.add_normed(&head, x.from(row).first(1), gain, epsilon);
  inner().norm_head(logits, x, gain, epsilon, head, batch);
}

void EnergyDiffusionSteps::norm_gated(Rows activated, Rows x, const Vector& gain, float epsilon,
                                      const Linear& gate_up) {
  energy_.add_normed(&gate_up, x, gain, epsilon);
  inner().norm_gated(activated, x, gain, epsilon, gate_up);
}

void EnergyDiffusionSteps::project(Rows out, Rows in, const Linear& w) {
  energy_.add(&w, in);
  inner().project(out, in, w);
}

void EnergyDiffusionSteps::project_norm_add(Rows x, Rows mixed, const Linear& w, const Vector& gain,
                                            float epsilon) {
  energy_.add(&w, mixed);
  inner().project_norm_add(x, mixed, w, gain, epsilon);
}

void EnergyDiffusionSteps::route(Routing routing, Rows x, const Vector& gain, float epsilon,
                                 const MoeWeights& w, const Vector& expert_scale) {
  energy_.add_normed(w.router.get(), x, gain, epsilon);
  inner().route(routing, x, gain, epsilon, w, expert_scale);
}

void EnergyDiffusionSteps::experts_down(Rows out, Rows activated, Routing routing, const MoeWeights& w) {
  energy_.add_down(*w.expert, activated, routing);
  inner().experts_down(out, activated, routing, w);
}

void EnergyDiffusionSteps::norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain,
                                     float epsilon, const Vocabulary& vocabulary, float softcap,
                                     const CanvasBatch& batch) {
  for (const Inquiry& inquiry : batch.inquiries) {
    energy_.add_normed(&vocabulary, x.from(inquiry.row - first_row).first(1), gain, epsilon);
  }
  inner().norm_head(beliefs, x, first_row, gain, epsilon, vocabulary, softcap, batch);
}

}  // namespace weir
