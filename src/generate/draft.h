// Guesses of an answer's next tokens, which one pass checks together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

enum class Draft {
  kOff,
  kLookup,  // what followed the last occurrence of the answer's last tokens (Saxena, prompt lookup decoding,
            // 2023)
  kHead,    // what the checkpoint's multi-token prediction head says
};

// Most tokens that a pass checks.
inline constexpr int64_t kMostDrafts = 4;

// Tokens that a draft head guesses: each costs a pass through head and vocabulary, and is less sure than the
// one before it. vLLM's recipe for Qwen3.6 takes as many.
inline constexpr int64_t kHeadDrafts = 2;

// The tokens, at most `most`, that followed the latest earlier occurrence of the last three tokens, or else
// of the last two. Empty when there is none.
std::vector<int32_t> lookup_draft(std::span<const int32_t> tokens, int64_t most);

// Whether drafting pays, by what passes with and without drafts have cost a token so far. Drafting that was
// found too dear pauses, longer each time, and is tried again.
class DraftGauge {
 public:
  bool pays() const { return pause_ == 0; }

  // A pass of `seconds` gave `tokens`. `drafted`: it checked drafts or fed again what a wrong one cost.
  void add(bool drafted, double seconds, int64_t tokens);

 private:
  // A mean that forgets: old passes count less and less.
  struct Cost {
    double seconds = 0, tokens = 0;

    void add(double more_seconds, double more_tokens);
    double per_token() const { return seconds / tokens; }
  };

  static constexpr int64_t kTrial = 8;  // passes before a verdict
  static constexpr int64_t kFirstPause = 32, kLongestPause = 1024;

  Cost plain_, drafted_;
  int64_t trial_ = 0;
  int64_t pause_ = kTrial;  // plain passes left; the first ones are there to compare with
  int64_t next_pause_ = kFirstPause;
};

}  // namespace weir
