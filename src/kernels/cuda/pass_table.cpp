#include "kernels/cuda/pass_table.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/chooser.h"

namespace weir::cuda {
namespace {

// Hands out parts of a block of memory: where a part is in the staged copy and on the device.
class Layout {
 public:
  template <class T>
  size_t take(size_t count) {
    const size_t at = (end_ + 15) / 16 * 16;
    end_ = at + count * sizeof(T);
    return at;
  }
  size_t bytes() const { return end_; }

 private:
  size_t end_ = 0;
};

constexpr int32_t kUnknown = -1;

size_t rounded(size_t count) {
  return std::bit_ceil(std::max<size_t>(count, 1));
}

}  // namespace

Status PassTable::set(const Batch& batch) {
  const size_t rows = rounded(batch.tokens.size()), wanted = rounded(batch.wanted.size());
  const size_t segments = rounded(batch.segments.size());
  const SequenceState& first = *batch.segments.front().state;
  max_pages_ = 1;
  max_segment_rows_ = 0;
  for (const Segment& segment : batch.segments) {
    for (const KvCache& cache : segment.state->kv) {
      max_pages_ = std::max(max_pages_, static_cast<int64_t>(cache.pages.size()));
    }
    max_segment_rows_ = std::max(max_segment_rows_, segment.rows);
  }
  const size_t page_stride = rounded(static_cast<size_t>(max_pages_));

  Layout layout;
  const size_t tokens_at = layout.take<int32_t>(rows), positions_at = layout.take<int32_t>(rows);
  const size_t segment_of_at = layout.take<int32_t>(rows), wanted_at = layout.take<int32_t>(wanted);
  const size_t segments_at = layout.take<SegmentInfo>(segments);
  const size_t recurrent_at = layout.take<void*>(segments * first.delta.size());
  const size_t conv_at = layout.take<void*>(segments * first.delta.size());
  const size_t pages_at = layout.take<void*>(segments * first.kv.size() * page_stride);
  if (layout.bytes() > memory_.bytes()) {
    queue_.check(cudaStreamSynchronize(queue_.stream()), "waiting for the GPU");
    sent_.clear();
    WEIR_TRY(memory_, allocate_device(queue_, 2 * layout.bytes()));
  }
  staged_.assign(layout.bytes(), std::byte{0});

  const auto* base = static_cast<const char*>(memory_.data());
  view_.tokens = reinterpret_cast<const int32_t*>(base + tokens_at);
  view_.positions = reinterpret_cast<const int32_t*>(base + positions_at);
  view_.segment_of = reinterpret_cast<const int32_t*>(base + segment_of_at);
  view_.wanted = reinterpret_cast<const int32_t*>(base + wanted_at);
  view_.segments = reinterpret_cast<const SegmentInfo*>(base + segments_at);
  view_.recurrent = reinterpret_cast<float* const*>(base + recurrent_at);
  view_.conv = reinterpret_cast<float* const*>(base + conv_at);
  view_.pages = reinterpret_cast<void* const*>(base + pages_at);
  view_.segment_count = static_cast<int32_t>(batch.segments.size());
  view_.delta_layers = static_cast<int32_t>(first.delta.size());
  view_.kv_layers = static_cast<int32_t>(first.kv.size());
  view_.page_stride = static_cast<int32_t>(page_stride);
  fill(batch);
  if (batch.chosen != nullptr && staged_ == sent_) return {};
  queue_.check(cudaMemcpyAsync(memory_.data(), staged_.data(), staged_.size(), cudaMemcpyHostToDevice,
                               queue_.stream()),
               "copying a batch");
  if (batch.chosen != nullptr) {
    queue_.check(cudaMemcpyAsync(const_cast<int32_t*>(view_.tokens),
                                 static_cast<const Chooser*>(batch.chosen)->token(), sizeof(int32_t),
                                 cudaMemcpyDeviceToDevice, queue_.stream()),
                 "copying a token");
  }
  sent_ = staged_;
  return {};
}

NextRow PassTable::next_row() const {
  if (!is_one_row()) return {};
  return {const_cast<int32_t*>(view_.tokens), const_cast<int32_t*>(view_.positions),
          const_cast<SegmentInfo*>(view_.segments)};
}

void PassTable::advanced() {
  if (!is_one_row()) return;
  const auto sent = [&]<class T>(const T* device) -> T& {
    return *reinterpret_cast<T*>(
        sent_.data() + (reinterpret_cast<const char*>(device) - static_cast<const char*>(memory_.data())));
  };
  sent(view_.tokens) = kUnknown;
  ++sent(view_.positions);
  ++sent(view_.segments).position;
}

void PassTable::fill(const Batch& batch) {
  const auto* base = static_cast<const char*>(memory_.data());
  // The staged copy of what a device address will hold.
  const auto staged = [&]<class T>(const T* device) {
    return reinterpret_cast<std::remove_const_t<T>*>(staged_.data() +
                                                     (reinterpret_cast<const char*>(device) - base));
  };
  std::copy(batch.tokens.begin(), batch.tokens.end(), staged(view_.tokens));
  if (batch.chosen != nullptr) *staged(view_.tokens) = kUnknown;
  std::copy(batch.wanted.begin(), batch.wanted.end(), staged(view_.wanted));
  for (size_t s = 0; s < batch.segments.size(); ++s) {
    const Segment& segment = batch.segments[s];
    const auto first = static_cast<int32_t>(segment.first_row), rows = static_cast<int32_t>(segment.rows);
    const auto position = static_cast<int32_t>(segment.state->position);
    staged(view_.segments)[s] = {first, rows, position, 0};
    for (int32_t r = 0; r < rows; ++r) {
      staged(view_.positions)[first + r] = position + r;
      staged(view_.segment_of)[first + r] = static_cast<int32_t>(s);
    }
    const size_t deltas = static_cast<size_t>(view_.delta_layers), kvs = static_cast<size_t>(view_.kv_layers);
    for (size_t i = 0; i < deltas; ++i) {
      staged(view_.recurrent)[s * deltas + i] = segment.state->delta[i].recurrent.floats();
      staged(view_.conv)[s * deltas + i] = segment.state->delta[i].conv.floats();
    }
    for (size_t i = 0; i < kvs; ++i) {
      const KvCache& cache = segment.state->kv[i];
      void** pages = staged(view_.pages) + (s * kvs + i) * static_cast<size_t>(view_.page_stride);
      for (size_t k = 0; k < cache.pages.size(); ++k) pages[k] = cache.pages[k].data();
    }
  }
}

}  // namespace weir::cuda
