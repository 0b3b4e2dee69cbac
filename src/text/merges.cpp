#include "text/merges.h"

#include <algorithm>
#include <functional>

namespace weir::text {
namespace {

constexpr size_t kSmallest = 64;

}  // namespace

// Fibonacci hashing: the high bits of the product, folded down.
size_t Merges::home(int32_t left, int32_t right) const {
  uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  key *= 0x9E3779B97F4A7C15u;
  return static_cast<size_t>(key ^ (key >> 32)) & (slots_.size() - 1);
}

void Merges::place(const Merge& merge) {
  size_t i = home(merge.left, merge.right);
  while (slots_[i].left >= 0 && (slots_[i].left != merge.left || slots_[i].right != merge.right)) {
    i = (i + 1) & (slots_.size() - 1);
  }
  if (slots_[i].left < 0) ++used_;
  slots_[i] = merge;
}

void Merges::grow() {
  std::vector<Merge> old(std::max(kSmallest, slots_.size() * 2));
  old.swap(slots_);
  used_ = 0;
  for (const Merge& merge : old) {
    if (merge.left >= 0) place(merge);
  }
}

void Merges::insert(const Merge& merge) {
  if ((used_ + 1) * 2 > slots_.size()) grow();
  place(merge);
}

const Merge* Merges::find(int32_t left, int32_t right) const {
  if (slots_.empty()) return nullptr;
  size_t i = home(left, right);
  while (slots_[i].left >= 0) {
    if (slots_[i].left == left && slots_[i].right == right) return &slots_[i];
    i = (i + 1) & (slots_.size() - 1);
  }
  return nullptr;
}

void WordMerger::offer(const Merges& merges, int32_t left) {
  const Symbol& symbol = symbols_[static_cast<size_t>(left)];
  if (symbol.next < 0) return;
  const Merge* merge = merges.find(symbol.id, symbols_[static_cast<size_t>(symbol.next)].id);
  if (merge == nullptr) return;
  candidates_.push_back(static_cast<uint64_t>(merge->rank) << 32 | static_cast<uint32_t>(left));
  std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
}

void WordMerger::apply(const Merges& merges, uint64_t candidate) {
  const auto at = static_cast<int32_t>(candidate & 0xffffffffu);
  Symbol& left = symbols_[static_cast<size_t>(at)];
  if (left.id < 0 || left.next < 0) return;
  Symbol& right = symbols_[static_cast<size_t>(left.next)];
  const Merge* merge = merges.find(left.id, right.id);
  // Another merge has changed the pair since it was offered.
  if (merge == nullptr || merge->rank != candidate >> 32) return;

  left.id = merge->merged;
  left.next = right.next;
  right.id = -1;
  if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = at;
  if (left.previous >= 0) offer(merges, left.previous);
  offer(merges, at);
}

void WordMerger::merge(const Merges& merges, std::vector<int32_t>& word) {
  const auto n = static_cast<int32_t>(word.size());
  symbols_.clear();
  candidates_.clear();
  for (int32_t i = 0; i < n; ++i) {
    symbols_.push_back({word[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1});
  }
  for (int32_t i = 0; i < n; ++i) offer(merges, i);
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    const uint64_t candidate = candidates_.back();
    candidates_.pop_back();
    apply(merges, candidate);
  }
  word.clear();
  for (int32_t i = 0; i >= 0 && n > 0; i = symbols_[static_cast<size_t>(i)].next) {
    word.push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

}  // namespace weir::text
