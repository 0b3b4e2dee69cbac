#include <cmath>

#include "kernels/reference/packed.h"

namespace weir::reference {

int64_t StackedLinear::rows() const {
  int64_t total = 0;
  for (const Matrix& part : parts) total += part.rows;
  return total;
}

uint64_t StackedLinear::bytes() const {
  uint64_t total = 0;
  for (const Matrix& part : parts) total += part.bytes();
  return total;
}

uint64_t ExpertViews::up_bytes(int64_t expert) const {
  const ExpertSource& e = sources[static_cast<size_t>(expert)];
  return e.gate.bytes() + e.up.bytes();
}

uint64_t ExpertViews::down_bytes(int64_t expert) const {
  return sources[static_cast<size_t>(expert)].down.bytes();
}

void multiply(Rows out, int64_t first_col, Rows x, const Matrix& w) {
  std::vector<float> row(static_cast<size_t>(w.cols));
  for (int64_t r = 0; r < w.rows; ++r) {
    decode_row(w, r, row.data());
    for (int64_t t = 0; t < x.rows; ++t) {
      const float* in = x.row(t);
      double sum = 0;
      for (int64_t c = 0; c < w.cols; ++c) sum += static_cast<double>(row[static_cast<size_t>(c)]) * in[c];
      out.row(t)[first_col + r] = static_cast<float>(sum);
    }
  }
}

void rms_norm(float* out, const float* x, const float* gain, int64_t count, float epsilon) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) squares += static_cast<double>(x[i]) * x[i];
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(count) + epsilon);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(x[i] * scale * gain[i]);
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

double silu(double x) {
  return x * sigmoid(x);
}

}  // namespace weir::reference
