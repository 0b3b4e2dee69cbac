// A model, loaded and ready to answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "cli/options.h"
#include "generate/defaults.h"
#include "kernels/steps.h"
#include "models/qwen/model.h"
#include "text/tokenizer.h"

namespace weir::cli {

struct Engine {
  std::string folder;
  uint64_t checkpoint_bytes = 0;
  Tokenizer tokenizer;
  GenerationDefaults defaults;
  std::unique_ptr<ThreadPool> pool;  // the model's steps run on it
  std::unique_ptr<qwen::Model> model;
};

// The backend that the flags ask for. The pool must outlive the steps.
Result<std::unique_ptr<Steps>> make_steps(const BackendOptions& options, ThreadPool& pool);

// Packs the weights, with a progress bar on a terminal.
Result<std::unique_ptr<qwen::Model>> load_model(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                                const BackendOptions& options);

// Finds the model, then reads tokenizer, defaults and weights.
Result<Engine> load_engine(const ModelOptions& model, const BackendOptions& backend);

}  // namespace weir::cli
