// A tensor as a file holds it: a name, a type, a shape and the mapped bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

enum class Dtype { kBool, kI8, kU8, kI16, kU16, kF16, kBf16, kI32, kU32, kF32, kI64, kU64, kF64 };

std::string_view dtype_name(Dtype dtype);  // as safetensors spells it: "BF16", "U32", ...
size_t dtype_size(Dtype dtype);            // bytes per element

// `data` lies in the mapped file and may start at an odd address: load from it with memcpy, never through a
// cast pointer. It is as long as dtype and shape say.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;

  int64_t elements() const;
};

// Element `i` of a BF16, F16 or F32 tensor's bytes.
float load_float(Dtype dtype, const std::byte* data, int64_t i);

std::string shape_text(std::span<const int64_t> shape);  // "[32, 256, 8]"

}  // namespace weir
