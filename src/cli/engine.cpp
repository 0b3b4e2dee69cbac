#include "cli/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/synthetic.h"
#include "cli/model_folder.h"
#include "cli/progress_bar.h"
#include "kernels/cpu/cpu_steps.h"
#include "kernels/cuda/cuda_steps.h"
#include "kernels/reference/reference_steps.h"

namespace weir::cli {
namespace {

// A canvas and the block before it, which is committed in the same pass.
constexpr int64_t kRowsPerCanvas = 2 * kKvPage;

}  // namespace

Result<std::unique_ptr<ThreadPool>> make_pool(int threads) {
  auto pool = std::make_unique<ThreadPool>(threads);
  if (pool->threads() == threads) return pool;
  return Error{Code::kOutOfMemory,
               fmt::format("the system gives this process {} of {} threads", pool->threads(), threads),
               "take fewer --threads, or raise the limit on processes (ulimit -u)"};
}

Result<std::unique_ptr<Steps>> make_steps(const BackendOptions& options, ThreadPool& pool) {
  if (options.device == "cuda") return make_cuda_steps(0);
  if (options.device == "reference") return make_reference_steps();
  WEIR_TRY(const Isa isa, options.chosen_isa());
  return make_cpu_steps(pool, isa);
}

namespace {

// A bar that shows how much of the checkpoint has been packed.
class Loading {
 public:
  Progress progress() {
    return [this](uint64_t done, uint64_t total) { bar_.update(done, total); };
  }

 private:
  ProgressBar bar_{"loading"};
};

}  // namespace

Result<std::unique_ptr<qwen::Model>> load_qwen(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                               const BackendOptions& options, int64_t answers,
                                               bool draft_head) {
  Loading loading;
  return qwen::Model::load(std::move(checkpoint), std::move(steps),
                           {.max_rows = options.chunk, .max_wanted = answers, .draft_head = draft_head},
                           loading.progress());
}

Result<std::unique_ptr<diffusion_gemma::Model>> load_diffusion_gemma(Checkpoint checkpoint,
                                                                     std::unique_ptr<Steps> steps,
                                                                     const BackendOptions& options,
                                                                     int64_t canvases) {
  Loading loading;
  const int64_t rows = std::max(options.chunk, canvases * kRowsPerCanvas);
  return diffusion_gemma::Model::load(std::move(checkpoint), std::move(steps), rows, loading.progress());
}

namespace {

// The prompt layouts are made of these; a tokenizer without them belongs to another model.
std::span<const char* const> control_tokens(ChatLayout layout) {
  static constexpr std::array kQwen = {"<|im_start|>", "<|im_end|>", "<think>", "</think>"};
  static constexpr std::array kGemma = {"<bos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"};
  return layout == ChatLayout::kQwen ? std::span<const char* const>(kQwen) : kGemma;
}

Status check_tokenizer(const Tokenizer& tokenizer, ChatLayout layout, int64_t vocabulary,
                       const std::string& folder) {
  const auto wrong = [&](const std::string& what) {
    return Error{Code::kCorrupt, folder + "/tokenizer.json " + what,
                 "take tokenizer and weights from one model"};
  };
  for (const char* name : control_tokens(layout)) {
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

Result<std::unique_ptr<Generator>> load_generator(Checkpoint checkpoint, std::unique_ptr<Steps> steps,
                                                  const BackendOptions& backend,
                                                  const EngineOptions& options) {
  if (diffusion_gemma::is_diffusion_gemma(checkpoint)) {
    WEIR_TRY(auto model,
             load_diffusion_gemma(std::move(checkpoint), std::move(steps), backend, options.parallel));
    return make_generator(std::move(model));
  }
  const int64_t rows = options.draft == Draft::kOff ? 1 : 1 + kMostDrafts;  // with logits, of each answer
  WEIR_TRY(auto model, load_qwen(std::move(checkpoint), std::move(steps), backend, options.parallel * rows,
                                 options.draft == Draft::kHead));
  return make_generator(std::move(model));
}

}  // namespace

Result<Engine> load_engine(const ModelOptions& model, const BackendOptions& backend,
                           const EngineOptions& options) {
  if (model.model.starts_with(kSyntheticPrefix)) {
    return Error{Code::kUnsupported, "a synthetic model has no tokenizer and nothing to say",
                 "synthetic models are for weir inspect and weir bench"};
  }
  if (options.draft != Draft::kOff && backend.device == "cuda") {
    return Error{Code::kUnsupported, "--draft does not work with --device cuda, which chooses tokens itself",
                 "drafts are checked on the CPU"};
  }
  WEIR_TRY(auto pool, make_pool(backend.chosen_threads()));
  WEIR_TRY(std::unique_ptr<Steps> steps, make_steps(backend, *pool));
  TimedSteps* timed = nullptr;
  if (options.timed) {
    auto watched = std::make_unique<TimedSteps>(std::move(steps));
    timed = watched.get();
    steps = std::move(watched);
  }
  WEIR_TRY(std::string folder, model_folder(model.model));
  WEIR_TRY(Checkpoint checkpoint, Checkpoint::open(folder));
  WEIR_TRY(Tokenizer tokenizer, Tokenizer::load(folder + "/tokenizer.json"));
  WEIR_TRY(GenerationDefaults defaults, read_generation_defaults(folder));
  WEIR_RETURN_IF_ERROR(check_end_tokens(defaults, tokenizer, folder));
  const uint64_t bytes = checkpoint.total_bytes();
  const bool diffusion = diffusion_gemma::is_diffusion_gemma(checkpoint);
  const ChatLayout layout = diffusion ? ChatLayout::kGemma : ChatLayout::kQwen;
  WEIR_TRY(auto generator, load_generator(std::move(checkpoint), std::move(steps), backend, options));
  WEIR_RETURN_IF_ERROR(check_tokenizer(tokenizer, layout, generator->vocabulary(), folder));
  return Engine{std::move(folder),
                bytes,
                std::make_unique<const Tokenizer>(std::move(tokenizer)),
                std::move(defaults),
                std::move(pool),
                std::move(generator),
                layout,
                timed};
}

}  // namespace weir::cli
