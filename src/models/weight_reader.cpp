#include "models/weight_reader.h"

namespace weir {
namespace {

// Bytes of the checkpoint that stay in memory beside their packed copies: about a layer of Qwen3.6-35B-A3B.
constexpr uint64_t kMostHeld = uint64_t{512} << 20;

}  // namespace

Result<Matrix> WeightReader::matrix(const std::string& module, int64_t rows, int64_t cols) {
  // What was read before is packed by now.
  if (held_ > kMostHeld) {
    checkpoint_.let_go();
    held_ = 0;
  }
  WEIR_TRY(const Matrix m, checkpoint_.matrix(module, rows, cols));
  done_ += m.bytes();
  held_ += m.bytes();
  if (progress_) progress_(done_, checkpoint_.total_bytes());
  return m;
}

Result<std::unique_ptr<Linear>> WeightReader::pack(const std::vector<Part>& parts, int64_t cols, Use use) {
  std::vector<Matrix> matrices;
  for (const Part& part : parts) {
    WEIR_TRY(const Matrix m, matrix(part.module, part.rows, cols));
    matrices.push_back(m);
  }
  return steps_.pack(matrices, use);
}

Result<Vector> WeightReader::vector(const std::string& name, int64_t count) {
  WEIR_TRY(const std::vector<float> values, checkpoint_.values(name, count));
  return upload(values);
}

Result<Vector> WeightReader::upload(const std::vector<float>& values) {
  Vector v;
  v.count = static_cast<int64_t>(values.size());
  WEIR_TRY(v.values, steps_.allocate(values.size() * sizeof(float)));
  steps_.copy_in(v.values.data(), values.data(), values.size() * sizeof(float));
  return v;
}

std::vector<ExpertSource> split_experts(const Matrix& gate_up, const Matrix& down, int64_t count,
                                        int64_t wide) {
  const int64_t hidden = gate_up.cols;
  std::vector<ExpertSource> experts;
  for (int64_t e = 0; e < count; ++e) {
    experts.push_back({gate_up.slice(2 * e * wide, wide), gate_up.slice((2 * e + 1) * wide, wide),
                       down.slice(e * hidden, hidden)});
  }
  return experts;
}

}  // namespace weir
