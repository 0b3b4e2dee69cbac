#include "sessions/state_bytes.h"

namespace weir {
namespace {

template <class Visit>
void for_each_buffer(const SequenceState& state, Visit visit) {
  const auto present = [&](const Buffer& buffer) {
    if (buffer.data() != nullptr) visit(buffer);
  };
  for (const DeltaState& delta : state.delta) {
    present(delta.recurrent);
    present(delta.conv);
  }
  for (const KvCache& cache : state.kv) {
    for (const Buffer& page : cache.pages) present(page);
  }
}

}  // namespace

void StateBytes::add(const SequenceState& state) {
  for_each_buffer(state, [&](const Buffer& buffer) {
    if (holders_[buffer.data()]++ == 0) total_ += buffer.bytes();
  });
}

void StateBytes::remove(const SequenceState& state) {
  for_each_buffer(state, [&](const Buffer& buffer) {
    const auto held = holders_.find(buffer.data());
    if (--held->second > 0) return;
    total_ -= buffer.bytes();
    holders_.erase(held);
  });
}

}  // namespace weir
