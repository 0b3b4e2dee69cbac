// A loaded model that answers, whichever way it generates: what callers that serve both kinds of model talk
// to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "generate/generation.h"
#include "generate/request.h"
#include "models/diffusion_gemma/model.h"
#include "models/qwen/model.h"
#include "text/tokenizer.h"

namespace weir {

class Generator {
 public:
  virtual ~Generator() = default;

  // Errors: those of AutoregressiveGeneration::start and DiffusionGeneration::start. The generator and
  // `tokenizer` must outlive the generation.
  virtual Result<std::unique_ptr<Generation>> start(const Tokenizer& tokenizer, GenerationRequest request,
                                                    GenerationCallbacks callbacks, HeldSequence&& held) = 0;

  // Whether `start` would take the request; its errors. From any thread, at any time.
  virtual Status check(const Tokenizer& tokenizer, const GenerationRequest& request) const = 0;

  // A copy of a sequence that goes on independently. Errors: kOutOfMemory, kDevice.
  virtual Result<SequenceState> copy(const SequenceState& state) = 0;

  // What a sequence is made of, for those who store it: an empty one, and the size of a page of each of its
  // kv.
  virtual Result<SequenceState> new_sequence() = 0;
  virtual std::vector<size_t> page_bytes() const = 0;

  // Whether an answer to a prompt that starts with the sequence's first `position` tokens, and then goes
  // another way, can reuse the sequence.
  virtual bool can_resume(const SequenceState& state, int64_t position) const = 0;

  // One step of each of these generations, which this generator started and which have not finished. They
  // share passes where the model can. Each takes the same steps as alone. Returns the first error; the
  // generations that it struck have ended.
  virtual Status step(std::span<Generation* const> generations) = 0;

  virtual bool is_diffusion() const = 0;
  virtual int64_t context() const = 0;     // positions the model was trained for
  virtual int64_t vocabulary() const = 0;  // rows of the head
  virtual int64_t max_rows() const = 0;    // of one pass
  virtual Steps& steps() = 0;
  virtual std::vector<KernelUse> kernels() const = 0;
  // Weights and states that a step must read at least: a token at position 0, or a pass over a canvas.
  virtual uint64_t bytes_per_step() const = 0;
};

std::unique_ptr<Generator> make_generator(std::unique_ptr<qwen::Model> model);
std::unique_ptr<Generator> make_generator(std::unique_ptr<diffusion_gemma::Model> model);

}  // namespace weir
