// A model's distributions over the next tokens of given texts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/quantize.h"
#include "cli/options.h"
#include "cli/passages.h"
#include "kernels/observe/input_energy.h"

namespace weir::cli {

// How a diffusion model reads: as a causal model, which commits tokens and checks canvases, or as the
// denoiser of one canvas in which half of the tokens are noise.
enum class Reading { kCausal, kDenoise };

class TextReader {
 public:
  virtual ~TextReader() = default;

  virtual int64_t vocabulary() const = 0;
  virtual uint64_t bytes_per_step() const = 0;  // Generator::bytes_per_step

  // The indexes of the passage's tokens that are predicted, ascending. The same for every model of one kind.
  virtual std::vector<size_t> predicted(const Passage& passage, uint32_t number) const = 0;

  // Their logits, [predicted, V]; valid until the next call. Errors: kInvalidArgument for a passage longer
  // than the context, those of the model.
  virtual Result<std::span<const float>> logits(const Passage& passage, uint32_t number) = 0;

  // What `energy` says about the columns of the model's matrices (cli/quantize_calibrate.h).
  virtual Importance importance(const InputEnergy& energy) const = 0;
};

// Loads the model of `folder`. The pool must outlive it, and `energy`, where given, which sums up what
// passes.
Result<std::unique_ptr<TextReader>> load_text_reader(const std::string& folder, const BackendOptions& backend,
                                                     Reading reading, ThreadPool& pool,
                                                     InputEnergy* energy = nullptr);

}  // namespace weir::cli
