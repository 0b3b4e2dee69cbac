#include "checkpoint/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/bf16.h"
#include "checkpoint/affine.h"
#include "checkpoint/matrix.h"
#include "checkpoint/quantize_files.h"
#include "checkpoint/quantize_plan.h"
#include "checkpoint/quantize_search.h"
#include "checkpoint/quote.h"
#include "checkpoint/safetensors_writer.h"

namespace weir {
namespace {

// Values that a thread quantises between two writes.
constexpr int64_t kBlockValues = int64_t{1} << 20;

std::vector<int64_t> with_last(std::vector<int64_t> shape, int64_t last) {
  shape.back() = last;
  return shape;
}

// One tensor of the input is one of the output, or three.
std::vector<TensorPlan> written_tensors(const QuantizePlan& plan) {
  std::vector<TensorPlan> tensors;
  for (const PlannedTensor& t : plan.tensors) {
    if (t.precision.plain()) {
      tensors.push_back({t.name, t.dtype(), t.shape});
      continue;
    }
    const auto groups = with_last(t.shape, t.cols() / t.precision.group);
    tensors.push_back(
        {t.name + ".weight", Dtype::kU32, with_last(t.shape, t.cols() * t.precision.bits / 32)});
    tensors.push_back({t.name + ".scales", Dtype::kBf16, groups});
    tensors.push_back({t.name + ".biases", Dtype::kBf16, groups});
  }
  return tensors;
}

Error not_finite(const PlannedTensor& tensor, int64_t row) {
  return Error{Code::kCorrupt,
               fmt::format("tensor {} holds NaN or infinity in row {}", quote(tensor.source->name),
                           tensor.source_row(row)),
               "the weights are damaged; download or convert them again"};
}

Matrix matrix_of(const PlannedTensor& tensor) {
  const TensorView& source = *tensor.source;
  return {{source.dtype, 0, 0},
          source.elements() / tensor.cols(),
          tensor.cols(),
          source.data.data(),
          nullptr,
          nullptr};
}

// Quantises rows of one tensor into bytes as they are written.
class RowQuantizer {
 public:
  RowQuantizer(const PlannedTensor& tensor, ScaleRule rule, std::span<const float> importance)
      : tensor_(tensor),
        rule_(rule),
        importance_(importance),
        source_(matrix_of(tensor)),
        values_(static_cast<size_t>(tensor.cols())),
        q_(values_.size()),
        scales_(values_.size() / static_cast<size_t>(tensor.precision.group)),
        biases_(scales_.size()) {}

  // False when the row is not finite.
  bool run(int64_t row, std::byte* packed, Bf16* scales, Bf16* biases) {
    decode_row(source_, tensor_.source_row(row), values_.data());
    for (float& value : values_) value = to_float(to_bf16(value));
    if (!std::all_of(values_.begin(), values_.end(), [](float v) { return std::isfinite(v); })) return false;
    const auto [bits, group] = tensor_.precision;
    if (rule_ == ScaleRule::kMlx) {
      quantize_row(values_, bits, group, q_, scales_, biases_);
    } else {
      search_row(values_, weights_of(row), bits, group, q_, scales_, biases_);
    }
    pack_row(q_, bits, packed);
    std::transform(scales_.begin(), scales_.end(), scales, to_bf16);
    std::transform(biases_.begin(), biases_.end(), biases, to_bf16);
    return true;
  }

 private:
  // Importances of a stack differ from expert to expert.
  std::span<const float> weights_of(int64_t row) const {
    const auto cols = static_cast<size_t>(tensor_.cols());
    if (importance_.size() <= cols) return importance_;
    const auto rows_per_expert = static_cast<size_t>(tensor_.shape[tensor_.shape.size() - 2]);
    return importance_.subspan(static_cast<size_t>(row) / rows_per_expert * cols, cols);
  }

  const PlannedTensor& tensor_;
  ScaleRule rule_;
  std::span<const float> importance_;
  Matrix source_;
  std::vector<float> values_;
  std::vector<uint8_t> q_;
  std::vector<float> scales_, biases_;
};

class Quantizer {
 public:
  Quantizer(const QuantizeJob& job, ThreadPool& pool, const std::atomic<bool>& cancelled,
            SafetensorsWriter& writer)
      : job_(job), pool_(pool), cancelled_(cancelled), writer_(writer) {}

  Status write(const PlannedTensor& tensor) {
    return tensor.precision.plain() ? write_plain(tensor) : write_affine(tensor);
  }

 private:
  Status check_cancelled() const {
    return cancelled_.load()
               ? Status(Error{Code::kCancelled, "interrupted; nothing is left of the output", ""})
               : Status(Ok{});
  }

  Status write_plain(const PlannedTensor& tensor) {
    WEIR_RETURN_IF_ERROR(check_cancelled());
    const TensorView& source = *tensor.source;
    if (tensor.add_one) return write_shifted(tensor);
    if (tensor.slice_rows == tensor.source_slice_rows) return writer_.write(source.data);
    const int64_t slices = tensor.rows() / tensor.slice_rows;
    const size_t row_bytes = static_cast<size_t>(tensor.cols()) * dtype_size(source.dtype);
    for (int64_t slice = 0; slice < slices; ++slice) {
      const auto first = static_cast<size_t>(tensor.source_row(slice * tensor.slice_rows));
      WEIR_RETURN_IF_ERROR(writer_.write(
          source.data.subspan(first * row_bytes, static_cast<size_t>(tensor.slice_rows) * row_bytes)));
    }
    return Ok{};
  }

  // gain = 1 + w, rounded once.
  Status write_shifted(const PlannedTensor& tensor) {
    const TensorView& source = *tensor.source;
    std::vector<float> values(static_cast<size_t>(source.elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = load_float(source.dtype, source.data.data(), static_cast<int64_t>(i)) + 1.0f;
    }
    if (tensor.dtype() == Dtype::kF32) return writer_.write(std::as_bytes(std::span(values)));
    std::vector<Bf16> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), to_bf16);
    return writer_.write(std::as_bytes(std::span(rounded)));
  }

  // Blocks of rows, divided over the threads; scales and biases follow behind the last.
  Status write_affine(const PlannedTensor& tensor) {
    const auto found = job_.importance.find(tensor.importance);
    const std::span<const float> importance =
        found == job_.importance.end() ? std::span<const float>() : std::span(found->second);
    const int64_t rows = tensor.rows(), cols = tensor.cols();
    const auto groups = static_cast<size_t>(cols / tensor.precision.group);
    const auto row_bytes = static_cast<size_t>(cols * tensor.precision.bits / 8);
    scales_.resize(static_cast<size_t>(rows) * groups);
    biases_.resize(scales_.size());
    const int64_t block = std::max<int64_t>(1, kBlockValues / cols) * pool_.threads();
    for (int64_t first = 0; first < rows; first += block) {
      WEIR_RETURN_IF_ERROR(check_cancelled());
      const int64_t count = std::min(block, rows - first);
      packed_.resize(static_cast<size_t>(count) * row_bytes);
      std::vector<int64_t> bad(static_cast<size_t>(pool_.threads()), -1);
      pool_.run([&](int thread) {
        RowQuantizer quantizer(tensor, job_.rule, importance);
        const Range range = part_of(count, thread, pool_.threads());
        for (int64_t i = range.begin; i < range.end; ++i) {
          const auto at = static_cast<size_t>(i), row = static_cast<size_t>(first + i);
          if (!quantizer.run(first + i, packed_.data() + at * row_bytes, scales_.data() + row * groups,
                             biases_.data() + row * groups)) {
            bad[static_cast<size_t>(thread)] = first + i;
            return;
          }
        }
      });
      for (const int64_t row : bad) {
        if (row >= 0) return not_finite(tensor, row);
      }
      WEIR_RETURN_IF_ERROR(writer_.write(packed_));
    }
    WEIR_RETURN_IF_ERROR(writer_.write(std::as_bytes(std::span(scales_))));
    return writer_.write(std::as_bytes(std::span(biases_)));
  }

  const QuantizeJob& job_;
  ThreadPool& pool_;
  const std::atomic<bool>& cancelled_;
  SafetensorsWriter& writer_;
  std::vector<std::byte> packed_;
  std::vector<Bf16> scales_, biases_;
};

}  // namespace

Result<QuantizeReport> quantize(const Checkpoint& checkpoint, const std::string& folder,
                                const QuantizeRecipe& recipe, const QuantizeJob& job, ThreadPool& pool,
                                const Progress& progress, const std::atomic<bool>& cancelled) {
  WEIR_TRY(const ModelFamily family, model_family(checkpoint));
  WEIR_TRY(QuantizePlan plan, plan_quantization(checkpoint, family, recipe));
  WEIR_TRY(const TextFile config, quantized_config(checkpoint, family, recipe.base(), plan));
  WEIR_TRY(const std::vector<TextFile> copied, copied_files(checkpoint.folder()));
  std::vector<TensorPlan> tensors = written_tensors(plan);
  QuantizeReport report;
  for (const TensorPlan& tensor : tensors) report.bytes += tensor.bytes();
  WEIR_TRY(SafetensorsWriter writer, SafetensorsWriter::create(folder, std::move(tensors), progress));
  WEIR_RETURN_IF_ERROR(writer.add_file(config.name, config.text));
  for (const TextFile& file : copied) WEIR_RETURN_IF_ERROR(writer.add_file(file.name, file.text));
  Quantizer quantizer(job, pool, cancelled, writer);
  for (const PlannedTensor& tensor : plan.tensors) {
    WEIR_RETURN_IF_ERROR(quantizer.write(tensor));
    report.matrices += tensor.precision.plain() ? 0 : 1;
  }
  WEIR_RETURN_IF_ERROR(writer.finish());
  report.plain_though = std::move(plan.notes);
  return report;
}

}  // namespace weir
