// The checks of the CUDA backend: every step against the reference on random inputs, then whole models
// against their goldens.
#pragma once

#include <span>
#include <string>

#include "device/report.h"
#include "kernels/steps.h"

namespace weir::bench {

// Sizes of a model's steps.
struct ModelShape {
  const char* name;
  int64_t hidden, experts, intermediate, heads, kv_heads, key_heads, value_heads;
  bool mixed;  // unusual encodings
};

inline constexpr ModelShape kTrueShape{"true", 2048, 256, 512, 16, 2, 16, 32, false};
inline constexpr ModelShape kPocketShape{"pocket", 256, 32, 64, 4, 1, 2, 4, false};
inline constexpr ModelShape kMixedShape{"mixed", 64, 16, 64, 4, 2, 2, 4, true};

struct CheckOptions {
  bool small_only = false;  // for compute-sanitizer
  int seeds = 2;
};

// Passes of these many rows, one after the other; two thirds of each belong to one sequence, the rest to
// another.
void check_attend(Report& report, Steps& cuda, const ModelShape& shape, std::span<const int64_t> passes,
                  uint64_t seed, const std::string& name);
void check_delta_rule(Report& report, Steps& cuda, const ModelShape& shape, std::span<const int64_t> passes,
                      uint64_t seed, const std::string& name);

void check_steps(Report& report, Steps& cuda, const CheckOptions& options);
// Choices on the device against the host's sampler, given the same logits.
void check_choices(Report& report, Steps& cuda, const CheckOptions& options);
void check_models(Report& report, const CheckOptions& options);

}  // namespace weir::bench
