// The batch in GPU memory (pass_view.h).
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/pass_view.h"
#include "kernels/state.h"

namespace weir::cuda {

class PassTable {
 public:
  explicit PassTable(LaunchQueue& queue) : queue_(queue) {}

  // Sends the batch to the GPU, unless it is known to be there. Addresses change only when the batch outgrows
  // a power of two: of rows, segments or pages.
  Status set(const Batch& batch);

  const PassView& view() const { return view_; }
  int64_t max_pages() const { return max_pages_; }  // reserved by any segment
  int64_t max_segment_rows() const { return max_segment_rows_; }

  // Where a kernel may write what the next pass reads, if that continues this one row; else nulls. `advanced`
  // says that it has been asked to: a new token, one position further.
  NextRow next_row() const;
  void advanced();

 private:
  void fill(const Batch& batch);

  bool is_one_row() const { return view_.segment_count == 1 && max_segment_rows_ == 1; }

  LaunchQueue& queue_;
  Buffer memory_;
  std::vector<std::byte> staged_;
  std::vector<std::byte> sent_;  // what the GPU's copy holds; a token that the host does not know is kUnknown
  PassView view_;
  int64_t max_pages_ = 0;
  int64_t max_segment_rows_ = 0;
};

}  // namespace weir::cuda
