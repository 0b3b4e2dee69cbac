// A safetensors file of any bytes, and a checkpoint made of whatever tensors it describes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/summary.h"

namespace {

// Every byte of every tensor must be readable and belong to no other tensor.
void check_views(const std::vector<weir::TensorView>& tensors, std::span<const std::byte> file) {
  const std::byte* expected = nullptr;
  for (const weir::TensorView& tensor : tensors) {
    const std::byte* begin = tensor.data.data();
    const std::byte* end = begin + tensor.data.size();
    if (expected != nullptr && begin != expected) std::abort();
    if (begin < file.data() || end > file.data() + file.size()) std::abort();
    expected = end;
  }
}

void read_matrices(weir::Checkpoint& checkpoint, const std::vector<weir::TensorView>& tensors) {
  for (const weir::TensorView& tensor : tensors) {
    std::string module = weir::canonical_name(tensor.name);
    if (module.ends_with(".weight")) module.resize(module.size() - 7);
    for (const int64_t bits : {2, 3, 4, 5, 6, 8, 32}) {
      const int64_t width = tensor.shape.empty() ? 1 : std::clamp<int64_t>(tensor.shape.back(), 0, 1 << 20);
      const int64_t cols = width * 32 / bits;
      const int64_t rows = width == 0 ? 0 : tensor.elements() / width;
      const auto matrix = checkpoint.matrix(module, rows, cols);
      if (!matrix.ok()) continue;
      std::vector<float> row(static_cast<size_t>(cols));
      decode_row(*matrix, matrix->rows - 1, row.data());
    }
    (void)checkpoint.values(weir::canonical_name(tensor.name), tensor.elements());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto tensors = weir::parse_safetensors(file, "fuzz.safetensors");
  if (!tensors.ok()) return 0;
  check_views(*tensors, file);
  auto checkpoint = weir::Checkpoint::from_memory("fuzz", nlohmann::json::object(), *tensors, nullptr);
  if (!checkpoint.ok()) return 0;
  (void)weir::summarize(*checkpoint);
  read_matrices(*checkpoint, *tensors);
  if (tensors->size() == 1 && !checkpoint->finish().ok()) std::abort();
  return 0;
}
