// NaN and infinity in stored numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "checkpoint/tensor.h"

namespace weir {

// Index of the first NaN or infinity among `count` BF16, F16 or F32 values; nothing when all are finite. Runs
// at memory speed, so that gigabytes of scales can be checked while they are loaded.
std::optional<int64_t> first_non_finite(Dtype dtype, const std::byte* data, int64_t count);

}  // namespace weir
