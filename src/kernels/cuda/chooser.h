// Choosing tokens on the GPU: the host side of choose.cu.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/kernels.h"
#include "kernels/token_chooser.h"

namespace weir::cuda {

class Backend;

class Chooser final : public TokenChooser {
 public:
  // Null when the vocabulary is too large for choose.cu. Errors: kOutOfMemory, kDevice.
  static Result<std::unique_ptr<TokenChooser>> make(Backend& backend, const ChoiceRules& rules,
                                                    std::span<const int32_t> prompt);
  ~Chooser() override;

  void choose(Rows logits) override;
  Result<int32_t> take() override;

  // On the device: what was chosen last.
  const int32_t* token() const { return &state_.progress->token; }

 private:
  explicit Chooser(Backend& backend) : backend_(backend) {}

  Status open(const ChoiceRules& rules, std::span<const int32_t> prompt);
  Status count_history(const ChoiceRules& rules, std::span<const int32_t> prompt);
  Status spread_bias(const ChoiceRules& rules);

  Backend& backend_;
  ChoiceState state_ = {};
  Buffer progress_, history_, bias_;
  std::array<cudaEvent_t, kChoiceRing> chosen_ = {};  // one for each place of the ring
  uint32_t queued_ = 0;
  uint32_t taken_ = 0;
};

}  // namespace weir::cuda
