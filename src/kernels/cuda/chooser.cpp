#include "kernels/cuda/chooser.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/backend.h"

namespace weir::cuda {
namespace {

Error bad_logits(int32_t what) {
  return Error{Code::kInternal,
               std::string("the model produced ") +
                   (what == kBadLogits ? "a logit that is NaN or infinite" : "no logit above -inf"),
               "the checkpoint or the kernel in use may be faulty; compare with the reference kernels"};
}

bool has_penalties(const ChoiceRules& rules) {
  return rules.presence_penalty != 0 || rules.frequency_penalty != 0 || rules.repetition_penalty != 1;
}

}  // namespace

Result<std::unique_ptr<TokenChooser>> Chooser::make(Backend& backend, const ChoiceRules& rules,
                                                    std::span<const int32_t> prompt) {
  if (rules.vocabulary > largest_choice()) return std::unique_ptr<TokenChooser>();
  std::unique_ptr<Chooser> chooser(new Chooser(backend));
  WEIR_RETURN_IF_ERROR(chooser->open(rules, prompt));
  return std::unique_ptr<TokenChooser>(std::move(chooser));
}

Status Chooser::open(const ChoiceRules& rules, std::span<const int32_t> prompt) {
  LaunchQueue& queue = backend_.queue_;
  queue.flush();
  WEIR_TRY(progress_, allocate_device(queue, sizeof(ChoiceProgress)));
  const ChoiceProgress start{0, static_cast<uint32_t>(prompt.size()), 0, 0};
  backend_.copy_in(progress_.data(), &start, sizeof(start));
  queue.check(cudaHostAlloc(reinterpret_cast<void**>(&state_.ring), kChoiceRing * sizeof(int32_t),
                            cudaHostAllocDefault),
              "allocating memory for tokens");
  for (cudaEvent_t& event : chosen_) {
    queue.check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  }
  state_.progress = static_cast<ChoiceProgress*>(progress_.data());
  state_.seed = rules.seed;
  state_.sequence = rules.sequence;
  state_.vocabulary = static_cast<int32_t>(rules.vocabulary);
  state_.top_k = static_cast<int32_t>(std::clamp<int64_t>(rules.top_k, 0, rules.vocabulary));
  state_.temperature = rules.temperature;
  state_.top_p = rules.top_p;
  state_.min_p = rules.min_p;
  state_.presence_penalty = rules.presence_penalty;
  state_.frequency_penalty = rules.frequency_penalty;
  state_.repetition_penalty = rules.repetition_penalty;
  if (has_penalties(rules)) WEIR_RETURN_IF_ERROR(count_history(rules, prompt));
  if (!rules.logit_bias.empty()) WEIR_RETURN_IF_ERROR(spread_bias(rules));
  return queue.take_error();
}

Status Chooser::count_history(const ChoiceRules& rules, std::span<const int32_t> prompt) {
  std::vector<int32_t> seen(static_cast<size_t>(rules.vocabulary));
  for (const int32_t token : prompt) seen[static_cast<size_t>(token)] = 1;
  WEIR_TRY(history_, allocate_device(backend_.queue_, seen.size() * sizeof(int32_t)));
  backend_.copy_in(history_.data(), seen.data(), seen.size() * sizeof(int32_t));
  state_.history = static_cast<int32_t*>(history_.data());
  return {};
}

Status Chooser::spread_bias(const ChoiceRules& rules) {
  std::vector<float> bias(static_cast<size_t>(rules.vocabulary));
  for (const auto& [token, value] : rules.logit_bias) bias[static_cast<size_t>(token)] += value;
  WEIR_TRY(bias_, allocate_device(backend_.queue_, bias.size() * sizeof(float)));
  backend_.copy_in(bias_.data(), bias.data(), bias.size() * sizeof(float));
  state_.bias = bias_.floats();
  return {};
}

Chooser::~Chooser() {
  cudaStreamSynchronize(backend_.queue_.stream());
  if (backend_.chooser_ == this) backend_.chooser_ = nullptr;
  for (const cudaEvent_t event : chosen_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (state_.ring != nullptr) cudaFreeHost(state_.ring);
}

// The kernel's parameters are the same for every answer, so that one recorded graph serves them all: the
// rules lie in scratch, and change hands when answers take turns.
void Chooser::choose(Rows logits) {
  WEIR_CHECK(queued_ - taken_ < kChoiceRing);
  LaunchQueue& queue = backend_.queue_;
  void* rules = backend_.scratch_.choice.data();
  if (backend_.chooser_ != this) {
    queue.check(cudaMemcpyAsync(rules, &state_, sizeof(state_), cudaMemcpyHostToDevice, queue.stream()),
                "copying the rules of a choice");
    backend_.chooser_ = this;
  }
  choose_token(queue, logits.floats(), static_cast<const ChoiceState*>(rules), state_.vocabulary,
               backend_.table_.next_row());
  backend_.table_.advanced();
  queue.flush();
  queue.check(cudaEventRecord(chosen_[queued_ % kChoiceRing], queue.stream()), "recording an event");
  ++queued_;
}

Result<int32_t> Chooser::take() {
  WEIR_CHECK(taken_ < queued_);
  const uint32_t place = taken_++ % kChoiceRing;
  backend_.queue_.check(cudaEventSynchronize(chosen_[place]), "waiting for the GPU");
  WEIR_RETURN_IF_ERROR(backend_.take_failure());
  const int32_t token = *static_cast<volatile int32_t*>(state_.ring + place);
  if (token < 0) return bad_logits(token);
  return token;
}

}  // namespace weir::cuda
