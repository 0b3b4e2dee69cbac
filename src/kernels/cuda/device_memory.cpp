#include "kernels/cuda/device_memory.h"

#include <algorithm>
#include <string>

namespace weir::cuda {
namespace {

constexpr size_t aligned(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

std::string size_text(size_t bytes) {
  if (bytes < 1'000'000'000) return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
  const std::string tenths = std::to_string(bytes / 100'000'000 % 10);
  return std::to_string(bytes / 1'000'000'000) + "." + tenths + " GB";
}

Result<Buffer> allocate_device(LaunchQueue& queue, size_t bytes) {
  void* data = nullptr;
  const size_t asked = std::max<size_t>(bytes, 16);
  if (cudaMalloc(&data, asked) != cudaSuccess) {
    cudaGetLastError();
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    return Error{
        Code::kOutOfMemory,
        "the GPU has no room for " + size_text(asked) + ": " + size_text(available) + " of " +
            size_text(total) + " are free",
        "close other programs on the GPU, use a shorter context or a smaller prefill chunk, or choose "
        "another GPU"};
  }
  queue.check(cudaMemsetAsync(data, 0, asked, queue.stream()), "clearing memory");
  return Buffer(data, bytes, [](void* p, size_t) { cudaFree(p); });
}

size_t raw_bytes(const Matrix& m) {
  const auto rows = static_cast<size_t>(m.rows);
  return aligned(rows * m.weight_row_bytes()) + 2 * aligned(rows * m.scale_row_bytes());
}

RawMatrix upload_raw(LaunchQueue& queue, void* to, const Matrix& m) {
  const auto rows = static_cast<size_t>(m.rows);
  const size_t weight = rows * m.weight_row_bytes(), scales = rows * m.scale_row_bytes();
  auto* at = static_cast<uint8_t*>(to);
  const auto copy = [&](const std::byte* from, size_t bytes) {
    const uint8_t* here = at;
    queue.check(cudaMemcpyAsync(at, from, bytes, cudaMemcpyHostToDevice, queue.stream()), "copying weights");
    at += aligned(bytes);
    return here;
  };
  RawMatrix raw;
  raw.rows = static_cast<int32_t>(m.rows);
  raw.cols = static_cast<int32_t>(m.cols);
  raw.bits = m.encoding.bits;
  raw.group = m.encoding.group;
  raw.type = m.encoding.dtype == Dtype::kBf16  ? RawType::kBf16
             : m.encoding.dtype == Dtype::kF16 ? RawType::kF16
                                               : RawType::kF32;
  raw.weight = copy(m.weight, weight);
  if (m.encoding.affine()) {
    raw.scales = copy(m.scales, scales);
    raw.biases = copy(m.biases, scales);
  }
  return raw;
}

Status Staging::upload(const Matrix& a, const Matrix* b) {
  const size_t first = raw_bytes(a), bytes = first + (b != nullptr ? raw_bytes(*b) : 0);
  if (bytes > memory_.bytes()) {
    queue_.check(cudaStreamSynchronize(queue_.stream()), "waiting for the GPU");
    memory_ = {};
    WEIR_TRY(memory_, allocate_device(queue_, bytes));
  }
  first_ = upload_raw(queue_, memory_.data(), a);
  if (b != nullptr) second_ = upload_raw(queue_, static_cast<uint8_t*>(memory_.data()) + first, *b);
  return queue_.take_error();
}

}  // namespace weir::cuda
