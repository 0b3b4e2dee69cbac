#include "checkpoint/finite.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace weir {
namespace {

// A value is finite unless its exponent bits are all ones. The inner loop has no early exit, so it
// vectorises.
template <class Word>
std::optional<int64_t> first_with_full_exponent(Word exponent, const std::byte* data, int64_t count) {
  constexpr int64_t kBlock = 4096;
  const auto is_full = [&](int64_t i) {
    Word word;
    std::memcpy(&word, data + static_cast<size_t>(i) * sizeof word, sizeof word);
    return static_cast<Word>(word & exponent) == exponent;
  };
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    Word any = 0;
    for (int64_t i = begin; i < end; ++i) any |= static_cast<Word>(is_full(i));
    for (int64_t i = begin; any != 0 && i < end; ++i) {
      if (is_full(i)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> first_non_finite(Dtype dtype, const std::byte* data, int64_t count) {
  switch (dtype) {
    case Dtype::kBf16:
      return first_with_full_exponent<uint16_t>(0x7f80, data, count);
    case Dtype::kF16:
      return first_with_full_exponent<uint16_t>(0x7c00, data, count);
    case Dtype::kF32:
      return first_with_full_exponent<uint32_t>(0x7f800000, data, count);
    default:
      WEIR_CHECK(false);
  }
}

}  // namespace weir
