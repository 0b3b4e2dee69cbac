#include <algorithm>
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

// The sums of all rows of x run side by side, each in the order of the columns.
void multiply(Rows out, int64_t first_col, Rows x, const Matrix& w) {
  const auto rows = static_cast<size_t>(x.rows), cols = static_cast<size_t>(w.cols);
  std::vector<double> turned(cols * rows);  // [cols, rows]
  for (size_t t = 0; t < rows; ++t) {
    for (size_t c = 0; c < cols; ++c) turned[c * rows + t] = x.row(static_cast<int64_t>(t))[c];
  }
  std::vector<float> row(cols);
  std::vector<double> sums(rows);
  for (int64_t r = 0; r < w.rows; ++r) {
    decode_row(w, r, row.data());
    std::fill(sums.begin(), sums.end(), 0.0);
    for (size_t c = 0; c < cols; ++c) {
      const double weight = row[c];
      const double* in = turned.data() + c * rows;
      for (size_t t = 0; t < rows; ++t) sums[t] += weight * in[t];
    }
    for (size_t t = 0; t < rows; ++t) {
      out.row(static_cast<int64_t>(t))[first_col + r] = static_cast<float>(sums[t]);
    }
  }
}

void multiply_stacked(Rows out, Rows x, const Linear& w) {
  int64_t first = 0;
  for (const Matrix& part : static_cast<const StackedLinear&>(w).parts) {
    multiply(out, first, x, part);
    first += part.rows;
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

double gelu_tanh(double x) {
  constexpr double kRootTwoOverPi = 0.79788456080286535588;
  return 0.5 * x * (1.0 + std::tanh(kRootTwoOverPi * (x + 0.044715 * x * x * x)));
}

}  // namespace weir::reference
