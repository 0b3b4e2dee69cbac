// Affine quantisation that minimises its error, in MLX's format (see matrix.h).
#pragma once

#include <cstdint>
#include <span>

namespace weir {

// Quantises one row as quantize_row (affine.h) does, but looks for the scale and bias of each group that make
// the sum over its values of weight * (w - decoded)^2 small, where `decoded` is what a reader gets from the
// stored bfloat16 scale and bias: MLX's choice is where the search starts, so the error is never larger.
//
// `weights`, one for each column, are finite and at least 0: how much an error there matters. Empty: all
// matter alike. `row` is finite. Scales and biases come out as bfloat16 numbers.
void search_row(std::span<const float> row, std::span<const float> weights, int bits, int group,
                std::span<uint8_t> q, std::span<float> scales, std::span<float> biases);

}  // namespace weir
