// Byte pair encoding: which neighbouring tokens merge, in which order (Sennrich et al., "Neural machine
// translation of rare words with subword units", ACL 2016).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::text {

struct Merge {
  int32_t left = -1;  // token ids; -1 marks an empty slot of the table
  int32_t right = -1;
  int32_t merged = -1;
  uint32_t rank = 0;  // smaller merges first
};

// Merges by pair: an open-addressing table with linear probing, at most half full.
class Merges {
 public:
  // Of two merges for the same pair the later one holds.
  void insert(const Merge& merge);

  // Null where the pair does not merge; `left` and `right` may be any ids.
  const Merge* find(int32_t left, int32_t right) const;

 private:
  size_t home(int32_t left, int32_t right) const;
  void place(const Merge& merge);
  void grow();

  std::vector<Merge> slots_;  // a power of two, or empty
  size_t used_ = 0;
};

// Applies merges to one word until none is left: the lowest rank first, leftmost on ties. O(n log n) for a
// word of n tokens. Keeps its buffers between words; not for use from several threads at once.
class WordMerger {
 public:
  // Replaces `word` by the tokens it merges into.
  void merge(const Merges& merges, std::vector<int32_t>& word);

 private:
  struct Symbol {
    int32_t id;        // -1 once merged into the symbol before it
    int32_t previous;  // positions; -1 at the ends of the word
    int32_t next;
  };

  void offer(const Merges& merges, int32_t left);
  void apply(const Merges& merges, uint64_t candidate);

  std::vector<Symbol> symbols_;
  std::vector<uint64_t> candidates_;  // heap of rank << 32 | position of the left symbol
};

}  // namespace weir::text
