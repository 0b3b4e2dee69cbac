#include "cli/engine.h"

#include <array>
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

namespace {

// The prompt layout is made of these; a tokenizer without them belongs to another model.
constexpr std::array kControlTokens = {"<|im_start|>", "<|im_end|>", "<think>", "</think>"};

Status check_tokenizer(const Tokenizer& tokenizer, int64_t vocabulary, const std::string& folder) {
  const auto wrong = [&](const std::string& what) {
    return Error{Code::kCorrupt, folder + "/tokenizer.json " + what,
                 "take tokenizer and weights from one model"};
  };
  for (const char* name : kControlTokens) {
    const auto id = tokenizer.find(name);
    if (!id || !tokenizer.is_added(*id)) return wrong(std::string("has no added token ") + name);
  }
  if (tokenizer.vocab_size() <= vocabulary) return {};
  return wrong("has token ids up to " + std::to_string(tokenizer.vocab_size() - 1) + ", and the model " +
               std::to_string(vocabulary) + " tokens");
}

Status check_end_tokens(const GenerationDefaults& defaults, const Tokenizer& tokenizer,
                        const std::string& folder) {
  for (const int32_t id : defaults.end_tokens) {
    if (tokenizer.has_token(id)) continue;
    return Error{Code::kCorrupt,
                 folder + ": eos_token_id " + std::to_string(id) +
                     " of its configuration is no token of tokenizer.json",
                 "take all files of the folder from one model"};
  }
  return {};
}

}  // namespace

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
  WEIR_RETURN_IF_ERROR(check_end_tokens(defaults, tokenizer, folder));
  WEIR_TRY(auto loaded, load_model(std::move(checkpoint), std::move(steps), backend));
  WEIR_RETURN_IF_ERROR(check_tokenizer(tokenizer, loaded->config().vocabulary, folder));
  return Engine{std::move(folder),   bytes,           std::move(tokenizer),
                std::move(defaults), std::move(pool), std::move(loaded)};
}

}  // namespace weir::cli
