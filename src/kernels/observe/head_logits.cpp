#include "kernels/observe/head_logits.h"

#include <cmath>

namespace weir {
namespace {

double dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

std::vector<float> rms_norm(const float* x, const Vector& gain, float epsilon) {
  std::vector<float> out(x, x + gain.count);
  const double mean = dot(x, x, gain.count) / static_cast<double>(gain.count);
  const double scale = 1 / std::sqrt(mean + static_cast<double>(epsilon));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(static_cast<double>(out[i]) * scale) * gain.floats()[i];
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Vocabulary>> HeadLogits::pack_vocabulary(const Matrix& embedding, float scale) {
  embedding_.resize(static_cast<size_t>(embedding.rows * embedding.cols));
  for (int64_t row = 0; row < embedding.rows; ++row) {
    decode_row(embedding, row, embedding_.data() + row * embedding.cols);
  }
  return inner().pack_vocabulary(embedding, scale);
}

void HeadLogits::norm_head(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain, float epsilon,
                           const Vocabulary& vocabulary, float softcap, const CanvasBatch& batch) {
  inner().norm_head(beliefs, x, first_row, gain, epsilon, vocabulary, softcap, batch);
  const double cap = static_cast<double>(softcap);
  logits_.clear();
  for (const Inquiry& inquiry : batch.inquiries) {
    const auto normed = rms_norm(x.row(inquiry.row - first_row), gain, epsilon);
    for (int64_t token = 0; token < vocabulary.rows(); ++token) {
      const double y = dot(normed.data(), embedding_.data() + token * gain.count, gain.count);
      logits_.push_back(static_cast<float>(cap * std::tanh(y / cap)));
    }
  }
}

}  // namespace weir
