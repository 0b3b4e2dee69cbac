#include "cli/engine.h"

#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/synthetic.h"
#include "cli/model_folder.h"
#include "cli/progress_bar.h"
#include "kernels/cpu/cpu_steps.h"
#include "kernels/cuda/cuda_steps.h"
#include "kernels/reference/reference_steps.h"

namespace weir::cli {

Result<std::unique_ptr<Steps>> make_steps(const BackendOptions& options, ThreadPool& pool) {
  if (options.device == "cuda") return make_cuda_steps(0);
  if (options.device == "reference") return make_reference_steps();
  WEIR_TRY(const Isa isa, options.chosen_isa());
  return make_cpu_steps(pool, isa);
}

Result<std::unique_ptr<qwen::Model>> load_model(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                                const BackendOptions& options) {
  ProgressBar bar("loading");
  const auto progress = [&bar](uint64_t done, uint64_t total) { bar.update(done, total); };
  const qwen::LoadOptions load{.max_rows = options.chunk, .max_wanted = 1};
  return qwen::Model::load(std::move(checkpoint), std::move(steps), load, progress);
}

Result<Engine> load_engine(const ModelOptions& model, const BackendOptions& backend) {
  if (model.model.starts_with(kSyntheticPrefix)) {
    return Error{Code::kUnsupported, "a synthetic model has no tokenizer and nothing to say",
                 "synthetic models are for weir inspect and weir bench"};
  }
  auto pool = std::make_unique<ThreadPool>(backend.chosen_threads());
  WEIR_TRY(std::unique_ptr<Steps> steps, make_steps(backend, *pool));
  WEIR_TRY(std::string folder, model_folder(model.model));
  WEIR_TRY(Checkpoint checkpoint, Checkpoint::open(folder));
  WEIR_TRY(Tokenizer tokenizer, Tokenizer::load(folder + "/tokenizer.json"));
  WEIR_TRY(GenerationDefaults defaults, read_generation_defaults(folder));
  const uint64_t bytes = checkpoint.total_bytes();
  WEIR_TRY(auto loaded, load_model(std::move(checkpoint), std::move(steps), backend));
  return Engine{std::move(folder),   bytes,           std::move(tokenizer),
                std::move(defaults), std::move(pool), std::move(loaded)};
}

}  // namespace weir::cli
