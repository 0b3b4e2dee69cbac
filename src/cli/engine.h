// A model, loaded and ready to answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "cli/options.h"
#include "generate/defaults.h"
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

// Finds the model, then reads tokenizer, defaults and weights, with a progress bar on a terminal.
Result<Engine> load_engine(const ModelOptions& model, const BackendOptions& backend);

}  // namespace weir::cli
