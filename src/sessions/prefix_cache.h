// Sequences that answers can start from, so that what a prompt has in common with an earlier one is not read
// again.
//
// An entry is a sequence's whole state: recurrent states are its own, pages of keys and values are shared
// with every sequence that has the same beginning (kernels/state.h), so an entry costs its recurrent states,
// its last page and a handle for each other page. What the cache hands out is a copy that shares pages
// likewise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/result.h"
#include "generate/generation.h"
#include "generate/generator.h"
#include "sessions/prefix_tree.h"
#include "sessions/state_bytes.h"

namespace weir {

class PrefixCache {
 public:
  // An entry that gives way to others, before it goes.
  using Evicted = std::function<void(std::span<const int32_t> tokens, const SequenceState& state)>;

  // Entries take up to `most_bytes` together. The generator must outlive the cache.
  PrefixCache(Generator& generator, uint64_t most_bytes) : generator_(generator), most_bytes_(most_bytes) {}

  void on_eviction(Evicted evicted) { evicted_ = std::move(evicted); }

  struct Match {
    HeldSequence held;   // to start the answer from; empty when there is nothing
    int64_t common = 0;  // tokens that the prompt has in common with any entry; at least those reused
  };
  // Errors: those of Generator::copy.
  Result<Match> find(std::span<const int32_t> prompt);

  // Keeps the sequence. What was used longest ago gives way; where sequences part, what they have in common
  // is as recent as the latest of them.
  void insert(HeldSequence held);

  bool contains(std::span<const int32_t> tokens);
  uint64_t bytes() const { return bytes_.total(); }
  int64_t size() const { return static_cast<int64_t>(by_use_.size()); }

  // All entries, the one used longest ago first.
  void for_each(const std::function<void(std::span<const int32_t>, const SequenceState&)>& visit) const;

 private:
  PrefixNode* resumable(PrefixNode& node, int64_t position) const;
  void touch(PrefixNode& node);
  void mark_used(PrefixNode& node);
  void evict_oldest();

  Generator& generator_;
  uint64_t most_bytes_ = 0;
  Evicted evicted_;
  PrefixTree tree_;
  StateBytes bytes_;
  std::map<uint64_t, PrefixNode*> by_use_;
  uint64_t clock_ = 0;
};

}  // namespace weir
