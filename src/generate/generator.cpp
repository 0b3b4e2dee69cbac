#include "generate/generator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "generate/autoregressive.h"
#include "generate/diffusion.h"

namespace weir {
namespace {

class AutoregressiveGenerator final : public Generator {
 public:
  explicit AutoregressiveGenerator(std::unique_ptr<qwen::Model> model) : model_(std::move(model)) {}

  Result<std::unique_ptr<Generation>> start(const Tokenizer& tokenizer, GenerationRequest request,
                                            GenerationCallbacks callbacks, HeldSequence&& held) override {
    return AutoregressiveGeneration::start(*model_, tokenizer, std::move(request), std::move(callbacks),
                                           std::move(held));
  }
  Status step(std::span<Generation* const> generations) override {
    std::vector<AutoregressiveGeneration*> ours;
    for (Generation* g : generations) ours.push_back(static_cast<AutoregressiveGeneration*>(g));
    return step_together(*model_, ours);
  }
  Status check(const Tokenizer& tokenizer, const GenerationRequest& request) const override {
    return AutoregressiveGeneration::check(*model_, tokenizer, request);
  }
  Result<SequenceState> copy(const SequenceState& state) override { return model_->copy(state); }
  Result<SequenceState> new_sequence() override { return model_->new_sequence(); }
  std::vector<size_t> page_bytes() const override {
    std::vector<size_t> bytes;
    for (const qwen::Layer& layer : model_->weights().layers) {
      if (layer.attention) bytes.push_back(model_->steps().kv_page_bytes(*layer.attention));
    }
    return bytes;
  }
  // A recurrent state cannot go back, and all positions are looked at.
  bool can_resume(const SequenceState& state, int64_t position) const override {
    const auto is_there = [](const Buffer& page) { return page.data() != nullptr; };
    return state.position == position && std::all_of(state.kv.begin(), state.kv.end(), [&](const auto& kv) {
             return std::all_of(kv.pages.begin(), kv.pages.end(), is_there);
           });
  }
  bool is_diffusion() const override { return false; }
  int64_t context() const override { return model_->config().context; }
  int64_t vocabulary() const override { return model_->config().vocabulary; }
  int64_t max_rows() const override { return model_->max_rows(); }
  Steps& steps() override { return model_->steps(); }
  std::vector<KernelUse> kernels() const override { return model_->kernels(); }
  uint64_t bytes_per_step() const override { return model_->bytes_per_token(0); }

 private:
  std::unique_ptr<qwen::Model> model_;
};

class DiffusionGenerator final : public Generator {
 public:
  explicit DiffusionGenerator(std::unique_ptr<diffusion_gemma::Model> model) : model_(std::move(model)) {}

  Result<std::unique_ptr<Generation>> start(const Tokenizer& tokenizer, GenerationRequest request,
                                            GenerationCallbacks callbacks, HeldSequence&& held) override {
    WEIR_TRY(auto generation, DiffusionGeneration::start(*model_, tokenizer, std::move(request),
                                                         std::move(callbacks), std::move(held)));
    return std::unique_ptr<Generation>(std::move(generation));
  }
  Status step(std::span<Generation* const> generations) override {
    std::vector<DiffusionGeneration*> ours;
    for (Generation* g : generations) ours.push_back(static_cast<DiffusionGeneration*>(g));
    return step_together(*model_, ours);
  }
  Status check(const Tokenizer&, const GenerationRequest& request) const override {
    return DiffusionGeneration::check(*model_, request);
  }
  Result<SequenceState> copy(const SequenceState& state) override { return model_->copy(state); }
  Result<SequenceState> new_sequence() override { return model_->new_sequence(); }
  std::vector<size_t> page_bytes() const override {
    std::vector<size_t> bytes;
    for (const diffusion_gemma::Layer& layer : model_->weights().layers) {
      bytes.push_back(model_->steps().diffusion()->kv_page_bytes(layer.attention));
    }
    return bytes;
  }
  bool can_resume(const SequenceState& state, int64_t position) const override {
    return model_->can_cut(state, position);
  }
  bool is_diffusion() const override { return true; }
  int64_t context() const override { return model_->config().context; }
  int64_t vocabulary() const override { return model_->config().vocabulary; }
  int64_t max_rows() const override { return model_->max_rows(); }
  Steps& steps() override { return model_->steps(); }
  std::vector<KernelUse> kernels() const override { return model_->kernels(); }
  uint64_t bytes_per_step() const override { return model_->bytes_per_pass(); }

 private:
  std::unique_ptr<diffusion_gemma::Model> model_;
};

}  // namespace

std::unique_ptr<Generator> make_generator(std::unique_ptr<qwen::Model> model) {
  return std::make_unique<AutoregressiveGenerator>(std::move(model));
}

std::unique_ptr<Generator> make_generator(std::unique_ptr<diffusion_gemma::Model> model) {
  return std::make_unique<DiffusionGenerator>(std::move(model));
}

}  // namespace weir
