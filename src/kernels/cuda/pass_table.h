// The batch in GPU memory (pass_view.h).
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/pass_view.h"
#include "kernels/state.h"

namespace weir::cuda {

class PassTable {
 public:
  explicit PassTable(LaunchQueue& queue) : queue_(queue) {}

  // Uploads the batch. Addresses change only when the batch outgrows a power of two: of rows, segments or
  // pages.
  Status set(const Batch& batch);

  const PassView& view() const { return view_; }
  int64_t max_pages() const { return max_pages_; }  // reserved by any segment
  int64_t max_segment_rows() const { return max_segment_rows_; }

  // One row of one segment: where the device may write the next token itself.
  int32_t* token() const { return const_cast<int32_t*>(view_.tokens); }
  int32_t* position() const { return const_cast<int32_t*>(view_.positions); }
  SegmentInfo* segment() const { return const_cast<SegmentInfo*>(view_.segments); }

 private:
  void fill(const Batch& batch);

  LaunchQueue& queue_;
  Buffer memory_;
  std::vector<std::byte> staged_;
  PassView view_;
  int64_t max_pages_ = 0;
  int64_t max_segment_rows_ = 0;
};

}  // namespace weir::cuda
