#include "cli/text_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "cli/engine.h"
#include "cli/quantize_calibrate.h"
#include "kernels/observe/head_logits.h"
#include "models/diffusion_gemma/model.h"
#include "models/qwen/model.h"

namespace weir::cli {
namespace {

// Rows of a pass, each of which may have its logits asked for.
constexpr int64_t kRows = 64;

std::vector<size_t> all_from(const Passage& passage) {
  std::vector<size_t> indexes(passage.tokens.size() - passage.scored_from);
  std::iota(indexes.begin(), indexes.end(), passage.scored_from);
  return indexes;
}

class QwenReader final : public TextReader {
 public:
  explicit QwenReader(std::unique_ptr<qwen::Model> model) : model_(std::move(model)) {}

  int64_t vocabulary() const override { return model_->config().vocabulary; }
  uint64_t bytes_per_step() const override { return model_->bytes_per_token(0); }
  Importance importance(const InputEnergy& energy) const override {
    return importance_of(model_->weights(), energy);
  }
  std::vector<size_t> predicted(const Passage& passage, uint32_t) const override { return all_from(passage); }

  Result<std::span<const float>> logits(const Passage& passage, uint32_t) override {
    logits_.clear();
    WEIR_TRY(SequenceState state, model_->new_sequence());
    const std::span<const int32_t> fed = std::span(passage.tokens).first(passage.tokens.size() - 1);
    for (size_t at = 0; at < fed.size(); at += kRows) {
      const auto chunk = fed.subspan(at, std::min<size_t>(kRows, fed.size() - at));
      std::vector<int32_t> wanted;
      for (size_t i = 0; i < chunk.size(); ++i) {
        if (at + i + 1 >= passage.scored_from) wanted.push_back(static_cast<int32_t>(i));
      }
      const Segment segment{&state, 0, static_cast<int64_t>(chunk.size())};
      WEIR_TRY(const auto found, model_->run({.tokens = chunk, .segments = {&segment, 1}, .wanted = wanted}));
      logits_.insert(logits_.end(), found.begin(), found.end());
    }
    return std::span<const float>(logits_);
  }

 private:
  std::unique_ptr<qwen::Model> model_;
  std::vector<float> logits_;
};

class GemmaReader final : public TextReader {
 public:
  GemmaReader(std::unique_ptr<diffusion_gemma::Model> model, const HeadLogits& head, Reading reading)
      : model_(std::move(model)), head_(head), reading_(reading) {}

  int64_t vocabulary() const override { return model_->config().vocabulary; }
  uint64_t bytes_per_step() const override { return model_->bytes_per_pass(); }
  Importance importance(const InputEnergy& energy) const override {
    return importance_of(model_->weights(), energy);
  }

  std::vector<size_t> predicted(const Passage& passage, uint32_t number) const override {
    std::vector<size_t> indexes = all_from(passage);
    if (reading_ == Reading::kCausal) return indexes;
    const size_t end = passage.scored_from + static_cast<size_t>(model_->config().canvas);
    std::erase_if(indexes, [&](size_t i) { return i >= end || !is_noise(number, i - passage.scored_from); });
    return indexes;
  }

  Result<std::span<const float>> logits(const Passage& passage, uint32_t number) override {
    logits_.clear();
    WEIR_TRY(SequenceState state, model_->new_sequence());
    const std::vector<size_t> indexes = predicted(passage, number);
    if (reading_ == Reading::kDenoise) {
      WEIR_RETURN_IF_ERROR(feed(state, std::span(passage.tokens).first(passage.scored_from), {}));
      WEIR_RETURN_IF_ERROR(denoise(state, passage, number, indexes));
    } else {
      WEIR_RETURN_IF_ERROR(feed(state, std::span(passage.tokens).first(passage.tokens.size() - 1), indexes));
    }
    return std::span<const float>(logits_);
  }

 private:
  static DrawKey key(uint32_t number, size_t slot, Purpose purpose) {
    return {
        .seed = 0, .block = number, .step = 0, .position = static_cast<uint32_t>(slot), .purpose = purpose};
  }
  static bool is_noise(uint32_t number, size_t slot) {
    return random_uniform(key(number, slot, Purpose::kRenoise)) < 0.5f;
  }

  static Inquiry about(size_t row) {
    Inquiry inquiry;
    inquiry.row = static_cast<int32_t>(row);
    inquiry.soft_tokens = 0;
    return inquiry;
  }

  // Causal passes; `indexes` are the tokens of the passage that they predict.
  Status feed(SequenceState& state, std::span<const int32_t> tokens, const std::vector<size_t>& indexes) {
    for (size_t at = 0; at < tokens.size(); at += kRows) {
      const auto chunk = tokens.subspan(at, std::min<size_t>(kRows, tokens.size() - at));
      std::vector<Inquiry> inquiries;
      for (const size_t i : indexes) {
        if (i > at && i <= at + chunk.size()) inquiries.push_back(about(i - 1 - at));
      }
      const Segment segment{&state, 0, static_cast<int64_t>(chunk.size())};
      CanvasBatch batch;
      batch.tokens = chunk;
      batch.segments = {&segment, 1};
      batch.inquiries = inquiries;
      WEIR_RETURN_IF_ERROR(run(batch));
    }
    return Ok{};
  }

  // The first pass over a canvas that holds the passage with noise in it, and noise behind its end.
  Status denoise(SequenceState& state, const Passage& passage, uint32_t number,
                 const std::vector<size_t>& indexes) {
    const int64_t length = model_->config().canvas;
    WEIR_TRY(CanvasState canvas, model_->new_canvas());
    std::vector<int32_t> tokens, slots;
    std::vector<Inquiry> inquiries;
    for (size_t slot = 0; slot < static_cast<size_t>(length); ++slot) {
      const size_t i = passage.scored_from + slot;
      const bool noise = i >= passage.tokens.size() || is_noise(number, slot);
      const float random = random_uniform(key(number, slot, Purpose::kCanvas));
      tokens.push_back(noise ? static_cast<int32_t>(random * static_cast<float>(vocabulary()))
                             : passage.tokens[i]);
      slots.push_back(static_cast<int32_t>(slot));
    }
    for (const size_t i : indexes) {
      inquiries.push_back(about(i - passage.scored_from));
    }
    const CanvasSegment segment{&state, &canvas, state.position, length, 0, slots};
    CanvasBatch batch;
    batch.tokens = tokens;
    batch.canvases = {&segment, 1};
    batch.inquiries = inquiries;
    batch.conditioned = false;
    return run(batch);
  }

  Status run(const CanvasBatch& batch) {
    WEIR_RETURN_IF_ERROR(model_->run(batch));
    if (batch.inquiries.empty()) return Ok{};
    logits_.insert(logits_.end(), head_.logits().begin(), head_.logits().end());
    return Ok{};
  }

  std::unique_ptr<diffusion_gemma::Model> model_;
  const HeadLogits& head_;  // among the model's steps
  Reading reading_;
  std::vector<float> logits_;
};

}  // namespace

Result<std::unique_ptr<TextReader>> load_text_reader(const std::string& folder, const BackendOptions& backend,
                                                     Reading reading, ThreadPool& pool, InputEnergy* energy) {
  WEIR_TRY(Checkpoint checkpoint, Checkpoint::open(folder));
  WEIR_TRY(std::unique_ptr<Steps> steps, make_steps(backend, pool));
  if (energy != nullptr) steps = std::make_unique<EnergySteps>(std::move(steps), *energy);
  BackendOptions rows = backend;
  rows.chunk = kRows;
  if (!diffusion_gemma::is_diffusion_gemma(checkpoint)) {
    WEIR_TRY(auto model, load_qwen(std::move(checkpoint), std::move(steps), rows, kRows));
    return std::unique_ptr<TextReader>(std::make_unique<QwenReader>(std::move(model)));
  }
  if (backend.device == "cuda" || steps->diffusion() == nullptr) {
    return Error{Code::kUnsupported, "a diffusion model's distributions are read on the CPU only",
                 "--device cpu"};
  }
  auto watched = std::make_unique<StepsWithLogits>(std::move(steps));
  const HeadLogits& head = watched->head();
  WEIR_TRY(auto model, load_diffusion_gemma(std::move(checkpoint), std::move(watched), rows));
  return std::unique_ptr<TextReader>(std::make_unique<GemmaReader>(std::move(model), head, reading));
}

}  // namespace weir::cli
