// A model, loaded and ready to answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "chat/layout.h"
#include "checkpoint/checkpoint.h"
#include "cli/options.h"
#include "generate/defaults.h"
#include "generate/draft.h"
#include "generate/generator.h"
#include "kernels/observe/timed_steps.h"
#include "kernels/steps.h"
#include "models/diffusion_gemma/model.h"
#include "models/qwen/model.h"
#include "text/tokenizer.h"

namespace weir::cli {

struct Engine {
  std::string folder;
  uint64_t checkpoint_bytes = 0;
  std::unique_ptr<const Tokenizer> tokenizer;  // grammars and answers point at it
  GenerationDefaults defaults;
  std::unique_ptr<ThreadPool> pool;  // the model's steps run on it
  std::unique_ptr<Generator> generator;
  ChatLayout layout = ChatLayout::kQwen;
  TimedSteps* timed = nullptr;  // the generator's steps, when they were to be timed
};

struct EngineOptions {
  int64_t parallel = 1;  // answers that will be generated together
  Draft draft = Draft::kOff;
  bool timed = false;  // measure each step; passes take longer
};

// Error: kOutOfMemory when the system gives this process fewer threads.
Result<std::unique_ptr<ThreadPool>> make_pool(int threads);

// The backend that the flags ask for. The pool must outlive the steps.
Result<std::unique_ptr<Steps>> make_steps(const BackendOptions& options, ThreadPool& pool);

// Pack the weights, with a progress bar on a terminal. They make room for passes that `answers` share, or
// that denoise `canvases` together.
Result<std::unique_ptr<qwen::Model>> load_qwen(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                               const BackendOptions& options, int64_t answers = 1,
                                               bool draft_head = false);
Result<std::unique_ptr<diffusion_gemma::Model>> load_diffusion_gemma(Checkpoint checkpoint,
                                                                     std::unique_ptr<Steps> steps,
                                                                     const BackendOptions& options,
                                                                     int64_t canvases = 1);

// Finds the model, then reads tokenizer, defaults and weights.
Result<Engine> load_engine(const ModelOptions& model, const BackendOptions& backend,
                           const EngineOptions& options = {});

}  // namespace weir::cli
